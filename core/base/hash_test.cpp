#include "core/base/hash.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string_view>
#include <vector>

namespace crucible {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(ContentHash, EqualsThePublishedVectors) {
  EXPECT_EQ(sha256(bytes_of("")).hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256(bytes_of("abc")).hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Checksum, ChangesWithEveryBit) {
  std::vector<std::byte> data(37, std::byte{0x5a});
  const std::uint64_t whole = checksum64(data);
  for (std::size_t bit = 0; bit < 8 * data.size(); ++bit) {
    data[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_NE(checksum64(data), whole) << "bit " << bit;
    data[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  EXPECT_EQ(checksum64(data), whole);
}

}  // namespace
}  // namespace crucible
