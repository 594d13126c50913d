// Memory table: buffers of OpenCL. They have no addresses that may be added to on every device, so addresses are numbers
// of our own: each buffer gets a range that none has had before, and a plan finds buffer and offset again.
#include "backends/opencl/memory.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <string>

#include "backends/opencl/tables.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible_opencl {

using namespace crucible;

namespace {

constexpr std::uint64_t kLargestAlignment = std::uint64_t{1} << 30;
constexpr std::uint64_t kGap = 4096;  // between two ranges: an address just behind a buffer is no other's

std::uint64_t round_up(std::uint64_t number, std::uint64_t to) { return (number + to - 1) / to * to; }

[[noreturn]] void out_of_memory(const crucible_device& device, std::uint64_t size) {
  const DeviceFacts& facts = device.facts;
  const std::uint64_t live = device.ledger.of("buffer").live_bytes;
  const std::uint64_t left = facts.memory_bytes > live ? facts.memory_bytes - live : 0;
  throw sdk::Failure(CRUCIBLE_E_OUT_OF_MEMORY,
                     "cannot have " + std::to_string(size) + " bytes on " + facts.id + ": it has " +
                         std::to_string(facts.memory_bytes) + ", gives at most " +
                         std::to_string(facts.largest_buffer_bytes) + " in one piece, and " + std::to_string(live) +
                         " are in use; use a smaller batch or a memory budget",
                     {{"requested", std::to_string(size)},
                      {"available", std::to_string(std::min(left, facts.largest_buffer_bytes))}});
}

Memory make_memory(crucible_device& device, std::uint64_t size) {
  const DeviceFacts& facts = device.facts;
  const std::uint64_t live = device.ledger.of("buffer").live_bytes;
  if (size > facts.largest_buffer_bytes || size > facts.memory_bytes || live > facts.memory_bytes - size)
    out_of_memory(device, size);
  const Functions& cl = *device.cl;
  cl_int code = CL_SUCCESS;
  Memory memory(cl, cl.clCreateBuffer(device.context.get(), CL_MEM_READ_WRITE, std::max<std::uint64_t>(size, 1),
                                      nullptr, &code));
  if (code == CL_SUCCESS && size != 0) {  // some drivers give memory when it is first touched
    enqueue_fill(device, memory.get(), 0, size, 0);
    code = cl.clFinish(device.queue.get());
  }
  if (code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_RESOURCES || code == CL_OUT_OF_HOST_MEMORY ||
      code == CL_INVALID_BUFFER_SIZE)
    out_of_memory(device, size);
  check(code, "memory.alloc of " + std::to_string(size) + " bytes: clCreateBuffer");
  return memory;
}

crucible_status alloc(crucible_device* device, std::uint64_t size, std::uint64_t align, crucible_buffer** out) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && out != nullptr, "memory.alloc: no device or no place for the buffer");
    sdk::require(std::has_single_bit(align) && align <= kLargestAlignment,
                 "memory.alloc: the alignment must be a power of two up to 1 GiB");
    auto buffer = std::make_unique<crucible_buffer>();
    buffer->device = device;
    buffer->memory = make_memory(*device, size);
    buffer->size = size;
    const std::lock_guard lock(device->buffers_mutex);
    buffer->address = round_up(device->next_address, std::max(align, kGap));
    device->next_address = buffer->address + size + kGap;
    device->buffers.emplace(buffer->address, buffer.get());
    device->ledger.add("buffer", size);
    *out = buffer.release();
  });
}

crucible_status free_buffer(crucible_buffer* buffer) {
  return sdk::guard([&] {
    sdk::require(buffer != nullptr, "memory.free: no buffer");
    crucible_device& device = *buffer->device;
    const std::lock_guard lock(device.buffers_mutex);
    device.ledger.remove("buffer", buffer->size);
    device.buffers.erase(buffer->address);
    delete buffer;
  });
}

void check_range(const crucible_buffer* buffer, std::uint64_t offset, std::uint64_t size) {
  sdk::require(buffer != nullptr, "memory: no buffer");
  if (offset <= buffer->size && size <= buffer->size - offset) return;
  throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT, "bytes " + std::to_string(offset) + " and " + std::to_string(size) +
                                                      " on are not inside a buffer of " + std::to_string(buffer->size));
}

