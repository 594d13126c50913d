// Errors inside a plugin and at its edge: thrown as Failure, turned into error objects of the C ABI by guard(). No
// exception leaves an entry point that is written as `return guard([&] { ... });`.
#pragma once

#include <exception>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "plugins/abi/crucible_plugin.h"

namespace crucible::sdk {

/// Keys and values that a program reads from an error: vendor.code, where, hint, retry, kernel, op, requested,
/// available, have, need.
using Payload = std::vector<std::pair<std::string, std::string>>;

/// What failed and what to do next, with one of the CRUCIBLE_E_ codes.
class Failure : public std::exception {
 public:
  Failure(crucible_code code, std::string message, Payload payload = {})
      : code_(code), message_(std::move(message)), payload_(std::move(payload)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  crucible_code code() const { return code_; }
  const Payload& payload() const { return payload_; }

 private:
  crucible_code code_;
  std::string message_;
  Payload payload_;
};

/// A new error object. Owns: the receiver destroys it. Never throws: out of memory gives a static object.
crucible_status make_status(crucible_code code, std::string_view message, const Payload& payload = {}) noexcept;

/// Runs the body of an entry point and turns whatever it throws into an error object.
template <class Body>
crucible_status guard(Body&& body) noexcept {
  try {
    body();
    return nullptr;
  } catch (const Failure& failure) {
    return make_status(failure.code(), failure.what(), failure.payload());
  } catch (const std::bad_alloc&) {
    return make_status(CRUCIBLE_E_OUT_OF_MEMORY, "the plugin itself has no memory left for its own tables");
  } catch (const std::exception& error) {
    return make_status(CRUCIBLE_E_INTERNAL, error.what());
  } catch (...) {
    return make_status(CRUCIBLE_E_INTERNAL, "an unknown exception reached the edge of the plugin");
  }
}

/// What `ask` gives, or nothing where it throws UNSUPPORTED, and the reason in `refusal`. Errors: all others of `ask`.
template <class Ask>
std::optional<std::invoke_result_t<Ask>> if_supported(std::string& refusal, Ask&& ask) {
  try {
    return ask();
  } catch (const Failure& failure) {
    if (failure.code() != CRUCIBLE_E_UNSUPPORTED) throw;
    refusal = failure.what();
    return std::nullopt;
  }
}

/// Errors: INVALID_ARGUMENT with `message` when `condition` does not hold.
inline void require(bool condition, const char* message) {
  if (!condition) throw Failure(CRUCIBLE_E_INVALID_ARGUMENT, message);
}

}  // namespace crucible::sdk
