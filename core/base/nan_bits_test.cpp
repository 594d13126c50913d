// Every bit pattern of the half types, the borders of the others.
#include "core/base/nan_bits.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace crucible {
namespace {

template <class T>
std::vector<std::byte> bytes_of(std::initializer_list<T> values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

TEST(NanBits, EveryHalf) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const int fraction_bits = dtype == DType::kF16 ? 10 : 7;
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const auto word = static_cast<std::uint16_t>(bits);
      std::vector<std::byte> bytes = bytes_of<std::uint16_t>({word});
      const std::uint32_t exponent = (bits & 0x7fff) >> fraction_bits, highest = 0x7fffu >> fraction_bits;
      const bool is_nan = exponent == highest && (bits & ((1u << fraction_bits) - 1)) != 0;
      const std::uint16_t canonical = dtype == DType::kF16 ? 0x7e00 : 0x7fc0, wanted = is_nan ? canonical : word;
      const bool is_changed = canonicalize_nan(dtype, bytes);
      if (is_changed == (wanted != word) && bytes == bytes_of<std::uint16_t>({wanted})) continue;
      ADD_FAILURE() << name(dtype) << " " << bits;
    }
  }
}

TEST(NanBits, BordersOfTheWideOnes) {
  const std::vector<std::byte> numbers = bytes_of<std::uint32_t>({0x7f800000, 0xff800000, 0x80000000, 0x7f7fffff});
  std::vector<std::byte> same = numbers;
  EXPECT_FALSE(canonicalize_nan(DType::kF32, same));
  EXPECT_EQ(same, numbers);
  std::vector<std::byte> nans = bytes_of<std::uint32_t>({0x7f800001, 0xffffffff, 0x7fc00000, 0xffc00000});
  EXPECT_TRUE(canonicalize_nan(DType::kF32, nans));
  EXPECT_EQ(nans, bytes_of<std::uint32_t>({0x7fc00000, 0x7fc00000, 0x7fc00000, 0x7fc00000}));
  std::vector<std::byte> wide = bytes_of<std::uint64_t>({0x7ff0000000000001, 0xfff8000000000000, 0xfff0000000000000});
  EXPECT_TRUE(canonicalize_nan(DType::kF64, wide));
  EXPECT_EQ(wide, bytes_of<std::uint64_t>({0x7ff8000000000000, 0x7ff8000000000000, 0xfff0000000000000}));
  // Both parts of a complex number; integers have no NaN.
  std::vector<std::byte> complex = bytes_of<std::uint32_t>({0xffc00001, 0x3f800000, 0x3f800000, 0xffc00001});
  EXPECT_TRUE(canonicalize_nan(DType::kC64, complex));
  EXPECT_EQ(complex, bytes_of<std::uint32_t>({0x7fc00000, 0x3f800000, 0x3f800000, 0x7fc00000}));
  std::vector<std::byte> integers = bytes_of<std::uint32_t>({0xffc00001});
  EXPECT_FALSE(canonicalize_nan(DType::kI32, integers));
}

TEST(NanBits, SameBits) {
  const auto a = bytes_of<std::uint32_t>({0x3f800000, 0x7fc00000}),
             b = bytes_of<std::uint32_t>({0x3f800000, 0xffc12345});
  EXPECT_TRUE(same_bits(DType::kF32, a, b));
  EXPECT_FALSE(same_bits(DType::kI32, a, b));
  EXPECT_FALSE(same_bits(DType::kF32, a, bytes_of<std::uint32_t>({0x3f800001, 0xffc12345})));
  EXPECT_FALSE(same_bits(DType::kF32, a, bytes_of<std::uint32_t>({0x3f800000, 0x7f800000}))) << "an infinity is no NaN";
  EXPECT_FALSE(same_bits(DType::kF32, bytes_of<std::uint32_t>({0}), bytes_of<std::uint32_t>({0x80000000})))
      << "a zero has its sign";
  EXPECT_FALSE(same_bits(DType::kF32, a, std::span(b).first(4)));
  EXPECT_TRUE(same_bits(DType::kF32, {}, {}));
}

TEST(NanBits, CopiesWhereThereIsSomethingToName) {
  std::vector<std::byte> storage;
  const auto numbers = bytes_of<float>({1, 2, std::numeric_limits<float>::infinity()});
  EXPECT_EQ(with_canonical_nan(DType::kF32, numbers, storage).data(), numbers.data());
  const auto nans = bytes_of<std::uint32_t>({0x3f800000, 0xffc00000});
  const auto named = with_canonical_nan(DType::kF32, nans, storage);
  EXPECT_EQ(std::vector<std::byte>(named.begin(), named.end()), bytes_of<std::uint32_t>({0x3f800000, 0x7fc00000}));
}

}  // namespace
}  // namespace crucible
