// The plugin under test inside the child process: loaded by dlopen, asked by its query, its tables copied into
// full-size ones whose missing entries are NULL. It uses the raw C ABI and nothing of the loader.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/abi/crucible_plugin.h"
#include "plugins/conformance/case.hpp"

namespace crucible::conformance {

/// What of the plugin's tables is there; absent tables are all NULL.
struct Tables {
  crucible_if_device device{};
  crucible_if_memory memory{};
  crucible_if_queue queue{};
  crucible_if_compile compile{};
  crucible_if_plan plan{};
  crucible_if_library library{};
  crucible_if_profile profile{};
  crucible_if_health health{};
};

/// dlopen and dlsym; never unloaded. Fails the case when either does not work.
crucible_plugin_query_fn load_query(const Settings& settings);

/// The table of services that a host hands out. Lives as long as the process.
const crucible_host_api* host_services(const Settings& settings);

/// Bytes that the plugin has of the host's alloc and not yet given back.
std::int64_t host_live_bytes();

inline crucible_str borrow(std::string_view text) { return {text.data(), text.size()}; }
inline std::string to_string(crucible_str text) {
  return text.data == nullptr ? "" : std::string(text.data, text.size);
}

/// A plugin that has been loaded, queried, and whose tables have been copied. start() and stop() call init and
/// shutdown.
class Subject {
 public:
  explicit Subject(const Settings& settings);
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;
  ~Subject();
  void start();
  void stop();

  const Settings& settings;
  crucible_query_out answer{};
  crucible_plugin_api api{};
  Tables tables;

 private:
  bool started_ = false;
};

[[noreturn]] void missing_entry(std::string_view name);
[[noreturn]] void absent_entry(std::string_view name);

/// The entry of a mandatory table that every plugin has; its absence fails the case.
template <class Function>
Function must(Function entry, std::string_view name) {
  if (entry == nullptr) missing_entry(name);
  return entry;
}

/// An entry that a plugin may lack; its absence makes the case unsupported.
template <class Function>
Function need(Function entry, std::string_view name) {
  if (entry == nullptr) absent_entry(name);
  return entry;
}

/// Items that a sink has received, as text; numbers in decimal. `calls` has one map per call of the sink.
class Items {
 public:
  crucible_kv_sink sink() const { return collect; }
  void* user() { return this; }
  bool has(const std::string& key) const { return all.contains(key); }
  std::uint64_t number(const std::string& key) const;
  std::vector<std::map<std::string, std::string>> calls;
  std::map<std::string, std::string> all;
  std::map<std::string, std::pair<std::uint64_t, std::string>> tristates;  // answer and reason

 private:
  static void collect(void* user, const crucible_kv* items, std::uint32_t count);
};

}  // namespace crucible::conformance
