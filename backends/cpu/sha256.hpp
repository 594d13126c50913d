// SHA-256, the identity of kernels and of compiled objects in the cache on disk. The plugin links no library of core/,
// so it carries its own. Not for secrets: it is not constant-time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace crucible_cpu {

/// Collects bytes and gives their SHA-256. Threads: one per object.
class Sha256 {
 public:
  void update(std::string_view data);
  /// A length and then the bytes, so that fields cannot run into one another.
  void update_field(std::string_view data);
  /// 64 lower-case hexadecimal digits. Call once, last.
  std::string hex();

 private:
  void block(const unsigned char* data);
  std::uint32_t state_[8] = {0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au,
                             0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u};
  unsigned char pending_[64] = {};
  std::uint64_t size_ = 0;
};

}  // namespace crucible_cpu
