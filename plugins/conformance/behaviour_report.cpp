// What a plugin says about the device while it runs: clocks, counters, health, scores, its self test, its options.
#include <fmt/format.h>
#include <time.h>

#include "plugins/conformance/behaviour_cases.hpp"
#include "plugins/conformance/opened.hpp"

namespace crucible::conformance {
namespace {

std::uint64_t now_ns() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

void clocks(const Settings& settings) {
  Opened opened(settings);
  const auto clock_pair = need(opened.tables.profile.clock_pair, "profile.clock_pair");
  std::uint64_t last_ticks = 0, last_ns = 0;
  for (int i = 0; i < 5; ++i) {
    std::uint64_t ticks = 0, ns = 0, rate = 0;
    const std::uint64_t before = now_ns();
    crucible_status const status = clock_pair(opened.device, &ticks, &ns, &rate);
    if (status != nullptr)
      unsupported(expect_error(status, {CRUCIBLE_E_UNSUPPORTED}, "profile.clock_pair, if it fails,").message);
    const std::uint64_t after = now_ns();
    expect(rate > 0, "the device's clock has a rate", "0 ticks per second");
    expect(ns >= before && ns <= after, "host_ns is the host's monotonic clock, between the call's start and end",
           fmt::format("{} is not in [{}, {}]", ns, before, after));
    expect(ticks >= last_ticks && ns >= last_ns, "clocks do not go back",
           fmt::format("{} after {}", ticks, last_ticks));
    last_ticks = ticks, last_ns = ns;
  }
}

void counters(const Settings& settings) {
  Opened opened(settings);
  const auto& table = opened.tables.profile;
  Items names;
  expect_ok(need(table.counters, "profile.counters")(borrow(opened.id), names.sink(), names.user()),
            "profile.counters");
  if (names.all.empty()) unsupported("the device has no counters");
  for (const auto& [name, what] : names.all) {
    const crucible_str counter = borrow(name);
    if (crucible_status status = must(table.begin, "profile.begin")(opened.device, &counter, 1)) {
      expect_error(status, {CRUCIBLE_E_PERMISSION, CRUCIBLE_E_UNAVAILABLE},
                   "profile.begin of the listed counter " + name + ", if it fails,");
      continue;
    }
    Items values;
    expect_ok(must(table.read, "profile.read")(opened.device, values.sink(), values.user()), "profile.read");
    expect(values.has(name), "profile.read has the counter " + name, "it is missing");
    expect_ok(must(table.end, "profile.end")(opened.device), "profile.end");
  }
}

void health(const Settings& settings) {
  Opened opened(settings);
  const auto& table = opened.tables.health;
  std::uint32_t state = 99;
  Items why, sample;
  expect_ok(need(table.state, "health.state")(borrow(opened.id), &state, why.sink(), why.user()), "health.state");
  expect(state <= CRUCIBLE_STATE_DEGRADED, "a device that runs the kit is OK or DEGRADED",
         fmt::format("state {}", state));
  if (table.sample == nullptr) return;
  expect_ok(table.sample(borrow(opened.id), sample.sink(), sample.user()), "health.sample");
  if (sample.has("temperature_celsius"))
    expect(sample.number("temperature_celsius") < 200, "temperature_celsius is in degrees Celsius",
           sample.all["temperature_celsius"]);
}

void score(const Settings& settings) {
  Opened opened(settings);
  const auto score_of = need(opened.tables.device.score, "device.score");
  const auto item = [](std::string_view key, std::uint64_t value) {
    return crucible_kv{borrow(key), CRUCIBLE_V_U64, 0, value, {nullptr, 0}};
  };
  const crucible_kv workload[] = {item("ops", 100), item("flops", 1'000'000'000), item("bytes", 100'000'000),
                                  item("peak_bytes", 1 << 20), item("a_key_of_the_future", 1)};
  std::uint64_t first = 0, second = 0, impossible = 0;
  Items why;
  expect_ok(score_of(borrow(opened.id), workload, 5, &first, why.sink(), why.user()), "device.score");
  expect(first > 0, "a device that runs the kit scores above 0 for a small program", "0");
  expect_ok(score_of(borrow(opened.id), workload, 5, &second, nullptr, nullptr), "device.score without a sink");
  const crucible_kv huge[] = {item("ops", 1), item("peak_bytes", ~0ull >> 1)};
  expect_ok(score_of(borrow(opened.id), huge, 2, &impossible, why.sink(), why.user()),
            "device.score of a program of 8 EiB");
  expect_equal(impossible, 0, "the score of a program that cannot fit");
}

void self_test(const Settings& settings) {
  Opened opened(settings);
  Items items;
  expect_ok(need(opened.tables.device.self_test, "device.self_test")(opened.device, 0, items.sink(), items.user()),
            "device.self_test");
}

void describe(const Settings& settings) {
  Opened opened(settings);
  const auto describe = need(opened.tables.plan.describe, "plan.describe");
  Memory memory(opened, 64);
  OpList list;
  list.fill(memory.address(), 64, 1);
  list.fill(memory.address(), 64, 2);
  const Plan plan(opened, list);
  Items items;
  expect_ok(describe(plan.handle(), items.sink(), items.user()), "plan.describe");
  expect(items.all["form"] == "native" || items.all["form"] == "list", "a plan's form is native or list",
         "'" + items.all["form"] + "'");
  expect_equal(items.number("ops"), 2, "the number of ops that plan.describe tells");
}

}  // namespace

std::vector<Case> behaviour_report_cases() {
  const auto make = [](std::string name, std::string rule, void (*run)(const Settings&), bool quick) {
    return Case{"behaviour.report." + std::move(name), Tier::kBehaviour, std::move(rule), quick, run, 60};
  };
  return {
      make("clocks", "clock_pair reads both clocks at one moment", clocks, true),
      make("counters", "each listed counter can be read", counters, true),
      make("health", "health tells a plausible state", health, false),
      make("score", "score is above 0 for what fits and 0 for what does not", score, true),
      make("self_test", "the self test of a healthy device passes", self_test, false),
      make("plan_describe", "describe tells a plan's form and length", describe, false),
  };
}

}  // namespace crucible::conformance
