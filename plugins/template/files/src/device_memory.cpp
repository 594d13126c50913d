// (5) Memory of the device: here the host's own.
#include <algorithm>
#include <crucible/sdk/host.hpp>
#include <cstring>

#include "memory.hpp"

namespace acme {

void* device_alloc(crucible_device&, std::uint64_t size, std::uint64_t align) {
  void* memory = crucible::sdk::host_alloc(std::max<std::uint64_t>(size, 1), std::max<std::uint64_t>(align, 64));
  if (memory != nullptr) std::memset(memory, 0, size);
  return memory;
}

void device_free(crucible_device&, void* memory, std::uint64_t size, std::uint64_t align) {
  crucible::sdk::host_free(memory, std::max<std::uint64_t>(size, 1), std::max<std::uint64_t>(align, 64));
}

void device_write(crucible_device&, void* memory, const void* data, std::uint64_t size) {
  std::memcpy(memory, data, size);
}
void device_read(crucible_device&, const void* memory, void* data, std::uint64_t size) {
  std::memcpy(data, memory, size);
}
void device_fill(crucible_device&, void* memory, std::uint64_t size, std::uint8_t byte) {
  std::memset(memory, byte, size);
}

}  // namespace acme
