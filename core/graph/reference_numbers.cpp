// Typed byte buffers as plain numbers: see reference_numbers.hpp.
#include "core/graph/reference_numbers.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/graph/view.hpp"

namespace crucible::graph {
namespace {

template <class T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <class T>
void write(T value, std::byte* at) {
  std::memcpy(at, &value, sizeof(T));
}

/// Rounds to a binary format with `precision` significant bits and least normal exponent `min_exponent`
/// (value = 1.f * 2^exponent); beyond `largest` plus half a unit it is infinite.
double round_to_format(double value, int precision, int min_exponent, double largest) {
  if (!std::isfinite(value) || value == 0) return value;
  const int exponent = std::max(std::ilogb(value), min_exponent);
  const double unit = std::ldexp(1.0, exponent - precision + 1);
  const double rounded = std::nearbyint(value / unit) * unit;  // exact division: unit is a power of two
  if (std::fabs(rounded) > largest) return std::copysign(std::numeric_limits<double>::infinity(), value);
  return rounded == 0 ? std::copysign(0.0, value) : rounded;
}

double f16_to_double(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  double value = 0;
  if (exponent == 31) {
    value = fraction ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(fraction, -24);
  } else {
    value = std::ldexp(1024 + fraction, exponent - 25);
  }
  return (bits & 0x8000) ? -value : value;
}

std::uint16_t double_to_f16(double value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7e00;
  const double rounded = std::fabs(round_to(DType::kF16, value));
  if (std::isinf(rounded)) return sign | 0x7c00;
  if (rounded < std::ldexp(1.0, -14)) return sign | static_cast<std::uint16_t>(std::ldexp(rounded, 24));
  const int exponent = std::ilogb(rounded);
  const auto fraction = static_cast<std::uint16_t>(std::ldexp(rounded, 10 - exponent) - 1024);
  return static_cast<std::uint16_t>(sign | ((exponent + 15) << 10) | fraction);
}

}  // namespace

std::int64_t Numbers::as_integer(std::size_t i) const {
  if (is_integer) return integer[i];
  return real_to_integer(DType::kI64, real[i]);
}

std::int64_t real_to_integer(DType dtype, double value) {
  const bool is_wide = dtype == DType::kI64 || dtype == DType::kU8;
  const std::int64_t least =
      is_wide ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int32_t>::min();
  const double end = is_wide ? 0x1p63 : 0x1p31;
  const double whole = std::trunc(value);
  return whole >= -end && whole < end ? static_cast<std::int64_t>(whole) : least;
}

Numbers Numbers::zeros(DType dtype, std::size_t size) {
  Numbers numbers;
  numbers.is_integer = !is_floating(dtype);
  if (numbers.is_integer) {
    numbers.integer.assign(size, 0);
  } else {
    numbers.real.assign(size, 0.0);
  }
  return numbers;
}

double round_to(DType dtype, double value) {
  if (dtype == DType::kF32) return static_cast<double>(static_cast<float>(value));
  if (dtype == DType::kF16) return round_to_format(value, 11, -14, 65504.0);
  if (dtype == DType::kBF16) return round_to_format(value, 8, -126, std::ldexp(255.0, 120));
  return value;
}

double load_real(DType dtype, const std::byte* at) {
  if (dtype == DType::kF32) return static_cast<double>(read<float>(at));
  if (dtype == DType::kF64) return read<double>(at);
  if (dtype == DType::kF16) return f16_to_double(read<std::uint16_t>(at));
  if (dtype == DType::kBF16) {
    return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(read<std::uint16_t>(at)) << 16));
  }
  return static_cast<double>(load_integer(dtype, at));
}

std::int64_t load_integer(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kBool:
      return read<std::uint8_t>(at) != 0;
    case DType::kU8:
      return read<std::uint8_t>(at);
    case DType::kI8:
      return read<std::int8_t>(at);
    case DType::kI16:
      return read<std::int16_t>(at);
    case DType::kI32:
      return read<std::int32_t>(at);
    case DType::kI64:
      return read<std::int64_t>(at);
    default:
      return 0;  // floating-point goes through load_real
  }
}

