// Queues and timelines: values that only grow, waits that end in time, signals neither early nor lost, and submitted
// work that gives the bits of a replay.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "plugins/conformance/behaviour_cases.hpp"
#include "plugins/conformance/queue_objects.hpp"

namespace crucible::conformance {
namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t elapsed_ns(Clock::time_point since) {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now() - since).count());
}

void timeline_grows(const Settings& settings) {
  Opened opened(settings);
  Timeline timeline(opened, 7);
  expect_equal(timeline.value(), 7, "a fresh timeline's value");
  std::uint64_t last = 7;
  for (const std::uint64_t value : {8ull, 9ull, 100ull, 1ull << 40, ~0ull - 1}) {
    timeline.signal(value);
    expect_equal(timeline.value(), value, "the timeline after a signal from the host");
    for (const std::uint64_t smaller : {last, value, std::uint64_t{0}})
      expect_error(must(opened.tables.queue.timeline_signal, "queue.timeline_signal")(timeline.handle(), smaller),
                   {CRUCIBLE_E_INVALID_ARGUMENT}, fmt::format("queue.timeline_signal of {} at {}", smaller, value));
    expect_equal(timeline.value(), value, "the timeline after a refused signal");
    last = value;
  }
}

void wait_times_out(const Settings& settings) {
  Opened opened(settings);
  Timeline timeline(opened, 3);
  for (const std::uint64_t reached : {0ull, 1ull, 3ull})
    expect_ok(timeline.try_wait(reached, 0), "queue.timeline_wait for a value that is reached, no time,");
  for (const std::uint64_t timeout : {std::uint64_t{0}, kSecond / 1000, kSecond / 5}) {
    const auto start = Clock::now();
    expect_error(timeline.try_wait(4, timeout), {CRUCIBLE_E_CANCELLED},
                 fmt::format("queue.timeline_wait for a value that never comes, {} ns,", timeout));
    const std::uint64_t took = elapsed_ns(start);
    expect(took + kSecond / 100 >= timeout, fmt::format("a wait of {} ns lasts that long", timeout),
           fmt::format("{} ns", took));
    expect(took < timeout + 5 * kSecond, fmt::format("a wait of {} ns ends then", timeout), fmt::format("{} ns", took));
  }
  expect_equal(timeline.value(), 3, "the timeline after waits that ended without it");
}

