// Memory table of a CUDA-like driver: buffers whose addresses are the device's own, copies and fills on the device's
// stream, done on return.
//
// A plugin defines crucible_buffer as a struct that derives from GraphBuffer, and makes the table with
// make_graph_memory_table(). Of its traits class (graph_driver.hpp) this calls `static Memory allocate(Device&,
// std::uint64_t size)`: at least one byte, at a multiple of 256, while the device is the current one; errors:
// OUT_OF_MEMORY with what is wanted and what is free. And kUpload(to, from, size, stream), kDownload(to, from, size,
// stream), kFill(to, byte, size, stream). A device with more to tell in memory.stats has `report_memory(sink, user)`.
#pragma once

#include <bit>
#include <memory>
#include <string>

#include "plugins/sdk/buffer_functions.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/graph_driver.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible::sdk {

template <class Api>
struct GraphBuffer {
  typename Api::Device* device = nullptr;
  typename Api::Memory memory;
  std::uint64_t address = 0, size = 0;
};

template <class Api>
struct GraphMemoryFunctions : BufferFunctions<typename Api::Buffer> {
  using Device = typename Api::Device;
  using Buffer = typename Api::Buffer;
  using Current = typename Api::Current;
  using EvenIfLost = typename Current::EvenIfLost;
  static constexpr std::uint64_t kLargestAlignment = std::uint64_t{1} << 30;
  static constexpr std::uint64_t kOwnAlignment = 256;  // of whatever is allocated

  static crucible_status alloc(Device* device, std::uint64_t size, std::uint64_t align, Buffer** out) {
    return guard([&] {
      require(device != nullptr && out != nullptr, "memory.alloc: no device or no place for the buffer");
      require(std::has_single_bit(align) && align <= kLargestAlignment,
              "memory.alloc: the alignment must be a power of two up to 1 GiB");
      const Current current(*device);
      // A size that no device has is refused as it is: a sum of it and more might be small.
      const std::uint64_t extra = align > kOwnAlignment && size <= device->facts.memory_bytes ? align : 0;
      auto buffer = std::make_unique<Buffer>();
      buffer->device = device;
      buffer->memory = Api::allocate(*device, size + extra);
      buffer->address = (device_address(buffer->memory.get()) + align - 1) / align * align;
      buffer->size = size;
      if (size != 0) fill_range(*buffer, 0, size, 0, "memory.alloc");
      device->addresses.add(buffer->address, size);
      device->ledger.add("buffer", size);
      *out = buffer.release();
    });
  }

  static crucible_status free(Buffer* buffer) {
    return guard([&] {
      require(buffer != nullptr, "memory.free: no buffer");
      Device& device = *buffer->device;
      const Current current(device, EvenIfLost{});
      device.ledger.remove("buffer", buffer->size);
      device.addresses.remove(buffer->address, buffer->size);
      if (device.watchdog.is_suspect()) return abandon(buffer);
      delete buffer;
    });
  }

  static crucible_status write(Buffer* buffer, std::uint64_t offset, const void* data, std::uint64_t size) {
    return guard([&] {
      GraphMemoryFunctions::check_range(buffer, offset, size);
      require(data != nullptr || size == 0, "memory.write: no data");
      if (size == 0) return;
      Device& device = *buffer->device;
      const Current current(device);
      device.call({"memory.write: "}, Api::kUpload, buffer->address + offset, data, size, device.stream.get());
      device.synchronize(device.stream.get(), "memory.write");
    });
  }

  static crucible_status read(Buffer* buffer, std::uint64_t offset, void* data, std::uint64_t size) {
    return guard([&] {
      GraphMemoryFunctions::check_range(buffer, offset, size);
      require(data != nullptr || size == 0, "memory.read: no place for the data");
      if (size == 0) return;
      Device& device = *buffer->device;
      const Current current(device);
      device.call({"memory.read: "}, Api::kDownload, data, buffer->address + offset, size, device.stream.get());
      device.synchronize(device.stream.get(), "memory.read");
    });
  }

  static crucible_status fill(Buffer* buffer, std::uint64_t offset, std::uint64_t size, std::uint8_t byte) {
    return guard([&] {
      GraphMemoryFunctions::check_range(buffer, offset, size);
      if (size == 0) return;
      const Current current(*buffer->device);
      fill_range(*buffer, offset, size, byte, "memory.fill");
    });
  }

  static crucible_status stats(Device* device, crucible_kv_sink sink, void* user) {
    return memory_stats(device, sink, user, [&] {
      if constexpr (requires { device->report_memory(sink, user); }) {
        const Current current(*device, EvenIfLost{});
        device->report_memory(sink, user);
      }
    });
  }

 private:
  static void fill_range(Buffer& buffer, std::uint64_t offset, std::uint64_t size, std::uint8_t byte,
                         const std::string& what) {
    Device& device = *buffer.device;
    device.call({what + ": "}, Api::kFill, buffer.address + offset, byte, size, device.stream.get());
    device.synchronize(device.stream.get(), what);
  }
};

template <class Api>
constexpr crucible_if_memory make_graph_memory_table() {
  using Functions = GraphMemoryFunctions<Api>;
  return {sizeof(crucible_if_memory),
          CRUCIBLE_ABI_MINOR,
          Functions::alloc,
          Functions::free,
          Functions::write,
          Functions::read,
          Functions::fill,
          Functions::address,
          Functions::stats,
          nullptr};
}

}  // namespace crucible::sdk