void store_real(DType dtype, double value, std::byte* at) {
  if (dtype == DType::kF32) return write(static_cast<float>(value), at);
  if (dtype == DType::kF64) return write(value, at);
  if (dtype == DType::kF16) return write(double_to_f16(value), at);
  if (dtype == DType::kBF16) {
    if (std::isnan(value)) return write(std::uint16_t{0x7fc0}, at);
    const auto rounded = static_cast<float>(round_to(DType::kBF16, value));
    return write(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(rounded) >> 16), at);
  }
  if (dtype == DType::kBool) return store_integer(dtype, value != 0, at);
  store_integer(dtype, real_to_integer(dtype, value), at);
}

void store_integer(DType dtype, std::int64_t value, std::byte* at) {
  switch (dtype) {
    case DType::kBool:
      return write(static_cast<std::uint8_t>(value != 0), at);
    case DType::kU8:
    case DType::kI8:
      return write(static_cast<std::uint8_t>(value), at);
    case DType::kI16:
      return write(static_cast<std::uint16_t>(value), at);
    case DType::kI32:
      return write(static_cast<std::uint32_t>(value), at);
    case DType::kI64:
      return write(value, at);
    case DType::kF32:  // by way of a double it would be rounded twice
      return write(static_cast<float>(value), at);
    case DType::kF16:
    case DType::kBF16:  // by way of f32, as the framework does it
      return store_real(dtype, static_cast<double>(static_cast<float>(value)), at);
    default:
      return store_real(dtype, static_cast<double>(value), at);
  }
}

Numbers load(const Bytes& buffer, DType dtype, const View& view) {
  Numbers numbers;
  numbers.is_integer = !is_floating(dtype);
  const auto count = static_cast<std::size_t>(view.elements());
  const std::byte* from = buffer.data();
  const std::int64_t width = static_cast<std::int64_t>(size_bytes(dtype));
  if (numbers.is_integer) {
    numbers.integer.resize(count);
    std::int64_t* to = numbers.integer.data();
    for_each_row(view, [&](std::int64_t at, std::int64_t stride, std::int64_t size) {
      for (std::int64_t i = 0; i < size; ++i) *to++ = load_integer(dtype, from + (at + i * stride) * width);
    });
    return numbers;
  }
  numbers.real.resize(count);
  double* to = numbers.real.data();
  for_each_row(view, [&](std::int64_t at, std::int64_t stride, std::int64_t size) {
    if (dtype == DType::kF32) {
      for (std::int64_t i = 0; i < size; ++i)
        *to++ = static_cast<double>(read<float>(from + (at + i * stride) * width));
    } else {
      for (std::int64_t i = 0; i < size; ++i) *to++ = load_real(dtype, from + (at + i * stride) * width);
    }
  });
  return numbers;
}

void store(const Numbers& numbers, DType dtype, const View& view, Bytes& buffer) {
  const std::int64_t width = static_cast<std::int64_t>(size_bytes(dtype));
  std::byte* to = buffer.data();
  const std::int64_t* integer = numbers.integer.data();
  const double* real = numbers.real.data();
  for_each_row(view, [&](std::int64_t at, std::int64_t stride, std::int64_t size) {
    if (numbers.is_integer) {
      for (std::int64_t i = 0; i < size; ++i) store_integer(dtype, *integer++, to + (at + i * stride) * width);
    } else if (dtype == DType::kF32) {
      for (std::int64_t i = 0; i < size; ++i) write(static_cast<float>(*real++), to + (at + i * stride) * width);
    } else {
      for (std::int64_t i = 0; i < size; ++i) store_real(dtype, *real++, to + (at + i * stride) * width);
    }
  });
}

Numbers converted(const Numbers& numbers, DType dtype) {
  const std::size_t size = numbers.size();
  Numbers result = Numbers::zeros(dtype, size);
  std::byte cell[8];
  for (std::size_t i = 0; i < size; ++i) {
    if (numbers.is_integer) {
      store_integer(dtype, numbers.integer[i], cell);
    } else {
      store_real(dtype, numbers.real[i], cell);
    }
    if (result.is_integer) {
      result.integer[i] = load_integer(dtype, cell);
    } else {
      result.real[i] = load_real(dtype, cell);
    }
  }
  return result;
}

}  // namespace crucible::graph
