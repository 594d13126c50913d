// Memory table: memory of the device's kind (memory_kind.hpp). Buffers of OpenCL have no addresses that may be added to
// on every device, so theirs are numbers of our own: each gets a range that none has had before, and a plan finds
// buffer and offset again. Elsewhere addresses are pointers.
#include "backends/opencl/memory.hpp"

#include <algorithm>
#include <memory>
#include <string>

#include "backends/opencl/tables.hpp"

namespace crucible_opencl {

using namespace crucible;

namespace {

std::uint64_t round_up(std::uint64_t number, std::uint64_t to) { return (number + to - 1) / to * to; }

bool is_out_of_memory(cl_int code) {
  return code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_RESOURCES || code == CL_OUT_OF_HOST_MEMORY ||
         code == CL_INVALID_BUFFER_SIZE;
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
  void* const pointer = kind.kind == MemoryKind::kUsm
                            ? kind.alloc(context, device.facts.device, nullptr, bytes, kDriversAlignment, &code)
                            : cl.clSVMAlloc(context, CL_MEM_READ_WRITE, bytes, kDriversAlignment);
  if (pointer == nullptr && code == CL_SUCCESS) code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
  return pointer != nullptr ? std::make_shared<Allocation>(cl, kind, context, pointer) : nullptr;
}

cl_int copy_pointers(const crucible_device& device, const Queue& queue, cl_bool waits, void* to, const void* from,
                     std::uint64_t size, cl_event* event) {
  if (device.memory.kind == MemoryKind::kUsm)
    return device.memory.copy(queue.get(), waits, to, from, size, 0, nullptr, event);
  return device.cl->clEnqueueSVMMemcpy(queue.get(), waits, to, from, size, 0, nullptr, event);
}

struct Memories {
  static std::shared_ptr<Allocation> allocate(crucible_device& device, std::uint64_t size, std::uint64_t) {
    cl_int code = CL_SUCCESS;
    std::shared_ptr<Allocation> allocation = sdk::ask_twice(
        device.facts.id, size, [&] { return ask(device, size, code); },
        [&](const auto&) { return is_out_of_memory(code); }, [&] { finish(device, device.queue, "memory.alloc"); });
    if (is_out_of_memory(code)) return nullptr;
    check(code, "memory.alloc of " + std::to_string(size) + " bytes");
    return allocation;
  }

  /// Some drivers give memory when it is first touched.
  static bool clear(crucible_device& device, const sdk::Place& place, std::uint64_t size) {
    enqueue_fill(device, device.queue, place, size, 0);
    const cl_int code = device.cl->clFinish(device.queue.get());
    if (is_out_of_memory(code)) return false;
    check(code, "memory.alloc of " + std::to_string(size) + " bytes: clFinish");
    return true;
  }

  static void write(const crucible_device& device, const sdk::Place& to, const void* data, std::uint64_t size) {
    if (device.memory.kind != MemoryKind::kBuffers)
      return check(copy_pointers(device, device.queue, CL_TRUE, pointer_of(to), data, size, nullptr),
                   "memory.write of " + std::to_string(size) + " bytes");
    check(device.cl->clEnqueueWriteBuffer(device.queue.get(), memory_of(to), CL_TRUE, to.offset, size, data, 0,
                                          nullptr, nullptr),
          "memory.write: clEnqueueWriteBuffer");
  }

  static void read(const crucible_device& device, const sdk::Place& from, void* data, std::uint64_t size) {
    if (device.memory.kind != MemoryKind::kBuffers)
      return check(copy_pointers(device, device.queue, CL_TRUE, data, pointer_of(from), size, nullptr),
                   "memory.read of " + std::to_string(size) + " bytes");
    check(device.cl->clEnqueueReadBuffer(device.queue.get(), memory_of(from), CL_TRUE, from.offset, size, data, 0,
                                         nullptr, nullptr),
          "memory.read: clEnqueueReadBuffer");
  }

