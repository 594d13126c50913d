// What a plugin's health.sample tells, collected value by value: numbers, texts, and for each value that is not there
// the reason. The keys are those of docs/health.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/abi/crucible_plugin.h"

namespace crucible::sdk {

/// Threads: one.
class HealthReport {
 public:
  void number(std::string_view key, std::uint64_t value);
  /// An empty text is left out.
  void text(std::string_view key, std::string_view value);
  /// Told as `not_measured`, "KEY: REASON".
  void absent(std::string_view key, std::string_view reason);
  bool has(std::string_view key) const;
  /// 0 where there is none.
  std::uint64_t number_of(std::string_view key) const;
  std::string text_of(std::string_view key) const;
  /// All items in one call.
  void send(crucible_kv_sink sink, void* user) const;

 private:
  struct Item {
    std::string key, text;
    std::uint64_t number = 0;
    bool is_text = false;
  };
  const Item* find(std::string_view key) const;
  std::vector<Item> items_;
};

/// Adds `name` to a text that lists reasons: "too hot, power brake".
void add_to_list(std::string& list, std::string_view name);

}  // namespace crucible::sdk
