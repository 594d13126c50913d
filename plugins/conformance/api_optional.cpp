// The error cases of queues, of the optional tables and of entries since 0.2.
#include <fmt/format.h>

#include "plugins/conformance/api_cases.hpp"
#include "plugins/conformance/opened.hpp"

namespace crucible::conformance {
namespace {

constexpr auto kInvalid = CRUCIBLE_E_INVALID_ARGUMENT;

void queue_misuse(const Settings& settings) {
  Opened opened(settings);
  const auto& table = opened.tables.queue;
  need(table.create, "queue.create");
  Canary<crucible_queue*> no_queue;
  expect_error(table.create(nullptr, no_queue.out()), {kInvalid}, "queue.create without a device");
  no_queue.expect_untouched("queue.create without a device");
  expect_error(table.create(opened.device, nullptr), {kInvalid}, "queue.create without a place for it");
  Canary<crucible_timeline*> no_timeline;
  expect_error(must(table.timeline_create, "queue.timeline_create")(nullptr, 0, no_timeline.out()), {kInvalid},
               "queue.timeline_create without a device");
  no_timeline.expect_untouched("queue.timeline_create without a device");
  crucible_queue* queue = nullptr;
  crucible_timeline* timeline = nullptr;
  expect_ok(table.create(opened.device, &queue), "queue.create");
  expect_ok(table.timeline_create(opened.device, 5, &timeline), "queue.timeline_create at 5");
  Canary<std::uint64_t> value;
  expect_error(must(table.timeline_query, "queue.timeline_query")(nullptr, value.out()), {kInvalid},
               "queue.timeline_query without a timeline");
  value.expect_untouched("queue.timeline_query without a timeline");
  expect_error(table.timeline_query(timeline, nullptr), {kInvalid},
               "queue.timeline_query without a place for the value");
  const auto signal = must(table.timeline_signal, "queue.timeline_signal");
  expect_error(signal(timeline, 5), {kInvalid}, "queue.timeline_signal of the value that it has");
  expect_error(signal(timeline, 4), {kInvalid}, "queue.timeline_signal of a smaller value");
  expect_error(signal(nullptr, 9), {kInvalid}, "queue.timeline_signal without a timeline");
  expect_error(must(table.timeline_wait, "queue.timeline_wait")(nullptr, 1, 0), {kInvalid},
               "queue.timeline_wait without a timeline");
  OpList empty;
  {
    const Plan plan(opened, empty);
    const auto submit = must(table.submit, "queue.submit");
    const crucible_point point = {timeline, 9}, hole = {nullptr, 1};
    expect_error(submit(nullptr, plan.handle(), nullptr, 0, &point, 1), {kInvalid}, "queue.submit without a queue");
    expect_error(submit(queue, nullptr, nullptr, 0, &point, 1), {kInvalid}, "queue.submit without a plan");
    expect_error(submit(queue, plan.handle(), nullptr, 1, &point, 1), {kInvalid}, "queue.submit with 1 wait at NULL");
    expect_error(submit(queue, plan.handle(), nullptr, 0, nullptr, 1), {kInvalid},
                 "queue.submit with 1 signal at NULL");
    expect_error(submit(queue, plan.handle(), &hole, 1, nullptr, 0), {kInvalid},
                 "queue.submit that waits for no timeline");
    expect_error(must(table.flush, "queue.flush")(nullptr), {kInvalid}, "queue.flush without a queue");
    std::uint64_t begin = 7, end = 7;
    std::uint32_t clock = 7;
    const auto times = must(table.timeline_times, "queue.timeline_times");
    expect_error(times(nullptr, 1, &begin, &end, &clock), {kInvalid}, "queue.timeline_times without a timeline");
    expect_error(times(timeline, 5, nullptr, &end, &clock), {kInvalid}, "queue.timeline_times without a place");
    expect_error(times(timeline, 5, &begin, &end, &clock), {CRUCIBLE_E_UNAVAILABLE, kInvalid},
                 "queue.timeline_times of a value that no work has signalled");
    expect(begin == 7 && end == 7 && clock == 7, "queue.timeline_times writes nothing on an error", "it wrote");
    expect_ok(must(table.destroy, "queue.destroy")(queue), "queue.destroy");
  }
  expect_ok(must(table.timeline_destroy, "queue.timeline_destroy")(timeline), "queue.timeline_destroy");
}

void profile_misuse(const Settings& settings) {
  Opened opened(settings);
  const auto& table = opened.tables.profile;
  need(table.clock_pair, "profile.clock_pair");
  std::uint64_t a = 7, b = 7, c = 7;
  expect_error(table.clock_pair(nullptr, &a, &b, &c), {kInvalid}, "profile.clock_pair without a device");
  expect(a == 7 && b == 7 && c == 7, "profile.clock_pair writes nothing on an error", "it wrote");
  if (table.begin != nullptr) {
    const crucible_str unknown = borrow("no_such_counter");
    expect_error(table.begin(opened.device, &unknown, 1), {CRUCIBLE_E_UNSUPPORTED, kInvalid},
                 "profile.begin of an unknown counter");
    expect_error(table.begin(opened.device, nullptr, 1), {kInvalid}, "profile.begin of 1 counter at NULL");
  }
}

void health_misuse(const Settings& settings) {
  Opened opened(settings);
  const auto& table = opened.tables.health;
  need(table.state, "health.state");
  Canary<std::uint32_t> state;
  Items items;
  const std::string unknown = "no-such:99";
  expect_error(table.state(borrow(unknown), state.out(), items.sink(), items.user()),
               {kInvalid, CRUCIBLE_E_UNAVAILABLE, CRUCIBLE_E_UNSUPPORTED}, "health.state of an unknown device");
  state.expect_untouched("health.state of an unknown device");
  expect_error(table.state(borrow(opened.id), nullptr, items.sink(), items.user()), {kInvalid},
               "health.state without a place for it");
  if (table.sample != nullptr) {
    expect_error(table.sample(borrow(opened.id), nullptr, nullptr), {kInvalid}, "health.sample without a sink");
  }
}

void library_misuse(const Settings& settings) {
  Opened opened(settings);
  const auto claim = need(opened.tables.library.claim, "library.claim");
  Canary<std::uint64_t> scratch;
  const std::initializer_list<crucible_code> codes = {kInvalid, CRUCIBLE_E_UNSUPPORTED};
  crucible_library_desc desc{};
  desc.struct_size = sizeof(desc);
  desc.kind = 99;
  expect_error(claim(opened.device, &desc, scratch.out()), codes, "library.claim of kind 99");
  desc.kind = CRUCIBLE_LIB_MATMUL;
  desc.views[0].rank = 99;
  expect_error(claim(opened.device, &desc, scratch.out()), codes, "library.claim of a view of rank 99");
  desc.views[0].rank = 0;
  expect_error(claim(opened.device, &desc, scratch.out()), codes, "library.claim of a product of scalars");
  desc.struct_size = 8;
  expect_error(claim(opened.device, &desc, scratch.out()), codes, "library.claim of a description of 8 bytes");
  expect_error(claim(opened.device, nullptr, scratch.out()), codes, "library.claim without a description");
  scratch.expect_untouched("a refused library.claim");
}

}  // namespace

std::vector<Case> api_optional_cases() {
  const auto make = [](std::string name, std::string rule, void (*run)(const Settings&)) {
    return Case{"api." + std::move(name), Tier::kApi, std::move(rule), true, run, 60};
  };
  return {
      make("queue.misuse", "the queue functions refuse NULL arguments and values that do not grow", queue_misuse),
      make("profile.misuse", "the profile functions refuse NULL arguments and unknown counters", profile_misuse),
      make("health.misuse", "the health functions refuse NULL arguments and unknown devices", health_misuse),
      make("library.misuse", "claim refuses damaged descriptions", library_misuse),
  };
}

}  // namespace crucible::conformance
