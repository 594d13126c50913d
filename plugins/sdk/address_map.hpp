// Which addresses of a device lie in a buffer that is alive: a list of ops names places by address alone, and one in no
// buffer must be refused before the device touches it. A device with handles in place of addresses gets numbers from
// here that stand for them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace crucible::sdk {

/// An address inside a buffer.
struct Place {
  std::shared_ptr<void> memory = nullptr;  // what the buffer was added with: a plan keeps it alive
  std::uint64_t address = 0;
  std::uint64_t offset = 0;  // of the address in the memory
  std::uint64_t left = 0;    // bytes from there to the buffer's end; 0 is just behind it

  template <class Memory>
  Memory& in() const {
    return *static_cast<Memory*>(memory.get());
  }
};

/// Threads: any.
class AddressMap {
 public:
  /// `memory`, where there is one, is what the places in the buffer hold; the buffer begins `offset` bytes inside it.
  void add(std::uint64_t address, std::uint64_t size, std::shared_ptr<void> memory = nullptr, std::uint64_t offset = 0);
  void remove(std::uint64_t address, std::uint64_t size);
  /// An address for a buffer of a device that has none of its own: a multiple of `align`, with `size` bytes behind it
  /// that no other buffer ever had, and a gap, so that an address just behind a buffer is no other's.
  std::uint64_t number(std::uint64_t size, std::uint64_t align);
  /// Errors: INVALID_ARGUMENT when it is in no buffer; `device` is named in the message.
  Place find(std::uint64_t address, const std::string& device) const;
  /// Bytes from `address` to the end of its buffer. Errors: as find().
  std::uint64_t bytes_left(std::uint64_t address, const std::string& device) const {
    return find(address, device).left;
  }

 private:
  mutable std::mutex mutex_;
  std::multimap<std::uint64_t, Place>
      buffers_;  // places of their beginnings; empty ones may share an address with others
  std::uint64_t next_ = std::uint64_t{1} << 40;
};

}  // namespace crucible::sdk
