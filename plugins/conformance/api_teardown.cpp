// Beginnings and ends: init and shutdown in pairs, objects given back in different orders, and a process that is as it
// was afterwards.
#include <fmt/format.h>

#include "plugins/conformance/api_cases.hpp"
#include "plugins/conformance/opened.hpp"
#include "plugins/conformance/process_state.hpp"

namespace crucible::conformance {
namespace {

void work(Opened& opened) {
  Memory memory(opened, 4096);
  OpList list;
  list.fill(memory.address(), 4096, 3);
  run_once(opened, list);
  expect_bytes(memory.read(0, 4096), std::vector<std::byte>(4096, std::byte{3}), "a filled buffer");
}

void init_twice(const Settings& settings) {
  for (int round = 0; round < 3; ++round) {
    Opened opened(settings);
    work(opened);
  }
}

void init_without_work(const Settings& settings) {
  Subject subject(settings);
  for (int round = 0; round < 20; ++round) {
    subject.start();
    subject.stop();
  }
  expect_error(subject.api.init(nullptr), {CRUCIBLE_E_INVALID_ARGUMENT}, "init without the host's table");
  subject.start();
}

void two_devices(const Settings& settings) {
  Subject subject(settings);
  subject.start();
  const std::string id = device_ids(subject).front();
  const auto open = must(subject.tables.device.open, "device.open");
  const auto close = must(subject.tables.device.close, "device.close");
  const auto alloc = must(subject.tables.memory.alloc, "memory.alloc");
  const auto free = must(subject.tables.memory.free, "memory.free");
  crucible_device *first = nullptr, *second = nullptr;
  crucible_buffer *a = nullptr, *b = nullptr;
  expect_ok(open(borrow(id), &first), "device.open");
  expect_ok(open(borrow(id), &second), "device.open a second time");
  expect_ok(alloc(first, 100, 64, &a), "memory.alloc on the first");
  expect_ok(alloc(second, 100, 64, &b), "memory.alloc on the second");
  expect_ok(free(a), "memory.free on the first");
  expect_ok(close(first), "device.close of the first");
  std::byte data[100] = {};
  expect_ok(must(subject.tables.memory.read, "memory.read")(b, 0, data, 100),
            "memory.read on the second after the first is closed");
  expect_ok(free(b), "memory.free on the second");
  expect_ok(close(second), "device.close of the second");
}

void teardown_orders(const Settings& settings) {
  Opened opened(settings);
  const auto& t = opened.tables;
  for (int order = 0; order < 2; ++order) {
    crucible_buffer* buffers[3] = {};
    for (auto& buffer : buffers)
      expect_ok(must(t.memory.alloc, "memory.alloc")(opened.device, 256, 64, &buffer), "memory.alloc");
    std::uint64_t address = 0;
    expect_ok(must(t.memory.address, "memory.address")(buffers[0], &address), "memory.address");
    OpList list;
    list.fill(address, 256, 1);
    crucible_plan* plans[2] = {};
    for (auto& plan : plans)
      expect_ok(must(t.plan.build, "plan.build")(opened.device, list.data(), list.count(), 0, &plan), "plan.build");
    crucible_queue* queue = nullptr;
    expect_ok(must(t.queue.create, "queue.create")(opened.device, &queue), "queue.create");
    expect_ok(must(t.queue.submit, "queue.submit")(queue, plans[0], nullptr, 0, nullptr, 0), "queue.submit");
    expect_ok(must(t.queue.destroy, "queue.destroy")(queue), "queue.destroy");
    const auto destroy_plans = [&] {
      for (int i = 0; i < 2; ++i)
        expect_ok(must(t.plan.destroy, "plan.destroy")(plans[order == 0 ? i : 1 - i]), "plan.destroy");
    };
    const auto free_buffers = [&] {
      for (int i = 0; i < 3; ++i)
        expect_ok(must(t.memory.free, "memory.free")(buffers[order == 0 ? i : 2 - i]), "memory.free");
    };
    // A plan that is not submitted again does not need its buffers.
    order == 0 ? (destroy_plans(), free_buffers()) : (free_buffers(), destroy_plans());
  }
}

void module_orders(const Settings& settings) {
  Opened opened(settings);
  Memory memory(opened, 4000);
  auto first = std::make_unique<Kernels>(opened);
  auto second = std::make_unique<Kernels>(opened);
  OpList list;
  list.launch(second->find("ck_count"), {memory.address()}, 1000);
  first.reset();  // the same kernels, another module
  run_once(opened, list);
  expect(memory.values<std::int32_t>(1000) == std::vector<std::int32_t>(1000, 1),
         "a module works after another with the same kernels is unloaded", "wrong counts");
  second.reset();
}

void process_as_before(const Settings& settings) {
  Subject probe(settings);  // loaded, so that what loading itself does is not counted here
  const ProcessState state = process_state();
  const unsigned threads = thread_count();
  {
    Opened opened(settings);
    work(opened);
    expect_same_state(state, "while a device is open");
  }
  expect_same_state(state, "after shutdown");
  expect_threads(threads, "after shutdown, as before init");
}

}  // namespace

std::vector<Case> api_teardown_cases() {
  const auto make = [](std::string name, std::string rule, void (*run)(const Settings&)) {
    return Case{"api." + std::move(name), Tier::kApi, std::move(rule), true, run, 60};
  };
  return {
      make("init.again_after_shutdown", "init, work and shutdown can be done again and again", init_twice),
      make("init.without_work", "shutdown may follow init at once; init without a host is refused", init_without_work),
      make("teardown.two_devices", "a device can be opened twice and closed in any order", two_devices),
      make("teardown.orders", "plans and buffers can be given back in any order", teardown_orders),
      make("teardown.modules", "modules with the same kernels do not depend on each other", module_orders),
      make("teardown.process_as_before", "handlers, locale, floating-point mode and threads are as before",
           process_as_before),
  };
}

}  // namespace crucible::conformance
