// Reads elements of every type; half precision is widened by hand.
#include "core/trace/element_difference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/trace/text.hpp"

namespace crucible::trace {

namespace {

template <class Number>
Number read_as(const std::byte* from) {
  Number number;
  std::memcpy(&number, from, sizeof number);
  return number;
}

float widen_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

float widen_f16(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16;
  const std::uint32_t exponent = bits >> 10 & 31u, fraction = bits & 1023u;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent == 0) {  // zero and subnormal numbers: fraction x 2^-24
    const float size = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -size : size;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

std::string float_text(float number) {
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

struct Element {
  double real = 0, imaginary = 0;
  std::string text;  // only when it was asked for
};

Element read_element(const std::byte* from, DType dtype, bool with_text) {
  Element read;
  const auto integer = [&](auto number) {
    read.real = static_cast<double>(number);
    if (with_text) read.text = std::to_string(number);
  };
  const auto real = [&](float number) {
    read.real = number;
    if (with_text) read.text = float_text(number);
  };
  switch (dtype) {
    case DType::kBool: {
      const auto number = read_as<std::uint8_t>(from);
      read.real = number;
      if (with_text) read.text = number == 0 ? "false" : number == 1 ? "true" : std::to_string(number);
      break;
    }
    case DType::kU8:
    case DType::kOther: integer(read_as<std::uint8_t>(from)); break;
    case DType::kI8: integer(read_as<std::int8_t>(from)); break;
    case DType::kI16: integer(read_as<std::int16_t>(from)); break;
    case DType::kI32: integer(read_as<std::int32_t>(from)); break;
    case DType::kI64: integer(read_as<std::int64_t>(from)); break;
    case DType::kF16: real(widen_f16(read_as<std::uint16_t>(from))); break;
    case DType::kBF16: real(widen_bf16(read_as<std::uint16_t>(from))); break;
    case DType::kF32: real(read_as<float>(from)); break;
    case DType::kF64:
      read.real = read_as<double>(from);
      if (with_text) read.text = double_text(read.real);
      break;
    case DType::kC64:
      read.real = read_as<float>(from);
      read.imaginary = read_as<float>(from + 4);
      if (with_text)
        read.text = fmt::format("({}, {}i)", float_text(read_as<float>(from)), float_text(read_as<float>(from + 4)));
      break;
    case DType::kC128:
      read.real = read_as<double>(from);
      read.imaginary = read_as<double>(from + 8);
      if (with_text) read.text = fmt::format("({}, {}i)", double_text(read.real), double_text(read.imaginary));
      break;
  }
  return read;
}

/// Infinities of the same sign are no distance apart.
double distance(double a, double b) { return a == b ? 0 : std::abs(a - b); }

}  // namespace

ElementDifference compare_elements(std::span<const std::byte> a, std::span<const std::byte> b, DType dtype) {
  const std::size_t size = std::max<std::size_t>(size_bytes(dtype), 1);
  ElementDifference found;
  found.elements = std::min(a.size(), b.size()) / size;
  for (std::uint64_t i = 0; i < found.elements; ++i) {
    const std::byte* const in_a = a.data() + i * size;
    const std::byte* const in_b = b.data() + i * size;
    if (std::memcmp(in_a, in_b, size) == 0) continue;
    const bool is_first = found.differing++ == 0;
    const Element x = read_element(in_a, dtype, is_first), y = read_element(in_b, dtype, is_first);
    if (is_first) {
      found.first = i;
      found.first_a = x.text;
      found.first_b = y.text;
    }
    const double far = std::hypot(distance(x.real, y.real), distance(x.imaginary, y.imaginary));
    if (std::isnan(far) || far > found.max_abs_difference) found.max_abs_difference = far;
  }
  return found;
}

std::string difference_text(std::span<const std::byte> a, std::span<const std::byte> b, DType dtype) {
  if (a.size() != b.size()) return fmt::format("{} bytes against {}", a.size(), b.size());
  const ElementDifference found = compare_elements(a, b, dtype);
  if (found.differing == 0) return "the last bytes, which are no whole element";
  return fmt::format("element {} of {} is {} against {}; {} differ{}, by at most {}", found.first, found.elements,
                     found.first_a, found.first_b, found.differing, found.differing == 1 ? "s" : "",
                     double_text(found.max_abs_difference));
}

}  // namespace crucible::trace
