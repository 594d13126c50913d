// Items of reports to the host. The texts are borrowed: they must live until the sink has returned.
#pragma once

#include <cstdint>
#include <string_view>

#include "plugins/abi/crucible_plugin.h"

namespace crucible_cpu {

inline crucible_str borrow(std::string_view text) { return {text.data(), text.size()}; }
inline crucible_kv text_item(std::string_view key, std::string_view value) {
  return {borrow(key), CRUCIBLE_V_STR, 0, 0, borrow(value)};
}
inline crucible_kv number_item(std::string_view key, std::uint64_t value) {
  return {borrow(key), CRUCIBLE_V_U64, 0, value, {nullptr, 0}};
}
/// 0 no, 1 yes, 2 unknown; `reason` says why.
inline crucible_kv tristate_item(std::string_view key, std::uint64_t value, std::string_view reason) {
  return {borrow(key), CRUCIBLE_V_TRISTATE, 0, value, borrow(reason)};
}

}  // namespace crucible_cpu
