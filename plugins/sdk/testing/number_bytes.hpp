// Numbers for the tests of vendors' libraries, as bytes of f32, f16 and bf16, and back. `dtype` is DType's number, part
// of the ABI.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace crucible::backend {

inline constexpr std::uint32_t kF16 = 6, kBF16 = 7, kF32 = 8;

inline std::size_t size_of(std::uint32_t dtype) { return dtype == kF32 ? 4 : 2; }

/// n / 8 for n from -8 to 8: every type holds them.
inline std::vector<double> numbers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<double> values(count);
  for (double& value : values) value = static_cast<double>(static_cast<int>(random() % 17) - 8) / 8;
  return values;
}

inline std::vector<std::byte> bytes_of(const std::vector<double>& values, std::uint32_t dtype) {
  std::vector<std::byte> bytes(values.size() * size_of(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto number = static_cast<float>(values[i]);
    const auto half = static_cast<_Float16>(number);
    const auto brain = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(number) >> 16);
    std::memcpy(bytes.data() + i * size_of(dtype),
                dtype == kF32   ? static_cast<const void*>(&number)
                : dtype == kF16 ? static_cast<const void*>(&half)
                                : &brain,
                size_of(dtype));
  }
  return bytes;
}

inline double number_at(const std::vector<std::byte>& bytes, std::size_t i, std::uint32_t dtype) {
  float number = 0;
  _Float16 half = 0;
  std::uint16_t brain = 0;
  std::memcpy(dtype == kF32   ? static_cast<void*>(&number)
              : dtype == kF16 ? static_cast<void*>(&half)
                              : &brain,
              bytes.data() + i * size_of(dtype), size_of(dtype));
  return static_cast<double>(dtype == kF32   ? number
                             : dtype == kF16 ? static_cast<float>(half)
                                             : std::bit_cast<float>(static_cast<std::uint32_t>(brain) << 16));
}

}  // namespace crucible::backend
