// Element-wise comparison of raw tensor bytes by dtype, in double precision.
#include "runtime/judge/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "core/base/nan_bits.hpp"
#include "runtime/judge/elements.hpp"

namespace crucible::runtime {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kSmallest = std::numeric_limits<float>::min();

template <class T>
T load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

double half_to_double(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  double magnitude = 0;
  if (exponent == 31) {
    magnitude = mantissa == 0 ? kInfinity : std::numeric_limits<double>::quiet_NaN();
  } else {
    magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  }
  return bits >> 15 ? -magnitude : magnitude;
}

/// |a - b|, where equal infinities and two NaNs are equal, and everything else that is not finite is infinitely far.
double distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  if (!std::isfinite(a) || !std::isfinite(b)) return kInfinity;
  return std::abs(a - b);
}

/// `body` with distance() of two elements at addresses, which is exact for integers that double cannot tell apart.
template <class Body>
void with_distances(DType dtype, const Body& body) {
  if (dtype == DType::kI64) {
    return body([](const std::byte* a, const std::byte* b) {
      const std::int64_t x = load<std::int64_t>(a), y = load<std::int64_t>(b);
      return static_cast<double>(x > y ? static_cast<std::uint64_t>(x) - static_cast<std::uint64_t>(y)
                                       : static_cast<std::uint64_t>(y) - static_cast<std::uint64_t>(x));
    });
  }
  with_numbers(dtype, [&](const auto& number) {
    body([&](const std::byte* a, const std::byte* b) { return distance(number(a), number(b)); });
  });
}

/// The largest finite magnitude, or the smallest normal f32 where all are smaller.
double largest_magnitude(DType dtype, std::span<const std::byte> bytes) {
  double largest = kSmallest;
  with_numbers(dtype, [&](const auto& number) {
    for (std::size_t at = 0; at < bytes.size(); at += size_bytes(dtype)) {
      const double magnitude = std::abs(number(&bytes[at]));
      if (std::isfinite(magnitude)) largest = std::max(largest, magnitude);
    }
  });
  return largest;
}

}  // namespace

double element_as_double(DType dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case DType::kBool:
      return load<std::uint8_t>(bytes.data()) != 0 ? 1 : 0;
    case DType::kU8:
      return load<std::uint8_t>(bytes.data());
    case DType::kI8:
      return load<std::int8_t>(bytes.data());
    case DType::kI16:
      return load<std::int16_t>(bytes.data());
    case DType::kI32:
      return load<std::int32_t>(bytes.data());
    case DType::kI64:
      return static_cast<double>(load<std::int64_t>(bytes.data()));
    case DType::kF16:
      return half_to_double(load<std::uint16_t>(bytes.data()));
    case DType::kBF16:
      return std::bit_cast<float>(std::uint32_t{load<std::uint16_t>(bytes.data())} << 16);
    case DType::kF32:
      return load<float>(bytes.data());
    case DType::kF64:
      return load<double>(bytes.data());
    case DType::kC64:
    case DType::kC128:
    case DType::kOther:
      break;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

double unit_of(DType dtype) {
  return dtype == DType::kF64   ? std::numeric_limits<double>::epsilon()
         : dtype == DType::kF16 ? 0x1p-10
         : dtype == DType::kBF16 ? 0x1p-7
                                : std::numeric_limits<float>::epsilon();
}

double output_tolerance(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 1e-9;
    case DType::kF32:
      return 1e-4;
    case DType::kF16:
      return 8e-3;
    case DType::kBF16:
      return 6e-2;
    case DType::kBool:
    case DType::kU8:
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
    case DType::kI64:
    case DType::kC64:
    case DType::kC128:
    case DType::kOther:
      break;
  }
  return 0;
}

double relative_difference(double actual, double expected) {
  const double far = distance(actual, expected);
  if (far == 0 || std::isinf(far)) return far;
  return far / std::max(std::abs(expected), kSmallest);
}

Result<TensorDifference> compare(DType dtype, std::span<const std::byte> actual, std::span<const std::byte> expected) {
  const std::size_t size = size_bytes(dtype);
  if (actual.size() != expected.size() || size == 0 || expected.size() % size != 0) {
    return Error{ErrorCode::kBadInput, fmt::format("cannot compare {} bytes with {} recorded ones as {}", actual.size(),
                                                   expected.size(), name(dtype))};
  }
  TensorDifference result;
  result.bit_equal = same_bits(dtype, actual, expected);
  if (result.bit_equal) return result;
  if (dtype == DType::kC64 || dtype == DType::kC128) {
    return Error{ErrorCode::kInternal,
                 fmt::format("tensors of dtype {} differ, and only their bytes can be compared", name(dtype))};
  }
  double largest_distance = 0;
  with_distances(dtype, [&](const auto& far) {
    for (std::size_t at = 0; at < actual.size(); at += size)
      largest_distance = std::max(largest_distance, far(&actual[at], &expected[at]));
  });
  result.max_rel_diff =
      std::isinf(largest_distance) ? kInfinity : largest_distance / largest_magnitude(dtype, expected);
  return result;
}

