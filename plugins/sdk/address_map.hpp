// Which addresses of a device lie in a buffer that is alive, for devices with real addresses: a list of ops names places by address
// alone, and one in no buffer must be refused before the device touches it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace crucible::sdk {

/// Threads: any.
class AddressMap {
 public:
  void add(std::uint64_t address, std::uint64_t size);
  void remove(std::uint64_t address, std::uint64_t size);
  /// Bytes from `address` to the end of its buffer; 0 is just behind one. Errors: INVALID_ARGUMENT when it is in none; `device` is
  /// named in the message.
  std::uint64_t bytes_left(std::uint64_t address, const std::string& device) const;

 private:
  mutable std::mutex mutex_;
  std::multimap<std::uint64_t, std::uint64_t> buffers_;  // address to size; empty ones may share an address with others
};

}  // namespace crucible::sdk
