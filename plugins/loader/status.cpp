// Turns a plugin's error object into a Result and destroys it: the only place where plugin codes meet our own.
#include <fmt/format.h>

#include <cstddef>
#include <string>

#include "plugins/loader/backend.hpp"

namespace crucible::backend {
namespace {

/// Whose fault a plugin's code is: what the machine lacks or lost is the user's to repair, the rest is the plugin's or
/// ours.
ErrorCode error_code(crucible_code code) {
  switch (code & 0xff) {  // (detail << 8) | category
    case CRUCIBLE_E_UNSUPPORTED:
    case CRUCIBLE_E_DATA_CORRUPT:
      return ErrorCode::kBadInput;
    case CRUCIBLE_E_OUT_OF_MEMORY:
    case CRUCIBLE_E_INCOMPATIBLE:
    case CRUCIBLE_E_UNAVAILABLE:
    case CRUCIBLE_E_UNIMPLEMENTED:
    case CRUCIBLE_E_DEVICE_LOST:
      return ErrorCode::kUnavailable;
    default:
      return ErrorCode::kInternal;  // an open set of numbers: a newer plugin may have more of them
  }
}

}  // namespace

Result<void> to_result(crucible_status status, std::string_view what) {
  if (status == nullptr) return {};
  // What every error has had since the first table; entries that were appended later are never needed here.
  constexpr std::size_t kLeast = offsetof(crucible_error_table, message) + sizeof(crucible_error_table::message);
  const crucible_error_table* const table = status->table;
  if (table == nullptr || table->struct_size < kLeast || table->code == nullptr || table->message == nullptr) {
    return Error{ErrorCode::kInternal, fmt::format("{}: the plugin returned an error object without a table", what)};
  }
  const ErrorCode code = error_code(table->code(status));
  const crucible_str text = table->message(status);
  std::string message = fmt::format(
      "{}: {}", what, text.data == nullptr ? "the plugin gave no reason" : std::string_view(text.data, text.size));
  if ((table->code(status) & 0xff) == CRUCIBLE_E_INTERNAL)
    message += "\nthe plugin calls this a fault of its own: tell its vendor";
  if (table->destroy != nullptr) table->destroy(status);
  return Error{code, std::move(message)};
}

}  // namespace crucible::backend
