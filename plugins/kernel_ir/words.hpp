// Sentences from texts and numbers, for what is wrong with a kernel: this room has no library to format with.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace crucible::kernel {

/// The parts one behind the other; numbers in decimal.
template <class... Parts>
std::string words(const Parts&... parts) {
  std::string all;
  const auto add = [&](const auto& part) {
    if constexpr (std::integral<std::remove_cvref_t<decltype(part)>>) {
      all += std::to_string(part);
    } else {
      all += std::string_view(part);
    }
  };
  (add(parts), ...);
  return all;
}

}  // namespace crucible::kernel