void Gap::widen(const Gap& other) {
  for (const auto part : {&Gap::largest, &Gap::rms, &Gap::median}) {
    if (std::isfinite(other.*part)) this->*part = std::max(this->*part, other.*part);
  }
}

Gap gap_between(DType dtype, std::span<const std::byte> actual, std::span<const std::byte> expected,
                const std::vector<bool>& is_left_out) {
  const std::size_t size = size_bytes(dtype);
  Gap gap;
  if (size == 0 || actual.size() != expected.size() || actual.empty()) return gap;
  const std::size_t whole = actual.size() / size * size;
  const double largest_expected = largest_magnitude(dtype, expected.first(whole));
  const auto is_counted = [&](std::size_t i) { return i >= is_left_out.size() || !is_left_out[i]; };
  const std::size_t left_out = static_cast<std::size_t>(
      std::count(is_left_out.begin(),
                 is_left_out.begin() + static_cast<std::ptrdiff_t>(std::min(is_left_out.size(), whole / size)), true));
  const std::size_t count = whole / size - left_out;
  if (count == 0) return gap;
  double largest = 0, squares = 0;
  Middle middle(count);
  with_distances(dtype, [&](const auto& distance_of) {
    for (std::size_t i = 0; i < whole / size; ++i) {
      if (!is_counted(i)) continue;
      const double far = distance_of(&actual[i * size], &expected[i * size]) / largest_expected;
      largest = std::max(largest, far);
      squares += far * far;
      middle.add(far);
    }
  });
  gap.largest = largest;
  gap.rms = std::sqrt(squares / static_cast<double>(count));
  gap.median = middle.take();
  return gap;
}

double lean_of(DType dtype, std::span<const std::byte> actual, std::span<const std::byte> expected) {
  if ((dtype != DType::kF16 && dtype != DType::kBF16) || actual.size() != expected.size()) return 0;
  struct Number {
    double larger = 0, count = 0, size = 0;
  };
  std::vector<Number> of_number(std::size_t{1} << 16);  // by its bits
  const double smallest =
      dtype == DType::kF16
          ? 6.103515625e-5
          : static_cast<double>(std::numeric_limits<float>::min());  // below it a number has fewer bits
  for (std::size_t at = 0; at + 2 <= actual.size(); at += 2) {
    const double a = element_as_double(dtype, actual.subspan(at, 2)),
                 e = element_as_double(dtype, expected.subspan(at, 2));
    if (!std::isfinite(a) || !std::isfinite(e) || std::abs(e) < smallest) continue;
    std::uint16_t bits = 0;
    std::memcpy(&bits, &expected[at], 2);
    of_number[bits].larger += e < 0 ? e - a : a - e;
    of_number[bits].size = std::abs(e);
    ++of_number[bits].count;
  }
  // Sums over all, not a mean of shares: what terms that cancelled left has roundings as large as itself.
  double larger = 0, size = 0;
  std::size_t numbers = 0;
  for (const Number& number : of_number) {
    if (number.count == 0) continue;
    larger += number.larger / number.count;
    size += number.size;
    ++numbers;
  }
  return numbers < kLeastToLean ? 0 : larger / size;
}

std::string words_of_difference(double actual, double expected) {
  if (std::isfinite(actual) && std::isfinite(expected))
    return expected == 0 && actual != 0 ? "the recorded one is 0" : "";
  return distance(actual, expected) == 0 ? "" : fmt::format("it is {:.9g}, recorded is {:.9g}", actual, expected);
}

std::string words_of_difference(DType dtype, std::span<const std::byte> actual, std::span<const std::byte> expected) {
  const std::size_t size = size_bytes(dtype);
  if (size == 0 || actual.size() != expected.size()) return "";
  double largest_actual = 0, largest_expected = 0;
  for (std::size_t at = 0; at + size <= actual.size(); at += size) {
    const double a = element_as_double(dtype, actual.subspan(at, size)),
                 b = element_as_double(dtype, expected.subspan(at, size));
    if (std::isinf(distance(a, b))) return fmt::format("element {} is {:.9g}, recorded is {:.9g}", at / size, a, b);
    if (std::isfinite(a)) largest_actual = std::max(largest_actual, std::abs(a));
    if (std::isfinite(b)) largest_expected = std::max(largest_expected, std::abs(b));
  }
  if (largest_expected > 0 || largest_actual == 0) return "";
  return fmt::format("all recorded elements are 0, the largest one is {:.3g}", largest_actual);
}

}  // namespace crucible::runtime
