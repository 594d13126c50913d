// Result<T>: a value or an Error, for everything that can fail because of the user, a file, a driver or a device.
//
// Our own faults (broken invariants) are not Results: they are reported with ErrorCode::kInternal by whoever notices.
// No exceptions are thrown in core/; a dropped Result is a compiler warning (and an error in our builds).
#pragma once

#include <expected>
#include <string>
#include <type_traits>
#include <utility>

namespace crucible {

/// Whose fault an error is; each code is one exit code of the command line (docs/cli.md).
enum class ErrorCode {
  kCheckFailed,  // exit 1: a verification or an independent checker said no
  kUsage,        // exit 2: the call itself is wrong
  kBadInput,     // exit 3: a file, a configuration or a program that we cannot take
  kUnavailable,  // exit 4: a backend, driver, device or tool is missing
  kInternal,     // exit 5: our own fault
};

/// What failed, where, and what to do next. Messages start in lower case and name the thing and both numbers.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};

/// A T or an Error. Test it, then use `*` or `->`; `error()` is valid only when the test is false.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}                         // NOLINT: implicit on purpose
  Result(Error error) : state_(std::unexpected(std::move(error))) {}    // NOLINT: implicit on purpose
  explicit operator bool() const { return state_.has_value(); }
  bool has_value() const { return state_.has_value(); }
  T& operator*() & { return *state_; }
  const T& operator*() const& { return *state_; }
  T&& operator*() && { return *std::move(state_); }
  T* operator->() { return &*state_; }
  const T* operator->() const { return &*state_; }
  const Error& error() const { return state_.error(); }

 private:
  std::expected<T, Error> state_;
};

/// Success or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : state_(std::unexpected(std::move(error))) {}    // NOLINT: implicit on purpose
  explicit operator bool() const { return state_.has_value(); }
  bool has_value() const { return state_.has_value(); }
  const Error& error() const { return state_.error(); }

 private:
  std::expected<void, Error> state_;
};

}  // namespace crucible

#define CRUCIBLE_CONCAT_INNER(a, b) a##b
#define CRUCIBLE_CONCAT(a, b) CRUCIBLE_CONCAT_INNER(a, b)
/// CRUCIBLE_TRY(auto x, f()): x is f()'s value, or the caller returns f()'s error.
#define CRUCIBLE_TRY(declaration, expression) \
  CRUCIBLE_TRY_INNER(declaration, expression, CRUCIBLE_CONCAT(result_, __COUNTER__))
#define CRUCIBLE_TRY_INNER(declaration, expression, name) \
  auto name = (expression);                               \
  if (!name) return name.error();                         \
  declaration = *std::move(name)
/// CRUCIBLE_TRY_VOID(f()): the caller returns f()'s error, if any.
#define CRUCIBLE_TRY_VOID(expression) \
  do {                                \
    auto result_ = (expression);      \
    if (!result_) return result_.error(); \
  } while (false)
