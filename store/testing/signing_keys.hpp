// Ed25519 keys for tests, as PEM files.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <string>

namespace crucible::store::testing {

/// Writes `secret`, and beside it the public key as `secret`.pub.
inline void make_key(const std::filesystem::path& secret) {
  EVP_PKEY* const key = EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
  for (const bool is_secret : {true, false}) {
    const std::string path = is_secret ? secret.string() : secret.string() + ".pub";
    std::FILE* const out = std::fopen(path.c_str(), "w");
    if (out == nullptr) std::abort();
    if (is_secret) PEM_write_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr);
    if (!is_secret) PEM_write_PUBKEY(out, key);
    std::fclose(out);
    if (chmod(path.c_str(), is_secret ? 0600 : 0644) != 0) std::abort();
  }
  EVP_PKEY_free(key);
}

}  // namespace crucible::store::testing