void host_signals(const Settings& settings) {
  Opened opened(settings);
  Timeline timeline(opened);
  std::thread signaller([&] {
    usleep(50'000);
    timeline.signal(5);
  });
  timeline.wait(5);
  signaller.join();
  expect_equal(timeline.value(), 5, "the timeline that another thread signalled");
}

void submit_runs(const Settings& settings) {
  Opened opened(settings);
  const Kernels kernels(opened);
  Queue queue(opened);
  Memory memory(opened, 4000);
  OpList list;
  list.launch(kernels.find("ck_count"), {memory.address()}, 1000);
  const Plan plan(opened, list);
  Timeline done(opened);
  for (std::uint64_t round = 1; round <= 20; ++round) {
    queue.submit(plan, {}, {done.at(round)});
    if (round % 3 == 0) done.wait(round);
  }
  done.wait(20);
  expect(memory.values<std::int32_t>(1000) == std::vector<std::int32_t>(1000, 20),
         "20 submissions run the list 20 times", fmt::format("{}", memory.values<std::int32_t>(1)[0]));
  expect_equal(done.value(), 20, "the timeline after 20 submissions");
}

/// A list with some length, so that a signal that does not wait for its end is seen.
struct LongWork {
  explicit LongWork(Opened& opened) : kernels(opened), memory(opened, 64 * 8), spin(list(), opened) {}
  OpList list() {
    OpList ops;
    ops.fill(memory.address(), 64 * 8, 0);
    ops.launch(kernels.find("ck_spin"), {memory.address()}, 64, 1, {fixed(400'000)});
    return ops;
  }
  bool finished() {
    for (const double value : memory.values<double>(64)) {
      if (value == 0) return false;
    }
    return true;
  }
  struct Built {
    Built(const OpList& ops, Opened& opened) : plan(opened, ops) {}
    Plan plan;
  };
  Kernels kernels;
  Memory memory;
  Built spin;
};

void signal_is_not_early(const Settings& settings) {
  Opened opened(settings);
  LongWork work(opened);
  Queue queue(opened);
  Timeline done(opened);
  for (std::uint64_t round = 1; round <= 5; ++round) {
    work.memory.fill(0, work.memory.size(), 0);
    queue.submit(work.spin.plan, {}, {done.at(round)});
    done.wait(round);
    expect(work.finished(), "when the signal comes, the work is done and can be read",
           "results are missing: the signal came too early");
  }
}

void signal_keeps_to_its_value(const Settings& settings) {
  Opened opened(settings);
  LongWork work(opened);
  Queue queue(opened);
  Timeline done(opened, 10);
  queue.submit(work.spin.plan, {}, {done.at(20)});
  const std::uint64_t early = done.value();
  expect(early == 10 || (early == 20 && work.finished()), "the timeline is at 10 until the work is done",
         fmt::format("it is at {}", early));
  done.wait(15);
  expect_equal(done.value(), 20, "the timeline after the work");
  expect_error(done.try_wait(21, kSecond / 100), {CRUCIBLE_E_CANCELLED},
               "queue.timeline_wait for one more than was signalled");
}

void waits_are_kept(const Settings& settings) {
  Opened opened(settings);
  const Kernels kernels(opened);
  Memory memory(opened, 4000);
  OpList list;
  list.launch(kernels.find("ck_count"), {memory.address()}, 1000);
  const Plan plan(opened, list);
  Timeline go(opened), also(opened), done(opened);
  Queue queue(opened);
  queue.submit(plan, {go.at(2), also.at(1)}, {done.at(1)});
  for (int step = 0; step < 3; ++step) {
    expect_error(done.try_wait(1, kSecond / 20), {CRUCIBLE_E_CANCELLED},
                 "queue.timeline_wait for work whose waits are not reached");
    expect(memory.values<std::int32_t>(1)[0] == 0, "work does not start before its waits are reached", "it ran");
    if (step == 0) go.signal(1);
    if (step == 1) go.signal(2);
    if (step == 2) also.signal(1);
  }
  done.wait(1);
  expect(memory.values<std::int32_t>(1)[0] == 1, "work runs when all its waits are reached", "it did not");
}

void queues_meet(const Settings& settings) {
  Opened opened(settings);
  const Kernels kernels(opened);
  constexpr std::int64_t kCount = 3000;
  Memory a(opened, std::vector<double>(kCount, 0)), b(opened, kCount * 8);
  OpList there, back;
  there.launch(kernels.find("ck_reverse"), {b.address(), a.address()}, kCount, 1, {fixed(kCount)});
  back.launch(kernels.find("ck_reverse"), {a.address(), b.address()}, kCount, 1, {fixed(kCount)});
  const Plan first(opened, there), second(opened, back);
  Timeline ping(opened), pong(opened);
  {
    Queue left(opened), right(opened);
    for (std::uint64_t round = 1; round <= 20; ++round) {
      left.submit(first, {pong.at(round - 1)}, {ping.at(round)});
      right.submit(second, {ping.at(round)}, {pong.at(round)});
    }
    pong.wait(20);
  }
  expect(a.values<double>(kCount) == std::vector<double>(kCount, 40), "two queues that wait for each other take turns",
         fmt::format("{} instead of 40", a.values<double>(1)[0]));
}

void destroy_waits(const Settings& settings) {
  Opened opened(settings);
  LongWork work(opened);
  Timeline done(opened);
  Queue queue(opened);
  for (std::uint64_t round = 1; round <= 3; ++round) queue.submit(work.spin.plan, {}, {done.at(round)});
  queue.destroy();
  expect_equal(done.value(), 3, "the timeline after queue.destroy, which waits for what was submitted");
  expect(work.finished(), "queue.destroy waits for the work", "it is not done");
}

void submit_does_not_wait(const Settings& settings) {
  Opened opened(settings);
  if (!opened.may_have("async")) unsupported("the device says that submit is not asynchronous");
  OpList list;
  Memory memory(opened, 16);
  list.fill(memory.address(), 16, 1);
  const Plan plan(opened, list);
  Timeline go(opened), done(opened);
  Queue queue(opened);
  queue.submit(plan, {go.at(1)}, {done.at(1)});  // would never return if it waited
  go.signal(1);
  done.wait(1);
}

void same_bits(const Settings& settings) {
  Opened opened(settings);
  const Kernels kernels(opened);
  constexpr std::int64_t kCount = 20'011;
  std::vector<double> start(kCount);
  for (std::size_t i = 0; i < start.size(); ++i) start[i] = 0.1 * static_cast<double>(i) - 7;
  Memory a(opened, kCount * 8), b(opened, kCount * 8);
  OpList list;
  for (int i = 0; i < 6; ++i) {
    list.launch(kernels.find("ck_scale"), {b.address(), a.address()}, kCount, 16, {fixed(1.0 / 3), slot(0)});
    list.launch(kernels.find("ck_reverse"), {a.address(), b.address()}, kCount, 100, {fixed(kCount)});
  }
  Plan plan(opened, list, 1);
  plan.set_slots({0.7});
  const auto run = [&](auto how) {
    a.write(0, std::as_bytes(std::span(start)));
    how();
    return a.read(0, kCount * 8);
  };
  const auto first = run([&] { plan.replay(); });
  expect_bytes(run([&] { plan.replay(); }), first, "the second run of the same input");
  Queue queue(opened);
  Timeline go(opened), done(opened);
  expect_bytes(run([&] {  // on another thread than the one that waits, where the plugin has one
                 queue.submit(plan, {go.at(1)}, {done.at(1)});
                 queue.flush();
                 go.signal(1);
                 done.wait(1);
               }),
               first, "the result of work that waited in a queue");
}

void wait_idle(const Settings& settings) {
  Opened opened(settings);
  const auto idle = need(opened.tables.device.wait_idle, "device.wait_idle");
  expect_ok(idle(opened.device, 0), "device.wait_idle of an idle device");
  need(opened.tables.queue.create, "queue.create");
  OpList list;
  const Plan plan(opened, list);
  Timeline go(opened), done(opened);
  Queue queue(opened);
  queue.submit(plan, {go.at(1)}, {done.at(1)});
  expect_error(idle(opened.device, kSecond / 50), {CRUCIBLE_E_CANCELLED}, "device.wait_idle while work waits");
  go.signal(1);
  expect_ok(idle(opened.device, 10 * kSecond), "device.wait_idle after the work may go on");
  expect_equal(done.value(), 1, "the timeline once the device is idle");
}

}  // namespace

std::vector<Case> behaviour_queue_cases() {
  const auto make = [](std::string name, std::string rule, void (*run)(const Settings&), bool quick) {
    return Case{"behaviour.queue." + std::move(name), Tier::kBehaviour, std::move(rule), quick, run, 60};
  };
  return {
      make("timeline_grows", "a timeline takes growing values alone", timeline_grows, true),
      make("wait_times_out", "a wait for what does not come ends with CANCELLED in its time", wait_times_out, true),
      make("host_signals", "a signal of the host wakes a waiting thread", host_signals, false),
      make("submit_runs", "each submission runs its plan once and signals", submit_runs, true),
      make("signal_is_not_early", "a signal comes after the work is done", signal_is_not_early, true),
      make("signal_keeps_to_its_value", "a timeline is never ahead of the work", signal_keeps_to_its_value, false),
      make("waits_are_kept", "work waits for all its points", waits_are_kept, true),
      make("queues_meet", "queues that wait for each other take turns", queues_meet, false),
      make("destroy_waits", "destroy waits for what was submitted", destroy_waits, false),
      make("submit_does_not_wait", "submit returns before the work's waits are reached", submit_does_not_wait, true),
      make("same_bits", "a plan gives the same bits whenever it runs, at once or later", same_bits, true),
      make("wait_idle", "wait_idle waits for all queues, no longer than it may", wait_idle, false),
  };
}

}  // namespace crucible::conformance
