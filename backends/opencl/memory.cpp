// Memory table: memory of the device's kind (memory_kind.hpp). Buffers of OpenCL have no addresses that may be added to on every
// device, so theirs are numbers of our own: each gets a range that none has had before, and a plan finds buffer and offset
// again. Elsewhere addresses are pointers.
#include "backends/opencl/memory.hpp"

#include <algorithm>
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

bool is_out_of_memory(cl_int code) {
  return code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_RESOURCES || code == CL_OUT_OF_HOST_MEMORY || code == CL_INVALID_BUFFER_SIZE;
}

/// A pointer of unified or shared memory with the alignment, or a buffer. Null and a code when the driver gives none.
std::shared_ptr<Allocation> ask(crucible_device& device, std::uint64_t bytes, cl_int& code) {
  const Functions& cl = *device.cl;
  const DeviceMemory& kind = device.memory;
  cl_context const context = device.context.get();
  code = CL_SUCCESS;
  if (kind.kind == MemoryKind::kBuffers) {
    Memory memory(cl, cl.clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, nullptr, &code));
    return code == CL_SUCCESS ? std::make_shared<Allocation>(cl, std::move(memory)) : nullptr;
  }
  constexpr cl_uint kDriversAlignment = 64;
  void* const pointer = kind.kind == MemoryKind::kUsm ? kind.alloc(context, device.facts.device, nullptr, bytes, kDriversAlignment, &code)
                                                      : cl.clSVMAlloc(context, CL_MEM_READ_WRITE, bytes, kDriversAlignment);
  if (pointer == nullptr && code == CL_SUCCESS) code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
  return pointer != nullptr ? std::make_shared<Allocation>(cl, kind, context, pointer) : nullptr;
}

std::uint64_t address_of(const Allocation& allocation) { return reinterpret_cast<std::uint64_t>(allocation.pointer()); }

/// With room for the alignment where the driver does not give it.
std::shared_ptr<Allocation> make_memory(crucible_device& device, std::uint64_t size, std::uint64_t align) {
  device.watchdog.require_alive();
  const DeviceFacts& facts = device.facts;
  const std::uint64_t live = device.ledger.of("buffer").live_bytes;
  if (size > facts.largest_buffer_bytes || size > facts.memory_bytes || live > facts.memory_bytes - size)
    out_of_memory(device, size);
  const std::uint64_t bytes = std::max<std::uint64_t>(size, 1);
  cl_int code = CL_SUCCESS;
  std::shared_ptr<Allocation> allocation = sdk::ask_twice(
      facts.id, size, [&] { return ask(device, bytes, code); }, [&](const auto&) { return is_out_of_memory(code); },
      [&] { finish(device, "memory.alloc"); });
  if (allocation != nullptr && address_of(*allocation) % align != 0) {
    allocation.reset();
    allocation = ask(device, bytes + align, code);
  }
  if (is_out_of_memory(code)) out_of_memory(device, size);
  check(code, "memory.alloc of " + std::to_string(size) + " bytes");
  return allocation;
}

/// Some drivers give memory when it is first touched.
void touch(const crucible_buffer& buffer) {
  crucible_device& device = *buffer.device;
  if (buffer.size == 0) return;
  cl_int code = CL_SUCCESS;
  enqueue_fill(device, {buffer.allocation, buffer.offset, buffer.size}, buffer.size, 0);
  code = device.cl->clFinish(device.queue.get());
  if (is_out_of_memory(code)) out_of_memory(device, buffer.size);
  check(code, "memory.alloc of " + std::to_string(buffer.size) + " bytes: clFinish");
}

crucible_status alloc(crucible_device* device, std::uint64_t size, std::uint64_t align, crucible_buffer** out) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && out != nullptr, "memory.alloc: no device or no place for the buffer");
    sdk::require(std::has_single_bit(align) && align <= kLargestAlignment,
                 "memory.alloc: the alignment must be a power of two up to 1 GiB");
    auto buffer = std::make_unique<crucible_buffer>();
    buffer->device = device;
    buffer->allocation = make_memory(*device, size, align);
    buffer->size = size;
    const std::uint64_t start = address_of(*buffer->allocation);  // 0 for a buffer of OpenCL
    buffer->address = round_up(start, align);
    buffer->offset = buffer->address - start;
    touch(*buffer);
    const std::lock_guard lock(device->buffers_mutex);
    if (device->memory.kind == MemoryKind::kBuffers) {
      buffer->address = round_up(device->next_address, std::max(align, kGap));
      device->next_address = buffer->address + size + kGap;
    }
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
    if (device.watchdog.is_suspect()) return sdk::abandon(buffer);
    delete buffer;
  });
}

cl_int copy_pointers(const crucible_device& device, cl_bool waits, void* to, const void* from, std::uint64_t size, cl_event* event) {
  if (device.memory.kind == MemoryKind::kUsm) return device.memory.copy(device.queue.get(), waits, to, from, size, 0, nullptr, event);
  return device.cl->clEnqueueSVMMemcpy(device.queue.get(), waits, to, from, size, 0, nullptr, event);
}

Place place_in(const crucible_buffer& buffer, std::uint64_t offset) { return {buffer.allocation, buffer.offset + offset, buffer.size - offset}; }

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
    device.watchdog.require_alive();
    const Place to = place_in(*buffer, offset);
    if (device.memory.kind != MemoryKind::kBuffers)
      return check(copy_pointers(device, CL_TRUE, to.pointer(), data, size, nullptr), "memory.write of " + std::to_string(size) + " bytes");
    check(device.cl->clEnqueueWriteBuffer(device.queue.get(), to.memory(), CL_TRUE, to.offset, size, data, 0, nullptr, nullptr),
          "memory.write: clEnqueueWriteBuffer");
  });
}

