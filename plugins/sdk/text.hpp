// Strings and key-value items of the C ABI, and structs that grow at their end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>

#include "plugins/abi/crucible_plugin.h"

namespace crucible::sdk {

/// Borrows: the text must outlive the result.
inline crucible_str borrow(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view view(crucible_str text) {
  return text.data == nullptr ? std::string_view() : std::string_view(text.data, text.size);
}
inline std::string to_string(crucible_str text) { return std::string(view(text)); }

/// Items for a crucible_kv_sink; they borrow both texts.
inline crucible_kv text_item(std::string_view key, std::string_view value) {
  return {borrow(key), CRUCIBLE_V_STR, 0, 0, borrow(value)};
}
inline crucible_kv number_item(std::string_view key, std::uint64_t value) {
  return {borrow(key), CRUCIBLE_V_U64, 0, value, {nullptr, 0}};
}

/// Answers of device.capabilities.
enum class Answer : std::uint64_t { kNo = 0, kYes = 1, kUnknown = 2 };
inline crucible_kv answer_item(std::string_view key, Answer answer, std::string_view reason) {
  return {borrow(key), CRUCIBLE_V_TRISTATE, 0, static_cast<std::uint64_t>(answer), borrow(reason)};
}

/// Hands items to a sink in one call.
inline void report(crucible_kv_sink sink, void* user, std::initializer_list<crucible_kv> items) {
  sink(user, items.begin(), static_cast<std::uint32_t>(items.size()));
}

/// A full-size copy of a sized struct of the caller, however short (older) or long (newer) that is; what it lacks is
/// zero, and struct_size says how many bytes were the caller's. Null gives zeros.
template <class Struct>
Struct read_sized(const Struct* theirs) {
  Struct ours = {};
  if (theirs == nullptr) return ours;
  const std::size_t size = std::min<std::size_t>(theirs->struct_size, sizeof(Struct));
  std::memcpy(static_cast<void*>(&ours), theirs, size);
  ours.struct_size = static_cast<std::uint32_t>(size);
  return ours;
}

/// An array of sized structs of the caller: the first one's struct_size is the distance from one to the next.
template <class Struct>
class SizedArray {
 public:
  /// Borrows. Null is allowed when no element is asked for.
  explicit SizedArray(const Struct* first) : first_(reinterpret_cast<const char*>(first)) {
    if (first != nullptr) stride_ = first->struct_size;
  }
  Struct operator[](std::size_t i) const { return read_sized(reinterpret_cast<const Struct*>(first_ + i * stride_)); }

 private:
  const char* first_;
  std::size_t stride_ = 0;
};

/// Fills in a sized out-parameter: no byte behind the caller's struct_size is written. Null is allowed.
template <class Struct>
void write_sized(Struct* theirs, Struct ours) {
  if (theirs == nullptr) return;
  const std::uint32_t size = std::min<std::uint32_t>(theirs->struct_size, sizeof(Struct));
  ours.struct_size = theirs->struct_size;
  std::memcpy(static_cast<void*>(theirs), &ours, size);
}

}  // namespace crucible::sdk
