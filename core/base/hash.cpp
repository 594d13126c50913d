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

Sha256::Sha256() : state_(EVP_MD_CTX_new()) {
  EVP_DigestInit_ex(static_cast<EVP_MD_CTX*>(state_), EVP_sha256(), nullptr);
}

Sha256::~Sha256() { EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(state_)); }

void Sha256::update(std::span<const std::byte> data) {
  EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(state_), data.data(), data.size());
}

ContentHash Sha256::finish() {
  ContentHash hash;
  unsigned int size = 0;
  EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(state_), hash.bytes.data(), &size);
  return hash;
}

Checksum64::Checksum64() : state_(XXH3_createState()) { XXH3_64bits_reset(static_cast<XXH3_state_t*>(state_)); }

Checksum64::~Checksum64() { XXH3_freeState(static_cast<XXH3_state_t*>(state_)); }

void Checksum64::update(std::span<const std::byte> data) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state_), data.data(), data.size());
}

std::uint64_t Checksum64::value() const { return XXH3_64bits_digest(static_cast<const XXH3_state_t*>(state_)); }

std::uint64_t checksum64(std::span<const std::byte> data) { return XXH3_64bits(data.data(), data.size()); }

}  // namespace crucible
