// Passes over the elements of a tensor as doubles: the dtype is chosen once for all of them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/base/dtype.hpp"
#include "runtime/judge/compare.hpp"

namespace crucible::runtime {

/// `body` with a function that makes a double of the element at an address.
template <class Body>
decltype(auto) with_numbers(DType dtype, const Body& body) {
  const auto of = []<class T>(T) {
    return [](const std::byte* at) {
      T number;
      std::memcpy(&number, at, sizeof(T));
      return static_cast<double>(number);
    };
  };
  const auto brain = [](const std::byte* at) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, at, sizeof bits);
    return static_cast<double>(std::bit_cast<float>(std::uint32_t{bits} << 16));
  };
  if (dtype == DType::kF32) return body(of(float{}));
  if (dtype == DType::kF64) return body(of(double{}));
  if (dtype == DType::kBF16) return body(brain);
  return body([dtype, size = size_bytes(dtype)](const std::byte* at) { return element_as_double(dtype, {at, size}); });
}

/// The middle one of `count` numbers that come one after the other; of more than some 65,000 of as many, evenly spread.
class Middle {
 public:
  explicit Middle(std::size_t count) : each_(std::max<std::size_t>(1, count / kMost)) {
    sample_.reserve(std::min(count, 2 * kMost));
  }
  void add(double number) {
    if (seen_++ % each_ == 0) sample_.push_back(number);
  }
  /// Once, of one number at least.
  double take() {
    const auto middle = sample_.begin() + static_cast<std::ptrdiff_t>(sample_.size() / 2);
    std::ranges::nth_element(sample_, middle);
    return *middle;
  }

 private:
  static constexpr std::size_t kMost = 1 << 16;
  std::size_t each_ = 1, seen_ = 0;
  std::vector<double> sample_;
};

}  // namespace crucible::runtime
