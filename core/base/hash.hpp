// The two hashes of the project: SHA-256 is the identity of content (blobs, programs, kernels), XXH3-64 is a checksum
// against damage. Never use the checksum as an identity.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace crucible {

/// SHA-256 of some bytes. Equal hashes mean equal content.
struct ContentHash {
  std::array<std::uint8_t, 32> bytes{};
  auto operator<=>(const ContentHash&) const = default;
  /// 64 lower-case hexadecimal digits.
  std::string hex() const;
};

/// Threads: any.
ContentHash sha256(std::span<const std::byte> data);

/// XXH3-64 (seed 0) of the bytes. Threads: any.
std::uint64_t checksum64(std::span<const std::byte> data);

/// SHA-256 of bytes that come in parts. Threads: one at a time.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void update(std::span<const std::byte> data);
  /// Of everything so far; nothing may be added afterwards.
  ContentHash finish();

 private:
  void* state_;  // the library's
};

/// XXH3-64 (seed 0) of bytes that come in parts. Threads: one at a time.
class Checksum64 {
 public:
  Checksum64();
  ~Checksum64();
  Checksum64(const Checksum64&) = delete;
  Checksum64& operator=(const Checksum64&) = delete;
  void update(std::span<const std::byte> data);
  /// Of everything so far.
  std::uint64_t value() const;

 private:
  void* state_;  // the library's
};

}  // namespace crucible
