// Memory table: see memory.hpp. Copies go through an immediate list that is done when the call returns.
#include "backends/intel/memory.hpp"

#include <algorithm>
#include <memory>
#include <string>

#include "backends/intel/tables.hpp"

namespace crucible_intel {

using namespace crucible;

namespace {

constexpr std::uint64_t kDriversAlignment = std::uint64_t{1} << 16;  // no driver is asked for a larger one

void* pointer(const sdk::Place& place) { return reinterpret_cast<void*>(place.address); }

struct Memories {
  static std::shared_ptr<Allocation> allocate(crucible_device& device, std::uint64_t size, std::uint64_t align) {
    const DeviceFacts& facts = device.facts;
    const auto is_full = [](ze_result_t code) {
      return code == ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY || code == ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY ||
             code == ZE_RESULT_ERROR_UNSUPPORTED_SIZE;
    };
    void* memory = nullptr;
    const auto description = typed<ze_device_mem_alloc_desc_t>(ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC);
    const ze_result_t code = sdk::ask_twice(
        facts.id, size,
        [&] {
          return device.ze->zeMemAllocDevice(device.context.get(), &description, size,
                                             std::min(align, kDriversAlignment), facts.device, &memory);
        },
        is_full,
        [&] {
          const std::lock_guard lock(device.run_mutex);
          finish(device, "memory.alloc");
        });
    if (is_full(code)) return nullptr;
    check(code, "memory.alloc of " + std::to_string(size) + " bytes: zeMemAllocDevice");
    return std::make_shared<Allocation>(*device.ze, device.context.get(), memory);
  }

  static void write(crucible_device& device, const sdk::Place& to, const void* from, std::uint64_t size) {
    copy_now(device, pointer(to), from, size, "memory.write: zeCommandListAppendMemoryCopy");
  }
  static void read(crucible_device& device, const sdk::Place& from, void* to, std::uint64_t size) {
    copy_now(device, to, pointer(from), size, "memory.read: zeCommandListAppendMemoryCopy");
  }
  static void fill(crucible_device& device, const sdk::Place& place, std::uint64_t size, std::uint8_t byte) {
    const std::lock_guard lock(device.now_mutex);
    check(
        device.ze->zeCommandListAppendMemoryFill(device.now.get(), pointer(place), &byte, 1, size, nullptr, 0, nullptr),
        "memory.fill: zeCommandListAppendMemoryFill");
  }
};

}  // namespace

std::shared_ptr<Allocation> allocate(crucible_device& device, std::uint64_t size) {
  return sdk::make_memory<Memories>(device, size, 64).first;
}

void copy_now(crucible_device& device, void* to, const void* from, std::uint64_t size, const char* what) {
  device.watchdog.require_alive();
  const std::lock_guard lock(device.now_mutex);
  check(device.ze->zeCommandListAppendMemoryCopy(device.now.get(), to, from, size, nullptr, 0, nullptr), what);
}

void finish(crucible_device& device, std::string_view what) {
  const std::uint64_t limit = device.watchdog.is_on() ? device.watchdog.limit_ns() : UINT64_MAX;
  const ze_result_t code = device.ze->zeCommandQueueSynchronize(device.queue.get(), limit);
  if (code == ZE_RESULT_NOT_READY) device.watchdog.give_up(what);
  check(code, std::string(what) + ": zeCommandQueueSynchronize");
}

const crucible_if_memory kMemoryTable = sdk::make_memory_table<crucible_device, crucible_buffer, Memories>();

}  // namespace crucible_intel
