#include "runtime/run/kept_blobs.hpp"

#include <gtest/gtest.h>

#include <map>

namespace crucible::runtime {
namespace {

/// Blob i has i bytes of the number i; blob 13 is damaged.
class CountingStore final : public trace::BlobStore {
 public:
  Result<std::vector<std::byte>> load(trace::BlobId id) const override {
    ++loads[id];
    if (id == 13) return Error{ErrorCode::kBadInput, "blob 13 is damaged"};
    return std::vector<std::byte>(id, static_cast<std::byte>(id));
  }
  mutable std::map<trace::BlobId, int> loads;
};

std::shared_ptr<CountingStore> store() { return std::make_shared<CountingStore>(); }

TEST(KeptBlobs, WhatIsLoadedTwiceIsUnpackedTwiceAtMost) {
  const auto counting = store();
  const KeptBlobs kept(counting);
  for (int i = 0; i < 5; ++i) {
    const auto bytes = kept.load(7);
    ASSERT_TRUE(bytes);
    EXPECT_EQ(*bytes, std::vector<std::byte>(7, std::byte{7}));
  }
  EXPECT_EQ(counting->loads[7], 2);
}

TEST(KeptBlobs, NoMoreThanTheLimitIsKept) {
  const auto counting = store();
  const KeptBlobs kept(counting, 20);
  for (int i = 0; i < 4; ++i) {
    for (const trace::BlobId id : {12u, 11u, 8u}) ASSERT_TRUE(kept.load(id));
  }
  EXPECT_EQ(counting->loads[12], 2);
  EXPECT_EQ(counting->loads[11], 4);  // does not fit beside the first
  EXPECT_EQ(counting->loads[8], 2);
}

TEST(KeptBlobs, ErrorsComeEveryTime) {
  const KeptBlobs kept(store());
  for (int i = 0; i < 3; ++i) {
    const auto bytes = kept.load(13);
    ASSERT_FALSE(bytes);
    EXPECT_EQ(bytes.error().message, "blob 13 is damaged");
  }
}

}  // namespace
}  // namespace crucible::runtime
