// Elements of a kernel's arrays that somebody wants.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "plugins/kernel_ir/kernel_ir.hpp"

namespace crucible::kernel {

class WantedElements {
 public:
  explicit WantedElements(const KernelIr& kernel)
      : kernel_(kernel), is_wanted_(kernel.arrays.size()), places_(kernel.arrays.size()) {}

  /// Elements of this array may be wanted.
  void keep(ArrayId array) { is_wanted_[array].resize(static_cast<std::size_t>(kernel_.arrays[array].size)); }
  void clear() {
    for (std::vector<std::uint8_t>& array : is_wanted_) std::ranges::fill(array, 0);
  }
  /// True when it was not wanted before. `array` is kept; what lies outside of it is nobody's.
  bool mark(ArrayId array, std::int64_t index) {
    if (index < 0 || index >= std::ssize(is_wanted_[array])) return false;
    return std::exchange(is_wanted_[array][static_cast<std::size_t>(index)], std::uint8_t{1}) == 0;
  }
  bool has(ArrayId array, std::int64_t index) const {
    return index >= 0 && index < std::ssize(is_wanted_[array]) &&
           is_wanted_[array][static_cast<std::size_t>(index)] != 0;
  }

  /// After the last mark, for what follows.
  void list() {
    for (ArrayId array = 0; array < is_wanted_.size(); ++array) list(array);
  }
  /// What of an array is wanted, in ascending order.
  const std::vector<std::int64_t>& places(ArrayId array) const { return places_[array]; }
  /// Whether anything of [begin, end) is.
  bool any(ArrayId array, std::int64_t begin, std::int64_t end) const {
    constexpr std::int64_t kShort = 64;
    begin = std::max<std::int64_t>(begin, 0);
    end = std::min(end, std::ssize(is_wanted_[array]));
    if (begin >= end) return false;
    if (end - begin <= kShort)
      return std::memchr(is_wanted_[array].data() + begin, 1, static_cast<std::size_t>(end - begin)) != nullptr;
    const auto at = std::ranges::lower_bound(places_[array], begin);
    return at != places_[array].end() && *at < end;
  }

 private:
  void list(ArrayId array) {
    const std::vector<std::uint8_t>& wanted = is_wanted_[array];
    std::vector<std::int64_t>& places = places_[array];
    places.clear();
    for (std::size_t at = 0; at < wanted.size(); ++at) {
      const void* const next = std::memchr(wanted.data() + at, 1, wanted.size() - at);
      if (next == nullptr) return;
      at = static_cast<std::size_t>(static_cast<const std::uint8_t*>(next) - wanted.data());
      places.push_back(static_cast<std::int64_t>(at));
    }
  }

  const KernelIr& kernel_;
  std::vector<std::vector<std::uint8_t>> is_wanted_;  // per array and element; none where it is not kept
  std::vector<std::vector<std::int64_t>> places_;     // per array
};

}  // namespace crucible::kernel
