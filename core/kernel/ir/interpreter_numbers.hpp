// Numbers of the interpreter of the kernel IR and arithmetic on them: what interpreter.cpp and interpreter_lanes.hpp
// share, and nobody else includes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/base/dtype.hpp"
#include "plugins/kernel_ir/kernel_ir.hpp"

namespace crucible::kernel::interpreter {

/// A number of any type, in its own bytes.
struct Word {
  alignas(8) std::byte bytes[8] = {};
  template <class T>
  T as() const {
    T value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  template <class T>
  static Word of(T value) {
    Word word;
    std::memcpy(word.bytes, &value, sizeof value);
    return word;
  }
};

/// `body` with a number of the C++ type that holds a DType; f16 and bf16 are bits that nothing computes with.
template <class Body>
Word with_type(DType type, const Body& body) {
  switch (type) {
    case DType::kBool:
      return body(bool{});
    case DType::kU8:
      return body(std::uint8_t{});
    case DType::kI8:
      return body(std::int8_t{});
    case DType::kI16:
      return body(std::int16_t{});
    case DType::kI32:
      return body(std::int32_t{});
    case DType::kI64:
      return body(std::int64_t{});
    case DType::kF16:
    case DType::kBF16:
      return body(std::uint16_t{});
    case DType::kF32:
      return body(float{});
    default:
      return body(double{});
  }
}

template <class T>
constexpr bool kIsFloat = std::is_floating_point_v<T>;

/// Integers wrap around, as kernels are compiled.
template <class T>
Word arithmetic(Operation operation, T a, T b) {
  if constexpr (kIsFloat<T>) {
    switch (operation) {
      case Operation::kAdd:
        return Word::of<T>(a + b);
      case Operation::kSubtract:
        return Word::of<T>(a - b);
      case Operation::kMultiply:
        return Word::of<T>(a * b);
      default:
        return Word::of<T>(a / b);
    }
  } else {
    const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
    switch (operation) {
      case Operation::kAdd:
        return Word::of<T>(static_cast<T>(x + y));
      case Operation::kSubtract:
        return Word::of<T>(static_cast<T>(x - y));
      case Operation::kMultiply:
        return Word::of<T>(static_cast<T>(x * y));
      case Operation::kAnd:
        return Word::of<T>(static_cast<T>(x & y));
      case Operation::kOr:
        return Word::of<T>(static_cast<T>(x | y));
      default:
        break;
    }
    const bool negates =
        std::is_signed_v<T> && static_cast<std::int64_t>(b) == -1;  // of the least number: wraps around
    if (operation == Operation::kRemainder) return Word::of<T>(negates ? T{0} : static_cast<T>(a % b));
    return Word::of<T>(negates ? static_cast<T>(0 - x) : static_cast<T>(a / b));
  }
}

template <class T>
bool holds(Operation operation, T a, T b) {
  switch (operation) {
    case Operation::kLess:
      return a < b;
    case Operation::kLessEqual:
      return a <= b;
    case Operation::kEqual:
      return a == b;
    default:
      return a != b;
  }
}

/// Integers wrap around.
template <class T, class Function>
T wrapped(const Function& function, T a, T b) {
  if constexpr (kIsFloat<T>)
    return function(a, b);
  else
    return static_cast<T>(function(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)));
}

/// What most loops are made of, for `count` pairs of numbers at a time, in loops that a compiler makes vectors of.
/// False for the rest. `to`: aligned.
template <class T>
bool compute_many(Operation operation, const T* x, const T* y, std::size_t count, std::byte* to) {
  const auto numbers = [&](const auto& function) {
    for (std::size_t i = 0; i < count; ++i) reinterpret_cast<T*>(to)[i] = wrapped<T>(function, x[i], y[i]);
    return true;
  };
  const auto answers = [&](const auto& function) {
    for (std::size_t i = 0; i < count; ++i) reinterpret_cast<bool*>(to)[i] = function(x[i], y[i]);
    return true;
  };
  constexpr bool kIsWide = kIsFloat<T> || std::is_same_v<T, std::int64_t> || std::is_same_v<T, std::int32_t>;
  switch (operation) {
    case Operation::kAdd:
      return kIsWide && numbers([](auto a, auto b) { return a + b; });
    case Operation::kSubtract:
      return kIsWide && numbers([](auto a, auto b) { return a - b; });
    case Operation::kMultiply:
      return kIsWide && numbers([](auto a, auto b) { return a * b; });
    case Operation::kLess:
      return answers([](T a, T b) { return a < b; });
    case Operation::kLessEqual:
      return answers([](T a, T b) { return a <= b; });
    case Operation::kEqual:
      return answers([](T a, T b) { return a == b; });
    case Operation::kAnd:
      return std::is_same_v<T, bool> && answers([](T a, T b) { return a != T{0} && b != T{0}; });
    default:
      return false;
  }
}

}  // namespace crucible::kernel::interpreter
