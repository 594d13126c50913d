// A memory table: arguments, ranges and alignments are checked here, what is out is counted, addresses are looked up.
// Three models: a device with addresses of its own, one with handles in their place, and one whose memory is the host's
// (HostMemories below).
//
// A plugin defines crucible_buffer as a struct that derives from DeviceBuffer<Device, Memory>. Its Device derives from
// QueueOwner (or has a `Ledger ledger`) and has `AddressMap addresses`. Memory is what one allocation is: it is given
// back by its destructor. A struct `Own` of static functions says what the driver does; copies are done on return;
// `Place` is an address inside a buffer, with its Memory:
//   MemoryFacts facts(Device&)                                  how much there is; a device whose own `facts` have an
//   `id`, `memory_bytes` and `largest_buffer_bytes` leaves it out
//   std::shared_ptr<Memory> allocate(Device&, size, align)      at least one byte, not cleared; null where there is
//   none left; an
//                                                               alignment that the driver does not give is made here
//   std::uint64_t address(const Memory&)                        of memory that has no `address()`; devices with handles
//   have neither (or answer 0):
//                                                               their addresses are numbers that stand for a handle
//                                                               and an offset
//   void write(Device&, const Place& to, const void* from, size)
//   void read(Device&, const Place& from, void* to, size)
//   void fill(Device&, const Place&, size, byte)
//   bool clear(Device&, const Place&, size)                     if it wants: the first fill, with zeros; false where no
//   memory is left
// and the table is make_memory_table<Device, Buffer, Own>(). Where the device has a `watchdog`, nothing is asked of a
// suspect device.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "plugins/sdk/address_map.hpp"
#include "plugins/sdk/buffer_functions.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/ledger.hpp"
#include "plugins/sdk/text.hpp"
#include "plugins/sdk/watchdog.hpp"

namespace crucible::sdk {

template <class Device, class Memory>
struct DeviceBuffer {
  Device* device = nullptr;
  std::shared_ptr<Memory> memory;
  std::uint64_t address = 0, offset = 0, size = 0;  // offset: of the address in the memory
};

/// Units: bytes. `largest` in one piece.
struct MemoryFacts {
  std::string id;  // of the device
  std::uint64_t bytes = 0, largest = UINT64_MAX;
};

[[noreturn]] inline void out_of_memory(const MemoryFacts& facts, std::uint64_t live, std::uint64_t size) {
  const std::uint64_t left = facts.bytes > live ? facts.bytes - live : 0, most = std::min(facts.largest, facts.bytes);
  throw Failure(CRUCIBLE_E_OUT_OF_MEMORY,
                "cannot have " + std::to_string(size) + " bytes on " + facts.id + ": it has " +
                    std::to_string(facts.bytes) + ", gives at most " + std::to_string(most) + " in one piece, and " +
                    std::to_string(live) + " are in use; use a smaller batch or a memory budget",
                {{"requested", std::to_string(size)}, {"available", std::to_string(std::min(left, most))}});
}

template <class Device>
void require_alive(Device& device) {
  if constexpr (requires { device.watchdog; }) device.watchdog.require_alive();
}

/// 0 for one that has none.
template <class Own, class Memory>
std::uint64_t address_of(const Memory& memory) {
  if constexpr (requires { Own::address(memory); }) {
    return Own::address(memory);
  } else if constexpr (requires { memory.address(); }) {
    return memory.address();
  } else {
    return 0;
  }
}

template <class Own, class Device>
MemoryFacts memory_facts(Device& device) {
  if constexpr (requires { Own::facts(device); }) {
    return Own::facts(device);
  } else {
    return {device.facts.id, device.facts.memory_bytes, device.facts.largest_buffer_bytes};
  }
}

/// What `allocate` of `Own` gives, and the aligned offset in it. Errors: OUT_OF_MEMORY with what there is.
template <class Own, class Device>
auto make_memory(Device& device, std::uint64_t size, std::uint64_t align) {
  require(std::has_single_bit(align) && align <= (std::uint64_t{1} << 30),
          "memory.alloc: the alignment must be a power of two up to 1 GiB");
  require_alive(device);
  const MemoryFacts facts = memory_facts<Own>(device);
  const std::uint64_t live = device.ledger.of("buffer").live_bytes;
  if (size > facts.largest || size > facts.bytes || live > facts.bytes - size) out_of_memory(facts, live, size);
  const std::uint64_t bytes = std::max<std::uint64_t>(size, 1);
  auto memory = Own::allocate(device, bytes, align);
  if (memory != nullptr && address_of<Own>(*memory) % align != 0) {
    memory.reset();
    memory = Own::allocate(device, bytes + align, align);
  }
  if (memory == nullptr) out_of_memory(facts, live, size);
  const std::uint64_t offset = (align - address_of<Own>(*memory) % align) % align;
  return std::pair(std::move(memory), offset);
}

template <class Device, class Buffer, class Own>
struct MemoryFunctions : BufferFunctions<Buffer> {
  static crucible_status alloc(Device* device, std::uint64_t size, std::uint64_t align, Buffer** out) {
    return guard([&] {
      require(device != nullptr && out != nullptr, "memory.alloc: no device or no place for the buffer");
      auto buffer = std::make_unique<Buffer>();
      auto [memory, offset] = make_memory<Own>(*device, size, align);
      buffer->device = device;
      buffer->memory = std::move(memory);
      buffer->offset = offset;
      buffer->size = size;
      const std::uint64_t start = address_of<Own>(*buffer->memory);
      buffer->address = start != 0 ? start + offset : device->addresses.number(size, align);
      if (size != 0) clear(*buffer);
      device->addresses.add(buffer->address, size, buffer->memory, buffer->offset);
      device->ledger.add("buffer", size);
      *out = buffer.release();
    });
  }

