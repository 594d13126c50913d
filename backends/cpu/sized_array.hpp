// Arrays of sized structs from the host. A newer host's elements are longer than ours, an older one's are shorter: the
// first element's struct_size is the distance from one to the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "plugins/abi/stubs.hpp"

namespace crucible_cpu {

template <class Struct>
class SizedArray {
 public:
  /// `first` may be null when no element is asked for. Borrowed.
  explicit SizedArray(const Struct* first) : first_(reinterpret_cast<const std::byte*>(first)) {
    if (first != nullptr) std::memcpy(&stride_, first, sizeof(stride_));
  }
  /// The element in our size; what a shorter one lacks is zero.
  Struct operator[](std::uint32_t i) const { return crucible::abi::copy_table<Struct>(first_ + std::size_t{i} * stride_); }
  /// What the element says its size is.
  std::uint32_t size_of(std::uint32_t i) const {
    std::uint32_t size = 0;
    std::memcpy(&size, first_ + std::size_t{i} * stride_, sizeof(size));
    return size;
  }

 private:
  const std::byte* first_;
  std::uint32_t stride_ = 0;
};

}  // namespace crucible_cpu
