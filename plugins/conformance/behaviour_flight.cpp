// Plans in flight: more than one at a time, errors that end what waits for them, memory that is written meanwhile,
// queues that end while they have work.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "plugins/conformance/behaviour_cases.hpp"
#include "plugins/conformance/queue_objects.hpp"

namespace crucible::conformance {
namespace {

constexpr auto kInvalid = CRUCIBLE_E_INVALID_ARGUMENT;

std::uint64_t now_ns() {
  const std::chrono::nanoseconds now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(now.count());
}

void two_plans(const Settings& settings) {
  Opened opened(settings);
  const Kernels kernels(opened);
  constexpr std::int64_t kCount = 3000;
  Memory a(opened, kCount * 4), b(opened, kCount * 4);
  OpList counts, copies;
  counts.launch(kernels.find("ck_count"), {a.address()}, kCount);
  copies.copy(b.address(), a.address(), kCount * 4);
  const Plan first(opened, counts), second(opened, copies);
  Queue queue(opened);
  Timeline done(opened);
  for (std::uint64_t round = 1; round <= 30; ++round) {  // all of them are in flight at once
    queue.submit(first, {}, {});
    queue.submit(second, {}, {done.at(round)});
  }
  queue.submit(first, {}, {done.at(31)});
  done.wait(31);
  expect(b.values<std::int32_t>(kCount) == std::vector<std::int32_t>(kCount, 30),
         "plans of one queue run in the order of their submission", fmt::format("{}", b.values<std::int32_t>(1)[0]));
  expect(a.values<std::int32_t>(kCount) == std::vector<std::int32_t>(kCount, 31), "each submission runs its plan once",
         fmt::format("{}", a.values<std::int32_t>(1)[0]));
}

void flush_begins(const Settings& settings) {
  Opened opened(settings);
  OpList list;
  Memory memory(opened, 16);
  list.fill(memory.address(), 16, 7);
  const Plan plan(opened, list);
  Queue queue(opened);
  Timeline done(opened);
  queue.submit(plan, {}, {done.at(1)});
  queue.flush();
  for (int round = 0; round < 20'000 && done.value() == 0; ++round) usleep(1000);  // nobody waits for it
  expect_equal(done.value(), 1, "the timeline some time after queue.flush");
  expect_bytes(memory.read(0, 16), std::vector<std::byte>(16, std::byte{7}), "what flushed work wrote");
}

void failure_goes_on(const Settings& settings) {
  Opened opened(settings);
  OpList list;
  Memory memory(opened, 16);
  list.fill(memory.address(), 16, 7);
  const Plan plan(opened, list);
  Queue queue(opened), other(opened);
  Timeline behind(opened, 5), second(opened), third(opened);
  const crucible_point signals[] = {behind.at(4), second.at(1)};
  if (crucible_status status =
          must(opened.tables.queue.submit, "queue.submit")(queue.handle(), plan.handle(), nullptr, 0, signals, 2)) {
    expect_error(status, {kInvalid}, "queue.submit of a signal that does not grow, if it fails,");
    return;  // then nothing is in flight
  }
  other.submit(plan, {second.at(1)}, {third.at(1)});
  expect_error(third.try_wait(1, 10 * kSecond), {kInvalid}, "queue.timeline_wait for work behind work that failed");
  expect_error(second.try_wait(1, 10 * kSecond), {kInvalid}, "queue.timeline_wait for work that failed");
  queue.destroy();
  other.destroy();
  Queue again(opened);
  Timeline done(opened);
  memory.fill(0, 16, 0);
  again.submit(plan, {}, {done.at(1)});
  done.wait(1);
  expect_bytes(memory.read(0, 16), std::vector<std::byte>(16, std::byte{7}), "work after work that failed");
}

void destroy_in_flight(const Settings& settings) {
  Opened opened(settings);
  OpList list;
  Memory memory(opened, 16);
  list.fill(memory.address(), 16, 7);
  const Plan plan(opened, list);
  Timeline go(opened), done(opened);
  Queue queue(opened);
  queue.submit(plan, {go.at(1)}, {done.at(1)});
  queue.submit(plan, {}, {done.at(2)});
  std::thread signaller([&] {
    usleep(20'000);
    go.signal(1);
  });
  queue.destroy();
  signaller.join();
  expect_equal(done.value(), 2, "the timeline after queue.destroy of a queue whose work waited");
  expect_bytes(memory.read(0, 16), std::vector<std::byte>(16, std::byte{7}), "what its work wrote");
}

void memory_beside(const Settings& settings) {
  Opened opened(settings);
  if (!opened.may_have("async")) unsupported("the device says that submit is not asynchronous");
  const Kernels kernels(opened);
  Memory memory(opened, 8000);
  OpList list;
  list.launch(kernels.find("ck_count"), {memory.address()}, 1000);
  const Plan plan(opened, list);
  Queue queue(opened);
  Timeline go(opened), done(opened);
  queue.submit(plan, {go.at(1)}, {done.at(1)});
  queue.flush();
  const std::vector<std::byte> data = noise(4000, 3);
  memory.write(4000, data);  // would never return if it waited for the work
  expect_bytes(memory.read(4000, 4000), data, "what was written while work was in flight");
  go.signal(1);
  done.wait(1);
  expect_bytes(memory.read(4000, 4000), data, "what was written while work was in flight, when that is done");
  expect(memory.values<std::int32_t>(1000) == std::vector<std::int32_t>(1000, 1), "the work beside it counted",
         fmt::format("{}", memory.values<std::int32_t>(1)[0]));
}

void times_are_told(const Settings& settings) {
  Opened opened(settings);
  const auto times = need(opened.tables.queue.timeline_times, "queue.timeline_times");
  const Kernels kernels(opened);
  Memory memory(opened, 4000);
  OpList list;
  list.launch(kernels.find("ck_count"), {memory.address()}, 1000);
  const Plan plan(opened, list);
  Queue queue(opened);
  Timeline done(opened);
  const std::uint64_t before = now_ns();
  std::uint64_t last_end = before;
  for (std::uint64_t round = 1; round <= 4; ++round) queue.submit(plan, {}, {done.at(round)});
  done.wait(4);
  const std::uint64_t after = now_ns();
  std::uint32_t first_clock = CRUCIBLE_CLOCK_HOST;
  for (std::uint64_t round = 1; round <= 4; ++round) {
    std::uint64_t begin = 0, end = 0;
    std::uint32_t clock = 99;
    expect_ok(times(done.handle(), round, &begin, &end, &clock), fmt::format("queue.timeline_times of {}", round));
    expect(clock == CRUCIBLE_CLOCK_HOST || clock == CRUCIBLE_CLOCK_DEVICE, "the times name a clock of the ABI",
           fmt::format("{}", clock));
    if (round == 1) first_clock = clock;
    expect(begin <= end, "work begins before it ends", fmt::format("{} and {}", begin, end));
    if (first_clock != CRUCIBLE_CLOCK_HOST) continue;  // a device's clock is brought to the host's, more or less
    expect(begin >= last_end, "work begins after what was submitted before it, on the host's steady clock",
           fmt::format("{} after {}", begin, last_end));
    expect(end <= after, "work ends before somebody has waited for it, on the host's steady clock",
           fmt::format("{} and {}", end, after));
    last_end = end;
  }
}

}  // namespace

std::vector<Case> behaviour_flight_cases() {
  const auto make = [](std::string name, std::string rule, void (*run)(const Settings&), bool quick) {
    return Case{"behaviour.flight." + std::move(name), Tier::kBehaviour, std::move(rule), quick, run, 60};
  };
  return {
      make("two_plans", "plans that are in flight together run in the order of their submission", two_plans, true),
      make("flush_begins", "what was flushed runs though nobody waits for it", flush_begins, true),
      make("failure_goes_on", "a failure ends what waits for it, and nothing else", failure_goes_on, true),
      make("destroy_in_flight", "a queue whose work still waits can be destroyed: it waits, too", destroy_in_flight,
           false),
      make("memory_beside", "memory is written and read while work is in flight", memory_beside, true),
      make("times", "when work ran is told, on the host's steady clock", times_are_told, true),
  };
}

}  // namespace crucible::conformance
