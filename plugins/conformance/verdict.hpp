// How the function of a case says what it found. It runs in a child process of its own: the first failure is written
// down and ends the process at once, so that nothing of a plugin that has misbehaved runs again.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

#include "plugins/abi/crucible_plugin.h"

namespace crucible::conformance {

/// The case has failed. Threads: any.
[[noreturn]] void fail(std::string_view expected, std::string_view got);

/// The plugin lacks something optional that the case is about; neither passed nor failed.
[[noreturn]] void unsupported(std::string_view reason);

/// The case has passed; returns. `facts` is one JSON document for whoever asked, or "".
void pass(std::string_view facts = "");

/// Where the verdict goes; called once, before the case runs.
void set_verdict_descriptor(int descriptor);

inline void expect(bool holds, std::string_view expected, std::string_view got) {
  if (!holds) fail(expected, got);
}

/// Fails unless the two numbers are equal.
void expect_equal(std::uint64_t got, std::uint64_t expected, std::string_view what);

/// Fails with the plugin's own words when `status` is an error. `what` names the call and its arguments.
void expect_ok(crucible_status status, std::string_view what);

/// An error object, read and destroyed.
struct PluginError {
  crucible_code code = 0;  // category alone
  std::string message;
  std::map<std::string, std::string> pairs = {};

  /// "" where the payload has no such key.
  std::string payload(const std::string& key) const {
    const auto found = pairs.find(key);
    return found == pairs.end() ? "" : found->second;
  }
};

/// Reads an error, checks everything that an error object promises, destroys it. `status` must not be NULL.
PluginError take_error(crucible_status status, std::string_view what);

/// Fails unless `status` is an error of one of these categories; returns it.
PluginError expect_error(crucible_status status, std::initializer_list<crucible_code> categories,
                         std::string_view what);

/// "INVALID_ARGUMENT"
std::string code_name(crucible_code code);

/// A place for an out-parameter that shows whether it was written.
template <class T>
class Canary {
 public:
  Canary() { value = pattern(); }
  T* out() { return &value; }
  void expect_untouched(std::string_view what) const {
    expect(value == pattern(), std::string(what) + ": the out-parameter stays as it was", "it was written on an error");
  }
  T value;

 private:
  static T pattern() {
    if constexpr (sizeof(T) >= 8) {
      return (T)0x5a5a5a5a5a5a5a5aull;  // a pointer or a number: the same bits either way
    } else {
      return (T)0x5a5a5a5au;
    }
  }
};

}  // namespace crucible::conformance
