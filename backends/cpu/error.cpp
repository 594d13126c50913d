// The error object of this plugin: a table pointer, a code and a text on the heap.
#include "backends/cpu/error.hpp"

namespace crucible_cpu {
namespace {

struct ErrorObject : crucible_error {
  crucible_code code = CRUCIBLE_E_INTERNAL;
  std::string message;
  Payload payload;
};

const crucible_error_table kTable = {
    sizeof(crucible_error_table), 0, [](crucible_error* error) { delete static_cast<ErrorObject*>(error); },
    [](const crucible_error* error) { return static_cast<const ErrorObject*>(error)->code; },
    [](const crucible_error* error) {
      const std::string& text = static_cast<const ErrorObject*>(error)->message;
      return crucible_str{text.data(), text.size()};
    },
    [](const crucible_error* error, std::uint32_t index, crucible_str* key, crucible_str* value) -> std::uint32_t {
      const Payload& payload = static_cast<const ErrorObject*>(error)->payload;
      if (index >= payload.size() || key == nullptr || value == nullptr) return 0;
      *key = {payload[index].first.data(), payload[index].first.size()};
      *value = {payload[index].second.data(), payload[index].second.size()};
      return 1;
    }};

constexpr char kNoMemory[] = "out of memory while an error was being reported";
const crucible_error_table kNoMemoryTable = {
    sizeof(crucible_error_table), 0, [](crucible_error*) {},
    [](const crucible_error*) -> crucible_code { return CRUCIBLE_E_OUT_OF_MEMORY; },
    [](const crucible_error*) { return crucible_str{kNoMemory, sizeof(kNoMemory) - 1}; },
    [](const crucible_error*, std::uint32_t, crucible_str*, crucible_str*) -> std::uint32_t { return 0; }};
crucible_error no_memory = {&kNoMemoryTable};  // never written: the ABI's handle type is not const

}  // namespace

crucible_status make_status(crucible_code code, const char* message, const Payload& payload) noexcept {
  try {
    auto* error = new ErrorObject;
    error->table = &kTable;
    error->code = code;
    error->message = message;
    error->payload = payload;
    return error;
  } catch (...) {
    return &no_memory;
  }
}

}  // namespace crucible_cpu