  static crucible_status free(Buffer* buffer) {
    return guard([&] {
      require(buffer != nullptr, "memory.free: no buffer");
      Device& device = *buffer->device;
      device.ledger.remove("buffer", buffer->size);
      device.addresses.remove(buffer->address, buffer->size);
      if constexpr (requires { device.watchdog; }) {
        if (device.watchdog.is_suspect()) return abandon(buffer);
      }
      delete buffer;
    });
  }

  static crucible_status write(Buffer* buffer, std::uint64_t offset, const void* data, std::uint64_t size) {
    return guard([&] {
      const Place to = checked(buffer, offset, size);
      require(data != nullptr || size == 0, "memory.write: no data");
      if (size != 0) Own::write(*buffer->device, to, data, size);
    });
  }

  static crucible_status read(Buffer* buffer, std::uint64_t offset, void* data, std::uint64_t size) {
    return guard([&] {
      const Place from = checked(buffer, offset, size);
      require(data != nullptr || size == 0, "memory.read: no place for the data");
      if (size != 0) Own::read(*buffer->device, from, data, size);
    });
  }

  static crucible_status fill(Buffer* buffer, std::uint64_t offset, std::uint64_t size, std::uint8_t byte) {
    return guard([&] {
      const Place place = checked(buffer, offset, size);
      if (size != 0) Own::fill(*buffer->device, place, size, byte);
    });
  }

  static crucible_status stats(Device* device, crucible_kv_sink sink, void* user) {
    return memory_stats(device, sink, user, [&] {
      if constexpr (requires { Own::stats(*device, sink, user); }) Own::stats(*device, sink, user);
    });
  }

 private:
  static Place checked(Buffer* buffer, std::uint64_t offset, std::uint64_t size) {
    MemoryFunctions::check_range(buffer, offset, size);
    if (size != 0) require_alive(*buffer->device);
    return {buffer->memory, buffer->address + offset, buffer->offset + offset, buffer->size - offset};
  }

  static void clear(Buffer& buffer) {
    Device& device = *buffer.device;
    const Place place = checked(&buffer, 0, buffer.size);
    if constexpr (requires { Own::clear(device, place, buffer.size); }) {
      if (!Own::clear(device, place, buffer.size))
        out_of_memory(memory_facts<Own>(device), device.ledger.of("buffer").live_bytes, buffer.size);
    } else {
      Own::fill(device, place, buffer.size, 0);
    }
  }
};

template <class Device, class Buffer, class Own>
constexpr crucible_if_memory make_memory_table() {
  using Functions = MemoryFunctions<Device, Buffer, Own>;
  return {sizeof(crucible_if_memory),
          CRUCIBLE_ABI_MINOR,
          Functions::alloc,
          Functions::free,
          Functions::write,
          Functions::read,
          Functions::fill,
          Functions::address,
          Functions::stats,
          nullptr};  // adopt: of devices whose memory is not the host's
}

/// Memory of this process.
struct HostMemory {
  void* data = nullptr;
  explicit HostMemory(void* memory) : data(memory) {}
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory() { std::free(data); }
};

/// An `Own` without `facts` for devices whose memory is the host's.
struct HostMemories {
  template <class Device>
  static std::shared_ptr<HostMemory> allocate(Device&, std::uint64_t size, std::uint64_t align) {
    const std::uint64_t step = std::max<std::uint64_t>(align, 64);
    if (size > (std::uint64_t{1} << 46)) return nullptr;
    void* const memory = std::aligned_alloc(step, (size + step - 1) / step * step);
    return memory != nullptr ? std::make_shared<HostMemory>(memory) : nullptr;
  }
  static std::uint64_t address(const HostMemory& memory) { return reinterpret_cast<std::uint64_t>(memory.data); }
  template <class Device>
  static void write(Device&, const Place& to, const void* from, std::uint64_t size) {
    std::memcpy(pointer(to), from, size);
  }
  template <class Device>
  static void read(Device&, const Place& from, void* to, std::uint64_t size) {
    std::memcpy(to, pointer(from), size);
  }
  template <class Device>
  static void fill(Device&, const Place& place, std::uint64_t size, std::uint8_t byte) {
    std::memset(pointer(place), byte, size);
  }

 private:
  static void* pointer(const Place& place) { return reinterpret_cast<void*>(place.address); }
};

}  // namespace crucible::sdk
