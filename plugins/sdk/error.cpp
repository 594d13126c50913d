// The error object of a plugin: a table pointer, a code, a text and a payload on the heap.
#include "plugins/sdk/error.hpp"

#include "plugins/sdk/text.hpp"

namespace crucible::sdk {
namespace {

struct ErrorObject : crucible_error {
  crucible_code code = CRUCIBLE_E_INTERNAL;
  std::string message;
  Payload payload;
};

const ErrorObject& object(const crucible_error* error) { return *static_cast<const ErrorObject*>(error); }

std::uint32_t payload(const crucible_error* error, std::uint32_t index, crucible_str* key, crucible_str* value) {
  const Payload& pairs = object(error).payload;
  if (index >= pairs.size() || key == nullptr || value == nullptr) return 0;
  *key = borrow(pairs[index].first);
  *value = borrow(pairs[index].second);
  return 1;
}

const crucible_error_table kTable = {sizeof(crucible_error_table),
                                     0,
                                     [](crucible_error* error) { delete static_cast<ErrorObject*>(error); },
                                     [](const crucible_error* error) { return object(error).code; },
                                     [](const crucible_error* error) { return borrow(object(error).message); },
                                     payload};

const crucible_error_table kNoMemoryTable = {
    sizeof(crucible_error_table),
    0,
    [](crucible_error*) {},
    [](const crucible_error*) -> crucible_code { return CRUCIBLE_E_OUT_OF_MEMORY; },
    [](const crucible_error*) { return borrow("out of memory while an error was being reported"); },
    [](const crucible_error*, std::uint32_t, crucible_str*, crucible_str*) -> std::uint32_t { return 0; }};
crucible_error no_memory = {&kNoMemoryTable};  // never written: the ABI's handle type is not const

}  // namespace

crucible_status make_status(crucible_code code, std::string_view message, const Payload& payload) noexcept {
  ErrorObject* error = nullptr;
  try {
    error = new ErrorObject;
    error->table = &kTable;
    error->code = code == CRUCIBLE_OK ? CRUCIBLE_E_INTERNAL : code;  // an error object that says "no error" is a bug
    error->message = message;
    error->payload = payload;
    return error;
  } catch (...) {
    delete error;
    return &no_memory;
  }
}

}  // namespace crucible::sdk
