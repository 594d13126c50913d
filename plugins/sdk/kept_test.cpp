// What plugins keep, across the boundary: keys whole, bytes whole, claims, and hosts that keep nothing.
#include "plugins/sdk/kept.hpp"

#include <gtest/gtest.h>

#include "plugins/layers/kept_in_memory.hpp"
#include "plugins/sdk/host.hpp"

namespace crucible::sdk {
namespace {

class SdkKept : public testing::Test {
 protected:
  SdkKept() {
    layers::kept_in_memory::memory().kept.clear();
    host_.struct_size = sizeof host_;
    host_.abi_minor = CRUCIBLE_ABI_MINOR;
    host_.find_kept = layers::kept_in_memory::find;
    host_.free_kept = layers::kept_in_memory::give_back;
    host_.keep = layers::kept_in_memory::keep;
    host_.claim_kept = layers::kept_in_memory::claim;
    host_.unclaim_kept = layers::kept_in_memory::unclaim;
    set_host(&host_);
  }
  ~SdkKept() override { set_host(nullptr); }
  crucible_host_api host_ = {};
  const KeptKey key_{.content = "text", .target = "gfx942", .toolchain = "hiprtc 6", .options = "-O3"};
};

TEST_F(SdkKept, KeepsWhatWasPutIn) {
  const std::string bytes("a\0b\n\xff", 5);
  EXPECT_TRUE(keeps());
  EXPECT_EQ(find_kept(key_), "");
  EXPECT_TRUE(keep(key_, bytes));
  EXPECT_EQ(find_kept(key_), bytes);
}

TEST_F(SdkKept, EveryPartOfTheKeyCounts) {
  EXPECT_TRUE(keep(key_, "bytes"));
  for (std::string KeptKey::* part :
       {&KeptKey::content, &KeptKey::target, &KeptKey::toolchain, &KeptKey::options, &KeptKey::kind}) {
    KeptKey other = key_;
    other.*part += "x";
    EXPECT_EQ(find_kept(other), "");
  }
}

TEST_F(SdkKept, ManyKeysAreAskedForAtOnce) {
  std::vector<KeptKey> keys(3, key_);
  keys[0].content = "one";
  keys[2].content = "two";
  EXPECT_TRUE(keep(std::span(keys).first(1), "bytes of one"));
  EXPECT_TRUE(keep(std::span(keys).last(1), "bytes of two"));
  const auto found = find_kept(keys);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(*found[0], "bytes of one");
  EXPECT_EQ(found[1], nullptr);
  EXPECT_EQ(*found[2], "bytes of two");
}

TEST_F(SdkKept, AClaimIsOfOneAtATime) {
  KeptClaims mine, theirs;
  EXPECT_TRUE(mine.claim(key_));
  EXPECT_FALSE(theirs.claim(key_));
  mine.release_all();
  EXPECT_TRUE(theirs.claim(key_));
}

TEST_F(SdkKept, AHostBefore06KeepsNothingAndClaimsEverything) {
  host_.struct_size = offsetof(crucible_host_api, find_kept);
  set_host(&host_);
  EXPECT_FALSE(keeps());
  EXPECT_FALSE(keep(key_, "bytes"));
  EXPECT_EQ(find_kept(key_), "");
  KeptClaims mine, theirs;
  EXPECT_TRUE(mine.claim(key_));
  EXPECT_TRUE(theirs.claim(key_));
}

}  // namespace
}  // namespace crucible::sdk
