#include "core/base/hash.hpp"

#include <openssl/evp.h>
#include <xxhash.h>

namespace crucible {

std::string ContentHash::hex() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

ContentHash sha256(std::span<const std::byte> data) {
  ContentHash hash;
  unsigned int size = 0;
  EVP_Digest(data.data(), data.size(), hash.bytes.data(), &size, EVP_sha256(), nullptr);
  return hash;
}

std::uint64_t checksum64(std::span<const std::byte> data) { return XXH3_64bits(data.data(), data.size()); }

}  // namespace crucible
