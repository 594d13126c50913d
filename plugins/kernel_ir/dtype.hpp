// Element types of tensors, independent of any framework. The numbers are part of the .crtrace format, of the
// kernel IR and of the plugin ABI: append only. A kernel computes with those up to kF64.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string_view>

namespace crucible {

enum class DType : std::uint8_t {
  kBool = 0,
  kU8 = 1,
  kI8 = 2,
  kI16 = 3,
  kI32 = 4,
  kI64 = 5,
  kF16 = 6,
  kBF16 = 7,
  kF32 = 8,
  kF64 = 9,
  kC64 = 10,
  kC128 = 11,
  kOther = 255,  // recorded and named, but nothing computes with it yet
};

/// Bytes of one element; 0 for kOther.
constexpr std::uint32_t size_bytes(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
    case DType::kI8: return 1;
    case DType::kI16:
    case DType::kF16:
    case DType::kBF16: return 2;
    case DType::kI32:
    case DType::kF32: return 4;
    case DType::kI64:
    case DType::kF64:
    case DType::kC64: return 8;
    case DType::kC128: return 16;
    case DType::kOther: return 0;
  }
  return 0;
}

/// The short name used in every text form: "f32", "i64", "bool".
constexpr std::string_view name(DType dtype) {
  switch (dtype) {
    case DType::kBool: return "bool";
    case DType::kU8: return "u8";
    case DType::kI8: return "i8";
    case DType::kI16: return "i16";
    case DType::kI32: return "i32";
    case DType::kI64: return "i64";
    case DType::kF16: return "f16";
    case DType::kBF16: return "bf16";
    case DType::kF32: return "f32";
    case DType::kF64: return "f64";
    case DType::kC64: return "c64";
    case DType::kC128: return "c128";
    case DType::kOther: return "other";
  }
  return "other";
}

/// The name, for messages of tests.
template <class Traits>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out, DType dtype) {
  return out << name(dtype);
}

constexpr bool is_floating(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF32 || dtype == DType::kF64;
}

constexpr bool is_integral(DType dtype) {
  return dtype == DType::kU8 || dtype == DType::kI8 || dtype == DType::kI16 || dtype == DType::kI32 ||
         dtype == DType::kI64;
}

}  // namespace crucible
