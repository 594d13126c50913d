// Keys: golden vectors that a program of its own computed from docs/store.md, no two keys with one hash, and back.
#include "store/key.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <set>
#include <span>

#include "store/testing/store_samples.hpp"

namespace crucible::store {
namespace {

using ::testing::HasSubstr;

ContentHash region() { return sha256(std::as_bytes(std::span(std::string_view("region")))); }

ActionKey sample() {
  return {"kernel",
          region(),
          "sm_90",
          "strict",
          "nvrtc 12.4",
          {{"unroll", 4u}, {"contract", false}},
          {{"n", 1024u},
           {"shift", -1},
           {"scale", Float32(0.5f)},
           {"last", true},
           {"type", DType::kBF16},
           {"layout", std::string("rows")}}};
}

TEST(ActionKey, HasTheHashOfItsLayout) {
  EXPECT_EQ(hash_of(ActionKey{}).hex(), "17434e03857c6aa6a40d04322f4d76f3fc2b695e4d60446e3883d7bcb54a81cc");
  EXPECT_EQ(hash_of(sample()).hex(), "a102248df9b9ca9fc9bb151415033cc82b219450c5825db7382d572776fd8926");
}

TEST(ActionKey, ComesBackFromItsBytes) {
  const auto back = decode(encode(sample()));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, sample());
  const std::string whole = encode(sample());
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(decode(whole.substr(0, size))) << size;
  EXPECT_FALSE(decode(whole + '\0'));
}

TEST(ActionKey, OfAnotherVersionOrWithNamesOutOfOrderIsNone) {
  std::string bytes = encode(sample());
  bytes[19] = 2;  // the version
  const auto other = decode(bytes);
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("another version"));
  ActionKey two;
  two.options = {{"a", 1u}, {"b", 1u}};
  bytes = encode(two);
  const std::size_t a = bytes.find(std::string("\1\0\0\0a", 5)), b = bytes.find(std::string("\1\0\0\0b", 5));
  ASSERT_NE(a, std::string::npos);
  ASSERT_NE(b, std::string::npos);
  std::swap(bytes[a + 4], bytes[b + 4]);
  EXPECT_FALSE(decode(bytes));
}

// Every value differs from every other in one thing alone: a type, a bit, where a length ends.
TEST(ActionKey, NoTwoKeysHaveOneHash) {
  const Value values[] = {0u,
                          1u,
                          0,
                          1,
                          -1,
                          std::numeric_limits<std::uint32_t>::max(),
                          Float32(0.0f),
                          Float32(-0.0f),
                          Float32(1.0f),
                          Float32(std::numeric_limits<float>::quiet_NaN()),
                          Float32(-std::numeric_limits<float>::quiet_NaN()),
                          false,
                          true,
                          DType::kBool,
                          DType::kU8,
                          DType::kOther,
                          std::string(),
                          std::string("0"),
                          std::string("1"),
                          std::string(1, '\0'),
                          std::string(1, '\1'),
                          std::string(4, '\0')};
  std::set<ContentHash> seen;
  std::size_t count = 0;
  const auto add = [&](const ActionKey& key) {
    ++count;
    EXPECT_TRUE(seen.insert(hash_of(key)).second) << "key " << count;
    const auto back = decode(encode(key));
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(*back, key);
  };
  add({});
  for (const Value& value : values) {
    for (const char* name : {"a", "b", "ab", ""}) {
      add({.kind = {},
           .region = {},
           .target = {},
           .numerics = {},
           .toolchain = {},
           .options = {{name, value}},
           .specialisation = {}});
      add({.kind = {},
           .region = {},
           .target = {},
           .numerics = {},
           .toolchain = {},
           .options = {},
           .specialisation = {{name, value}}});
    }
  }
  ActionKey key;
  key.options = {{"a", std::string("b")}, {"c", std::string("d")}};
  add(key);
  key.options = {{"a", std::string("bc")}, {"d", std::string()}};
  add(key);
  for (std::string ActionKey::*const field :
       {&ActionKey::kind, &ActionKey::target, &ActionKey::numerics, &ActionKey::toolchain}) {
    ActionKey one;
    one.*field = "x";
    add(one);
    one.*field = "xx";
    add(one);
  }
  ActionKey other;
  other.region.bytes[31] = 1;
  add(other);
}

TEST(ActionKey, DifferencesNameTheField) {
  ActionKey other = sample();
  EXPECT_TRUE(differences(sample(), other).empty());
  other.options["unroll"] = 4;  // another type
  other.specialisation.erase("n");
  other.toolchain = "nvrtc 12.5";
  const std::vector<Difference> expected = {{"toolchain", "nvrtc 12.4", "nvrtc 12.5"},
                                            {"options.unroll", "u32 4", "i32 4"},
                                            {"specialisation.n", "u32 1024", ""}};
  EXPECT_EQ(differences(sample(), other), expected);
  other = sample();
  other.specialisation["scale"] = Float32(-0.0f);
  EXPECT_EQ(differences(sample(), other)[0].b, "f32 -0 (0x80000000)");
}

TEST(ActionKey, BytesThatWereChangedAreAnotherKeyOrNone) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 20'000; ++trial) {
    const std::string bytes = testing::mutated(encode(sample()), random);
    const auto key = decode(bytes);
    if (key) {
      EXPECT_EQ(encode(*key), bytes);
    }
  }
}

TEST(ContentHashText, IsRead) {
  const auto hash = parse_hash(region().hex());
  ASSERT_TRUE(hash);
  EXPECT_EQ(*hash, region());
  EXPECT_FALSE(parse_hash(region().hex().substr(1)));
  EXPECT_FALSE(parse_hash("../../../../../../../../../../../../../../../../../../etc/passwdxx"));
}

}  // namespace
}  // namespace crucible::store
