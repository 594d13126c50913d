// What goes wrong in good plugins' lives: no memory, failed compilations, waits that are given up. The device works
// afterwards.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plugins/conformance/opened.hpp"
#include "plugins/conformance/queue_objects.hpp"

namespace crucible::conformance {
namespace {

void still_works(Opened& opened) {
  Memory memory(opened, 5000);
  OpList list;
  list.fill(memory.address(), 5000, 0x3d);
  run_once(opened, list);
  expect_bytes(memory.read(0, 5000), std::vector<std::byte>(5000, std::byte{0x3d}), "a FILL after the fault");
}

void out_of_memory(const Settings& settings) {
  Opened opened(settings);
  const auto alloc = must(opened.tables.memory.alloc, "memory.alloc");
  for (const std::uint64_t size : {1ull << 50, 1ull << 62, ~0ull >> 1, ~0ull - 4095, ~0ull}) {
    Canary<crucible_buffer*> buffer;
    const std::string what = fmt::format("memory.alloc of {} bytes", size);
    const PluginError error =
        expect_error(alloc(opened.device, size, 64, buffer.out()), {CRUCIBLE_E_OUT_OF_MEMORY}, what);
    buffer.expect_untouched(what);
    expect(error.message.find(std::to_string(size)) != std::string::npos,
           what + ": the message names how much was asked for", error.message);
  }
  Items items;
  expect_ok(must(opened.tables.memory.stats, "memory.stats")(opened.device, items.sink(), items.user()),
            "memory.stats");
  expect_equal(items.number("live_bytes"), 0, "live_bytes after refused allocations");
  still_works(opened);
}

void given_up_waits(const Settings& settings) {
  Opened opened(settings);
  Timeline timeline(opened);
  for (int i = 0; i < 50; ++i)
    expect_error(timeline.try_wait(1, 100'000), {CRUCIBLE_E_CANCELLED}, "queue.timeline_wait that is given up");
  timeline.signal(1);
  timeline.wait(1);
  still_works(opened);
}

void failed_compilations(const Settings& settings) {
  Opened opened(settings);
  const kernel::Kernel good = writing_kernel("ck_good", 1), bad = writing_kernel("ck_bad", 2);
  crucible_kernel_source sources[] = {source_of(good), source_of(bad)};
  sources[1].size -= 7;
  for (int i = 0; i < 3; ++i) {
    Canary<crucible_module*> module;
    expect_error(
        must(opened.tables.compile.compile, "compile.compile")(opened.device, sources, 2, 0, module.out(), nullptr),
        {CRUCIBLE_E_INVALID_ARGUMENT, CRUCIBLE_E_INTERNAL, CRUCIBLE_E_UNSUPPORTED, CRUCIBLE_E_DATA_CORRUPT},
        "compile.compile of a good and a broken kernel");
    module.expect_untouched("compile.compile of a good and a broken kernel");
  }
  const Kernels kernels(opened);
  still_works(opened);
}

void exhausted(const Settings& settings) {
  Opened opened(settings);
  const auto alloc = must(opened.tables.memory.alloc, "memory.alloc");
  // Refused in the midst of others that are alive: those are not touched.
  std::deque<Memory> alive;
  for (int i = 0; i < 20; ++i) {
    alive.emplace_back(opened, 1000).fill(0, 1000, static_cast<std::uint8_t>(i));
    crucible_buffer* buffer = nullptr;
    expect_error(alloc(opened.device, 1ull << 55, 64, &buffer), {CRUCIBLE_E_OUT_OF_MEMORY}, "memory.alloc of 32 PiB");
  }
  for (int i = 0; i < 20; ++i)
    expect_bytes(alive[static_cast<std::size_t>(i)].read(0, 1000),
                 std::vector<std::byte>(1000, static_cast<std::byte>(i)), "a buffer beside refused ones");
}

}  // namespace

std::vector<Case> faults_cases() {
  const auto make = [](std::string name, std::string rule, void (*run)(const Settings&)) {
    return Case{"faults." + std::move(name), Tier::kFaults, std::move(rule), false, run, 60};
  };
  return {
      make("memory.too_much", "impossible sizes are OUT_OF_MEMORY, with the number", out_of_memory),
      make("memory.beside_others", "a refused allocation harms no other buffer", exhausted),
      make("compile.failed", "a failed compilation leaves the device as it was", failed_compilations),
      make("queue.given_up_waits", "waits that are given up do not disturb the timeline", given_up_waits),
  };
}

}  // namespace crucible::conformance