crucible_status read(crucible_buffer* buffer, std::uint64_t offset, void* data, std::uint64_t size) {
  return sdk::guard([&] {
    check_range(buffer, offset, size);
    sdk::require(data != nullptr || size == 0, "memory.read: no place for the data");
    if (size == 0) return;
    const crucible_device& device = *buffer->device;
    device.watchdog.require_alive();
    const Place from = place_in(*buffer, offset);
    if (device.memory.kind != MemoryKind::kBuffers)
      return check(copy_pointers(device, CL_TRUE, data, from.pointer(), size, nullptr), "memory.read of " + std::to_string(size) + " bytes");
    check(device.cl->clEnqueueReadBuffer(device.queue.get(), from.memory(), CL_TRUE, from.offset, size, data, 0, nullptr, nullptr),
          "memory.read: clEnqueueReadBuffer");
  });
}

crucible_status fill(crucible_buffer* buffer, std::uint64_t offset, std::uint64_t size, std::uint8_t byte) {
  return sdk::guard([&] {
    check_range(buffer, offset, size);
    if (size == 0) return;
    buffer->device->watchdog.require_alive();
    enqueue_fill(*buffer->device, place_in(*buffer, offset), size, byte);
    finish(*buffer->device, "memory.fill");
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
    if (offset <= buffer.size) return place_in(buffer, offset);
  }
  throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT,
                     "the address " + std::to_string(address) + " is in none of the " +
                         std::to_string(device.buffers.size()) + " buffers of " + device.facts.id);
}

std::shared_ptr<Allocation> make_table(crucible_device& device, const std::vector<cl_ulong>& numbers) {
  const std::uint64_t bytes = numbers.size() * sizeof(numbers[0]);
  cl_int code = CL_SUCCESS;
  const std::shared_ptr<Allocation> table = ask(device, bytes, code);
  check(code, "plan.build: memory for a table of buffers");
  code = device.memory.kind == MemoryKind::kBuffers
             ? device.cl->clEnqueueWriteBuffer(device.queue.get(), table->memory(), CL_TRUE, 0, bytes, numbers.data(), 0, nullptr, nullptr)
             : copy_pointers(device, CL_TRUE, table->pointer(), numbers.data(), bytes, nullptr);
  check(code, "plan.build: writing a table of buffers");
  return table;
}

std::array<std::uint8_t, 16> fill_pattern(std::uint8_t byte) {
  std::array<std::uint8_t, 16> pattern;
  pattern.fill(byte);
  return pattern;
}

std::array<FillPiece, 3> fill_pieces(const Place& place, std::uint64_t size) {
  constexpr std::size_t kWidth = 16;
  const std::uint64_t start = address_of(*place.allocation) + place.offset, end = start + size;
  const std::uint64_t first = std::min(round_up(start, kWidth), end);
  const std::uint64_t behind = std::max(first, end / kWidth * kWidth);
  return {FillPiece{0, first - start, 1}, FillPiece{first - start, behind - start, kWidth}, FillPiece{behind - start, size, 1}};
}

void enqueue_fill(crucible_device& device, const Place& place, std::uint64_t size, std::uint8_t byte, std::vector<Event>* events) {
  const Functions& cl = *device.cl;
  const auto pattern = fill_pattern(byte);
  cl_command_queue const queue = device.queue.get();
  for (const auto& [from, to, width] : fill_pieces(place, size)) {
    if (from == to) continue;
    cl_event event = nullptr;
    cl_event* const out = events != nullptr ? &event : nullptr;
    cl_int code = CL_SUCCESS;
    switch (device.memory.kind) {
      case MemoryKind::kBuffers:
        code = cl.clEnqueueFillBuffer(queue, place.memory(), pattern.data(), width, place.offset + from, to - from, 0, nullptr, out);
        break;
      case MemoryKind::kUsm:
        code = device.memory.fill(queue, place.pointer() + from, pattern.data(), width, to - from, 0, nullptr, out);
        break;
      case MemoryKind::kSvm:
        code = cl.clEnqueueSVMMemFill(queue, place.pointer() + from, pattern.data(), width, to - from, 0, nullptr, out);
        break;
    }
    check(code, "filling " + std::to_string(to - from) + " bytes of " + std::string(name(device.memory.kind)));
    if (events != nullptr) events->emplace_back(cl, event);
  }
}

void enqueue_copy(crucible_device& device, const Place& to, const Place& from, std::uint64_t size, std::vector<Event>* events) {
  const Functions& cl = *device.cl;
  cl_event event = nullptr;
  cl_event* const out = events != nullptr ? &event : nullptr;
  const cl_int code = device.memory.kind == MemoryKind::kBuffers
                          ? cl.clEnqueueCopyBuffer(device.queue.get(), from.memory(), to.memory(), from.offset, to.offset, size, 0, nullptr, out)
                          : copy_pointers(device, CL_FALSE, to.pointer(), from.pointer(), size, out);
  check(code, "copying " + std::to_string(size) + " bytes of " + std::string(name(device.memory.kind)));
  if (events != nullptr) events->emplace_back(cl, event);
}

const crucible_if_memory kMemoryTable = {
    sizeof(crucible_if_memory), CRUCIBLE_ABI_MINOR, alloc, free_buffer, write, read, fill, address, stats};

}  // namespace crucible_opencl
