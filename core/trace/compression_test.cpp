// What is packed, what is left alone, and false sizes.
#include "core/trace/compression.hpp"

#include <gtest/gtest.h>

#include <random>

namespace crucible::trace {
namespace {

std::vector<std::byte> noise(std::size_t size) {
  std::mt19937_64 random(1);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(Compression, RoundTrips) {
  for (const std::size_t size : {64u, 1000u, 300'000u, 5'000'000u}) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i / 100);
    const auto frame = compress_if_smaller(bytes);
    ASSERT_TRUE(frame);
    ASSERT_FALSE(frame->empty()) << size;
    EXPECT_LT(frame->size(), size);
    const auto raw = decompress(*frame, size);
    ASSERT_TRUE(raw) << raw.error().message;
    EXPECT_EQ(*raw, bytes);
  }
}

TEST(Compression, LeavesNoiseAndSmallThingsAlone) {
  for (const std::size_t size : {0u, 1u, 63u, 100u, 100'000u, 3'000'000u}) {
    const auto frame = compress_if_smaller(noise(size));
    ASSERT_TRUE(frame);
    EXPECT_TRUE(frame->empty()) << size;
  }
}

TEST(Compression, RefusesFalseSizes) {
  const std::vector<std::byte> zeros(100'000);
  const auto frame = compress_if_smaller(zeros);
  ASSERT_TRUE(frame);
  for (const std::uint64_t size :
       {std::uint64_t{0}, std::uint64_t{99'999}, std::uint64_t{100'001}, std::uint64_t{1} << 60, ~std::uint64_t{0}}) {
    EXPECT_FALSE(decompress(*frame, size)) << size;
  }
  const auto impossible = decompress(*frame, 1ull << 60);
  EXPECT_NE(impossible.error().message.find("1152921504606846976 bytes cannot be packed into"), std::string::npos);
}

TEST(Compression, RefusesDamagedFrames) {
  const std::vector<std::byte> zeros(100'000);
  auto frame = *compress_if_smaller(zeros);
  frame.pop_back();
  EXPECT_FALSE(decompress(frame, zeros.size()));
  EXPECT_FALSE(decompress(noise(50), zeros.size()));
  EXPECT_FALSE(decompress({}, 0));
}

}  // namespace
}  // namespace crucible::trace
