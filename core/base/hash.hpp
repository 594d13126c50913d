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

/// XXH3-64 of the bytes. Threads: any.
std::uint64_t checksum64(std::span<const std::byte> data);

}  // namespace crucible
