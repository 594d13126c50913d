// Many times and from many threads: functions tagged [ANY] at once, thousands of objects, and a ledger that is back to
// where it was.
#include <fmt/format.h>
#include <malloc.h>

#include <atomic>
#include <thread>

#include "plugins/conformance/opened.hpp"
#include "plugins/conformance/process_state.hpp"
#include "plugins/conformance/queue_objects.hpp"

namespace crucible::conformance {
namespace {

constexpr int kThreads = 4;

template <class Body>
void on_threads(Body body) {
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back([&body, t] { body(t); });
  for (std::thread& thread : threads) thread.join();
}

std::uint64_t live_bytes(Opened& opened) {
  Items items;
  expect_ok(must(opened.tables.memory.stats, "memory.stats")(opened.device, items.sink(), items.user()),
            "memory.stats");
  return items.number("live_bytes");
}

void threads_memory(const Settings& settings) {
  Opened opened(settings);
  const std::uint64_t before = live_bytes(opened);
  on_threads([&](int t) {
    for (std::uint32_t i = 0; i < 300; ++i) {
      Memory memory(opened, 1 + i * 131 % 40'000);
      const std::vector<std::byte> data = noise(memory.size(), i * 4 + static_cast<std::uint32_t>(t));
      memory.write(0, data);
      expect_bytes(memory.read(0, memory.size()), data, fmt::format("thread {}, buffer {}", t, i));
      if (i % 50 == 0) live_bytes(opened);
    }
  });
  expect_equal(live_bytes(opened), before, "live_bytes after four threads have freed all that they had");
}

void threads_questions(const Settings& settings) {
  Opened opened(settings);
  on_threads([&](int t) {
    for (int i = 0; i < 100; ++i) {
      Items items;
      const auto& device = opened.tables.device;
      expect_ok(must(device.enumerate, "device.enumerate")(items.sink(), items.user()), "device.enumerate");
      expect_ok(must(device.properties, "device.properties")(opened.device, items.sink(), items.user()),
                "device.properties");
      if (device.capabilities != nullptr)
        expect_ok(device.capabilities(borrow(opened.id), items.sink(), items.user()), "device.capabilities");
      if (i % 10 != t) continue;
      crucible_device* other = nullptr;
      expect_ok(must(device.open, "device.open")(borrow(opened.id), &other), "device.open beside others");
      expect_ok(must(device.close, "device.close")(other), "device.close");
    }
  });
}

void threads_errors(const Settings& settings) {
  Opened opened(settings);
  on_threads([&](int t) {
    for (std::uint64_t i = 0; i < 500; ++i) {
      const std::string id = fmt::format("no-such-{}-{}", t, i);
      Canary<crucible_device*> device;
      const PluginError error = expect_error(
          must(opened.tables.device.open, "device.open")(borrow(id), device.out()),
          {CRUCIBLE_E_INVALID_ARGUMENT, CRUCIBLE_E_UNAVAILABLE, CRUCIBLE_E_UNSUPPORTED}, "device.open of " + id);
      device.expect_untouched("device.open of " + id);
      // A message that quotes an id must quote this thread's.
      if (error.message.find("no-such-") != std::string::npos)
        expect(error.message.find(id) != std::string::npos, "the error of a thread speaks of its own call: " + id,
               error.message);
    }
  });
}

void threads_plans(const Settings& settings) {
  Opened opened(settings);
  const Kernels kernels(opened);
  on_threads([&](int t) {
    Memory memory(opened, 4000);
    for (std::int32_t i = 1; i <= 60; ++i) {
      OpList list;
      list.launch(kernels.find("ck_count"), {memory.address()}, 1000, 1 + t);
      run_once(opened, list);
      expect_equal(static_cast<std::uint64_t>(memory.values<std::int32_t>(1000)[999]), static_cast<std::uint64_t>(i),
                   fmt::format("thread {}: the count after replay {}", t, i));
    }
  });
}

void threads_compile(const Settings& settings) {
  Opened opened(settings);
  on_threads([&](int t) {
    const std::string name = fmt::format("ck_thread_{}", t);
    const Kernels own(opened, {writing_kernel(name, 100 + t)});
    const Kernels shared(opened);
    Memory memory(opened, 40);
    OpList list;
    list.launch(own.find(name), {memory.address()}, 10);
    list.launch(shared.find("ck_count"), {memory.address()}, 10);
    run_once(opened, list);
    expect_equal(static_cast<std::uint64_t>(memory.values<std::int32_t>(10)[3]), static_cast<std::uint64_t>(101 + t),
                 fmt::format("thread {}'s result", t));
  });
}

void threads_timelines(const Settings& settings) {
  Opened opened(settings);
  need(opened.tables.queue.timeline_create, "queue.timeline_create");
  Timeline timeline(opened);
  std::atomic<std::uint64_t> next{0};
  on_threads([&](int t) {
    if (t == 0) {  // one signals, the others wait and watch
      for (std::uint64_t i = 1; i <= 2000; ++i) timeline.signal(i), next = i;
      return;
    }
    std::uint64_t last = 0;
    while (last < 2000) {
      const std::uint64_t floor = next, value = timeline.value();
      expect(value >= last && value >= floor, "a timeline never goes back, for no thread",
             fmt::format("{} after {}", value, std::max(last, floor)));
      last = value;
      if (last < 2000) timeline.wait(last + 1);
    }
  });
}

/// Growth per round after a warm-up must be nothing: handles exactly, memory within what allocators keep.
template <class Round>
void expect_no_growth(Opened& opened, int rounds, const std::string& what, Round round) {
  for (int i = 0; i < rounds / 4 + 1; ++i) round();
  malloc_trim(0);
  const std::uint64_t live = live_bytes(opened);
  const std::string files = open_files();
  const unsigned threads = thread_count();
  const auto resident = resident_bytes();
  // A table that grows once is no leak: what leaks does so in each of three measurements.
  long long per_round = 16;
  for (int measurement = 0; measurement < 3 && per_round >= 16; ++measurement) {
    const auto heap = mallinfo2().uordblks;
    for (int i = 0; i < rounds; ++i) round();
    malloc_trim(0);
    per_round = (static_cast<long long>(mallinfo2().uordblks) - static_cast<long long>(heap)) / rounds;
  }
  expect_equal(live_bytes(opened), live, fmt::format("live_bytes after {} times {}", rounds, what));
  expect(open_files() == files, fmt::format("no file is left open after {} times {}", rounds, what), open_files());
  expect_threads(threads, fmt::format("after {} times {}, as before", rounds, what));
  expect(per_round < 16, fmt::format("the heap does not grow by {} times {}", rounds, what),
         fmt::format("{} bytes more each time", per_round));
  const auto grown = static_cast<long long>(resident_bytes() - resident);
  expect(grown < (8ll << 20) || grown / rounds < 256,
         fmt::format("resident memory does not grow by {} times {}", rounds, what),
         fmt::format("{} bytes more", grown));
}

int rounds(const Settings& settings, int full) { return settings.quick ? full / 10 + 1 : full; }

void leak_buffers(const Settings& settings) {
  Opened opened(settings);
  expect_no_growth(opened, rounds(settings, 3000), "making and freeing a buffer of 10,000 bytes", [&] {
    Memory memory(opened, 10'000);
    memory.fill(0, 10'000, 1);
  });
}

void leak_plans(const Settings& settings) {
  Opened opened(settings);
  Memory memory(opened, 4096);
  OpList list;
  for (int i = 0; i < 10; ++i) list.fill(memory.address(), 4096, static_cast<std::uint32_t>(i));
  expect_no_growth(opened, rounds(settings, 3000), "building, replaying and destroying a plan",
                   [&] { run_once(opened, list); });
}

void leak_replays(const Settings& settings) {
  Opened opened(settings);
  Memory memory(opened, 4096);
  OpList list;
  for (int i = 0; i < 10; ++i) list.fill(memory.address(), 4096, static_cast<std::uint32_t>(i));
  Plan plan(opened, list, 1);
  std::vector<std::uint64_t> times(10);
  expect_no_growth(opened, rounds(settings, 5000), "replaying and profiling a plan", [&] {
    plan.set_slots({1});
    plan.replay();
    expect_ok(must(opened.tables.plan.profile, "plan.profile")(plan.handle(), times.data(), 10), "plan.profile");
  });
}

void leak_errors(const Settings& settings) {
  Opened opened(settings);
  expect_no_growth(opened, rounds(settings, 5000), "a call that fails", [&] {
    crucible_buffer* buffer = nullptr;
    take_error(must(opened.tables.memory.alloc, "memory.alloc")(opened.device, 1, 3, &buffer),
               "memory.alloc with alignment 3");
  });
}

void leak_modules(const Settings& settings) {
  Opened opened(settings);
  expect_no_growth(opened, rounds(settings, 40), "compiling and unloading a module",
                   [&] { const Kernels kernels(opened); });
}

void leak_queues(const Settings& settings) {
  Opened opened(settings);
  need(opened.tables.queue.create, "queue.create");
  const OpList list;
  const Plan plan(opened, list);
  expect_no_growth(opened, rounds(settings, 500), "making, using and destroying a queue and a timeline", [&] {
    Timeline done(opened);
    Queue queue(opened);
    queue.submit(plan, {}, {done.at(1)});
    done.wait(1);
  });
}

void leak_devices(const Settings& settings) {
  Opened opened(settings);
  const auto& device = opened.tables.device;
  expect_no_growth(opened, rounds(settings, 100), "opening and closing a device", [&] {
    crucible_device* other = nullptr;
    expect_ok(device.open(borrow(opened.id), &other), "device.open");
    expect_ok(device.close(other), "device.close");
  });
}

void host_memory(const Settings& settings) {
  {
    Opened opened(settings);
    Memory memory(opened, 100'000);
    OpList list;
    list.fill(memory.address(), 100'000, 1);
    run_once(opened, list);
  }
  expect(host_live_bytes() == 0, "everything that host.alloc gave has been given back after shutdown",
         fmt::format("{} bytes were not", host_live_bytes()));
}

}  // namespace

std::vector<Case> stress_cases() {
  const auto make = [](std::string name, std::string rule, void (*run)(const Settings&)) {
    return Case{"stress." + std::move(name), Tier::kStress, std::move(rule), false, run, 120};
  };
  return {
      make("threads.memory", "four threads make, use and free buffers at once", threads_memory),
      make("threads.questions", "four threads ask and open devices at once", threads_questions),
      make("threads.errors", "four threads get errors at once, each its own", threads_errors),
      make("threads.plans", "four threads build and replay plans at once", threads_plans),
      make("threads.compile", "four threads compile at once", threads_compile),
      make("threads.timelines", "threads that signal, wait and watch agree", threads_timelines),
      make("leak.buffers", "thousands of buffers leave nothing behind", leak_buffers),
      make("leak.plans", "thousands of plans leave nothing behind", leak_plans),
      make("leak.replays", "thousands of replays leave nothing behind", leak_replays),
      make("leak.errors", "thousands of errors leave nothing behind", leak_errors),
      make("leak.modules", "modules leave nothing behind", leak_modules),
      make("leak.queues", "queues and timelines leave nothing behind", leak_queues),
      make("leak.devices", "devices leave nothing behind", leak_devices),
      make("leak.host_memory", "memory of the host is given back", host_memory),
  };
}

}  // namespace crucible::conformance