crucible_status write(crucible_buffer* buffer, std::uint64_t offset, const void* data, std::uint64_t size) {
  return sdk::guard([&] {
    check_range(buffer, offset, size);
    sdk::require(data != nullptr || size == 0, "memory.write: no data");
    if (size == 0) return;
    const crucible_device& device = *buffer->device;
    check(device.cl->clEnqueueWriteBuffer(device.queue.get(), buffer->memory.get(), CL_TRUE, offset, size, data, 0,
                                          nullptr, nullptr),
          "memory.write: clEnqueueWriteBuffer");
  });
}

crucible_status read(crucible_buffer* buffer, std::uint64_t offset, void* data, std::uint64_t size) {
  return sdk::guard([&] {
    check_range(buffer, offset, size);
    sdk::require(data != nullptr || size == 0, "memory.read: no place for the data");
    if (size == 0) return;
    const crucible_device& device = *buffer->device;
    check(device.cl->clEnqueueReadBuffer(device.queue.get(), buffer->memory.get(), CL_TRUE, offset, size, data, 0,
                                         nullptr, nullptr),
          "memory.read: clEnqueueReadBuffer");
  });
}

crucible_status fill(crucible_buffer* buffer, std::uint64_t offset, std::uint64_t size, std::uint8_t byte) {
  return sdk::guard([&] {
    check_range(buffer, offset, size);
    if (size == 0) return;
    enqueue_fill(*buffer->device, buffer->memory.get(), offset, size, byte);
    check(buffer->device->cl->clFinish(buffer->device->queue.get()), "memory.fill: clFinish");
  });
}

crucible_status address(crucible_buffer* buffer, std::uint64_t* out) {
  return sdk::guard([&] {
    sdk::require(buffer != nullptr && out != nullptr, "memory.address: no buffer or no place for the address");
    *out = buffer->address;
  });
}

crucible_status stats(crucible_device* device, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && sink != nullptr, "memory.stats: no device or no function to report to");
    device->ledger.stats("buffer", sink, user);
  });
}

}  // namespace

Place find_place(crucible_device& device, std::uint64_t address) {
  const std::lock_guard lock(device.buffers_mutex);
  auto after = device.buffers.upper_bound(address);
  if (after != device.buffers.begin()) {
    const crucible_buffer& buffer = *std::prev(after)->second;
    const std::uint64_t offset = address - buffer.address;
    if (offset <= buffer.size) {
      check(device.cl->clRetainMemObject(buffer.memory.get()), "clRetainMemObject");
      return {Memory(*device.cl, buffer.memory.get()), offset, buffer.size - offset};
    }
  }
  throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT,
                     "the address " + std::to_string(address) + " is in none of the " +
                         std::to_string(device.buffers.size()) + " buffers of " + device.facts.id);
}

void enqueue_fill(crucible_device& device, cl_mem memory, std::uint64_t offset, std::uint64_t size, std::uint8_t byte,
                  std::vector<Event>* events) {
  // A pattern must divide offset and size; a wide one is many times faster, so the ends are done apart.
  std::array<std::uint8_t, 16> pattern;
  pattern.fill(byte);
  const std::uint64_t end = offset + size;
  const std::uint64_t first = std::min(round_up(offset, pattern.size()), end);
  const std::uint64_t behind = std::max(first, end / pattern.size() * pattern.size());
  const struct {
    std::uint64_t from, to, width;
  } pieces[] = {{offset, first, 1}, {first, behind, pattern.size()}, {behind, end, 1}};
  const Functions& cl = *device.cl;
  for (const auto& [from, to, width] : pieces) {
    if (from == to) continue;
    cl_event event = nullptr;
    check(cl.clEnqueueFillBuffer(device.queue.get(), memory, pattern.data(), width, from, to - from, 0, nullptr,
                                 events != nullptr ? &event : nullptr),
          "clEnqueueFillBuffer of " + std::to_string(to - from) + " bytes");
    if (events != nullptr) events->emplace_back(cl, event);
  }
}

const crucible_if_memory kMemoryTable = {
    sizeof(crucible_if_memory), CRUCIBLE_ABI_MINOR, alloc, free_buffer, write, read, fill, address, stats};

}  // namespace crucible_opencl
