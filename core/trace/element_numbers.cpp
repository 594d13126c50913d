#include "core/trace/element_numbers.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>

namespace crucible::trace {
namespace {

double half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const double fraction = bits & 1023;
  const double size = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

template <class T>
T read_as(std::span<const std::byte> bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

std::vector<double> numbers_in(std::span<const std::byte> bytes, DType dtype) {
  const std::size_t size = size_bytes(dtype);
  std::vector<double> numbers;
  for (std::size_t i = 0; size > 0 && (i + 1) * size <= bytes.size(); ++i) {
    switch (dtype) {
      case DType::kBool:
      case DType::kU8:
        numbers.push_back(read_as<std::uint8_t>(bytes, i));
        break;
      case DType::kI8:
        numbers.push_back(read_as<std::int8_t>(bytes, i));
        break;
      case DType::kI16:
        numbers.push_back(read_as<std::int16_t>(bytes, i));
        break;
      case DType::kI32:
        numbers.push_back(read_as<std::int32_t>(bytes, i));
        break;
      case DType::kI64:
        numbers.push_back(static_cast<double>(read_as<std::int64_t>(bytes, i)));
        break;
      case DType::kF16:
        numbers.push_back(half(read_as<std::uint16_t>(bytes, i)));
        break;
      case DType::kBF16: {
        const std::uint32_t bits = static_cast<std::uint32_t>(read_as<std::uint16_t>(bytes, i)) << 16;
        float value;
        std::memcpy(&value, &bits, sizeof(value));
        numbers.push_back(value);
        break;
      }
      case DType::kF32:
        numbers.push_back(read_as<float>(bytes, i));
        break;
      case DType::kF64:
        numbers.push_back(read_as<double>(bytes, i));
        break;
      default:
        return {};
    }
  }
  return numbers;
}

}  // namespace crucible::trace
