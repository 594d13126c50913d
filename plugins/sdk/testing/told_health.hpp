// What a plugin's table `health` tells of its first device, for the plugins' own tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "plugins/loader/backend.hpp"

namespace crucible::backend {

struct ToldHealth {
  std::map<std::string, std::uint64_t> numbers;
  std::map<std::string, std::string> texts, absent;  // absent: reasons of not_measured
  std::uint32_t state = 99;
  std::string reason;  // of the state
};

inline void take_health(void* user, const crucible_kv* items, std::uint32_t count) {
  auto& told = *static_cast<ToldHealth*>(user);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string key(items[i].key.data, items[i].key.size);
    const std::string text = items[i].type == CRUCIBLE_V_STR ? std::string(items[i].s.data, items[i].s.size) : "";
    if (items[i].type == CRUCIBLE_V_U64) {
      told.numbers[key] = items[i].u;
    } else if (key == "not_measured") {
      told.absent[text.substr(0, text.find(": "))] = text.substr(text.find(": ") + 2);
    } else {
      (key == "reason" ? told.reason : told.texts[key]) = text;
    }
  }
}

/// Ends the process of a case: 0 when nothing failed, and what failed is printed.
[[noreturn]] inline void end_child() {
  std::fflush(stdout);
  std::_Exit(::testing::Test::HasFailure() ? 1 : 0);
}

/// No device is opened. A failure of either call fails the test.
inline ToldHealth told_health(const Backend& backend, const std::string& id) {
  ToldHealth told;
  const auto& table = backend.tables().health;
  const auto sampled = to_result(table.sample({id.data(), id.size()}, take_health, &told), "health.sample");
  EXPECT_TRUE(sampled) << sampled.error().message;
  const auto judged = to_result(table.state({id.data(), id.size()}, &told.state, take_health, &told), "health.state");
  EXPECT_TRUE(judged) << judged.error().message;
  return told;
}

}  // namespace crucible::backend
