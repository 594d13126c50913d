// What the buffers of all memory tables have in common: an address, ranges inside them, what is told of those that are
// out.
#pragma once

#include <cstdint>
#include <string>

#include "plugins/sdk/error.hpp"
#include "plugins/sdk/ledger.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible::sdk {

/// Of a Buffer with an `address` and a `size`.
template <class Buffer>
struct BufferFunctions {
  static crucible_status address(Buffer* buffer, std::uint64_t* out) {
    return guard([&] {
      require(buffer != nullptr && out != nullptr, "memory.address: no buffer or no place for the address");
      *out = buffer->address;
    });
  }

  static void check_range(const Buffer* buffer, std::uint64_t offset, std::uint64_t size) {
    require(buffer != nullptr, "memory: no buffer");
    if (offset <= buffer->size && size <= buffer->size - offset) return;
    throw Failure(CRUCIBLE_E_INVALID_ARGUMENT, "bytes " + std::to_string(offset) + " and " + std::to_string(size) +
                                                   " on are not inside a buffer of " + std::to_string(buffer->size));
  }
};

/// memory.stats: the ledger of the device's buffers, then what `tell_more` reports.
template <class Device, class TellMore>
crucible_status memory_stats(Device* device, crucible_kv_sink sink, void* user, const TellMore& tell_more) {
  return guard([&] {
    require(device != nullptr && sink != nullptr, "memory.stats: no device or no function to report to");
    device->ledger.stats("buffer", sink, user);
    tell_more();
  });
}

}  // namespace crucible::sdk