  static void fill(crucible_device& device, const sdk::Place& place, std::uint64_t size, std::uint8_t byte) {
    enqueue_fill(device, device.queue, place, size, byte);
    finish(device, device.queue, "memory.fill");
  }
};

}  // namespace

std::shared_ptr<Allocation> make_table(crucible_device& device, const std::vector<cl_ulong>& numbers) {
  const std::uint64_t bytes = numbers.size() * sizeof(numbers[0]);
  cl_int code = CL_SUCCESS;
  const std::shared_ptr<Allocation> table = ask(device, bytes, code);
  check(code, "plan.build: memory for a table of buffers");
  code = device.memory.kind == MemoryKind::kBuffers
             ? device.cl->clEnqueueWriteBuffer(device.queue.get(), table->memory(), CL_TRUE, 0, bytes, numbers.data(),
                                               0, nullptr, nullptr)
             : copy_pointers(device, device.queue, CL_TRUE, table->pointer(), numbers.data(), bytes, nullptr);
  check(code, "plan.build: writing a table of buffers");
  return table;
}

std::array<std::uint8_t, 16> fill_pattern(std::uint8_t byte) {
  std::array<std::uint8_t, 16> pattern;
  pattern.fill(byte);
  return pattern;
}

std::array<FillPiece, 3> fill_pieces(const sdk::Place& place, std::uint64_t size) {
  constexpr std::size_t kWidth = 16;
  const std::uint64_t start = place.in<Allocation>().address() + place.offset, end = start + size;
  const std::uint64_t first = std::min(round_up(start, kWidth), end);
  const std::uint64_t behind = std::max(first, end / kWidth * kWidth);
  return {FillPiece{0, first - start, 1}, FillPiece{first - start, behind - start, kWidth},
          FillPiece{behind - start, size, 1}};
}

void enqueue_fill(crucible_device& device, const Queue& on, const sdk::Place& place, std::uint64_t size,
                  std::uint8_t byte, std::vector<Event>* events) {
  const Functions& cl = *device.cl;
  const auto pattern = fill_pattern(byte);
  cl_command_queue const queue = on.get();
  for (const auto& [from, to, width] : fill_pieces(place, size)) {
    if (from == to) continue;
    cl_event event = nullptr;
    cl_event* const out = events != nullptr ? &event : nullptr;
    cl_int code = CL_SUCCESS;
    switch (device.memory.kind) {
      case MemoryKind::kBuffers:
        code = cl.clEnqueueFillBuffer(queue, memory_of(place), pattern.data(), width, place.offset + from, to - from, 0,
                                      nullptr, out);
        break;
      case MemoryKind::kUsm:
        code = device.memory.fill(queue, pointer_of(place) + from, pattern.data(), width, to - from, 0, nullptr, out);
        break;
      case MemoryKind::kSvm:
        code =
            cl.clEnqueueSVMMemFill(queue, pointer_of(place) + from, pattern.data(), width, to - from, 0, nullptr, out);
        break;
    }
    check(code, "filling " + std::to_string(to - from) + " bytes of " + std::string(name(device.memory.kind)));
    if (events != nullptr) events->emplace_back(cl, event);
  }
}

void enqueue_copy(crucible_device& device, const sdk::Place& to, const sdk::Place& from, std::uint64_t size,
                  std::vector<Event>* events) {
  const Functions& cl = *device.cl;
  cl_event event = nullptr;
  cl_event* const out = events != nullptr ? &event : nullptr;
  const cl_int code = device.memory.kind == MemoryKind::kBuffers
                          ? cl.clEnqueueCopyBuffer(device.queue.get(), memory_of(from), memory_of(to), from.offset,
                                                   to.offset, size, 0, nullptr, out)
                          : copy_pointers(device, device.queue, CL_FALSE, pointer_of(to), pointer_of(from), size, out);
  check(code, "copying " + std::to_string(size) + " bytes of " + std::string(name(device.memory.kind)));
  if (events != nullptr) events->emplace_back(cl, event);
}

const crucible_if_memory kMemoryTable = sdk::make_memory_table<crucible_device, crucible_buffer, Memories>();

}  // namespace crucible_opencl
