// Signed words: a payload with its type and signatures over both, as DSSE has it (github.com/secure-systems-lab/dsse),
// by Ed25519. Who may sign is a list of public keys.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace crucible::store {

std::string to_base64(std::string_view bytes);
/// Errors: nothing for what is not base64 with its padding, to the last bit.
std::optional<std::string> from_base64(std::string_view text);

/// The text of a file that nobody else can read, 16 KiB at most: a key, a password. Errors: kBadInput.
Result<std::string> secret_text(const std::filesystem::path& file);

/// An Ed25519 key. Copies share it: it never changes.
class PublicKey {
 public:
  /// A PEM file (`openssl pkey -in key.pem -pubout`). Errors: kBadInput, also where others can write the file.
  static Result<PublicKey> read(const std::filesystem::path& file);
  /// SHA-256 of the 32 bytes, in hexadecimal.
  const std::string& id() const { return id_; }
  bool verifies(std::string_view message, std::string_view signature) const;

 private:
  friend class SecretKey;
  PublicKey() = default;
  std::shared_ptr<void> key_;  // OpenSSL's
  std::string id_;
};

class SecretKey {
 public:
  /// A PEM file (`openssl genpkey -algorithm ed25519`). Errors: kBadInput, also where its mode lets others read it.
  static Result<SecretKey> read(const std::filesystem::path& file);
  const PublicKey& public_key() const { return public_; }
  std::string sign(std::string_view message) const;

 private:
  SecretKey() = default;
  std::shared_ptr<void> key_;
  PublicKey public_;
};

struct Signature {
  std::string key_id, bytes;
};

struct Envelope {
  std::string type, payload;
  std::vector<Signature> signatures;
};

/// What is signed: type and payload, each with its length.
std::string signed_bytes(std::string_view type, std::string_view payload);
std::string to_json(const Envelope& envelope);
/// Errors: kBadInput.
Result<Envelope> parse_envelope(std::string_view json);

/// What is done about signatures: entries without a good one are refused, used and said, or used.
enum class Policy { kEnforce, kWarn, kOff };

struct Trust {
  Policy policy = Policy::kOff;
  std::vector<PublicKey> keys;  // whose word counts
};

/// "": one of the keys signed it. Else why it does not count.
std::string fault_of(const Envelope& envelope, const Trust& trust);

}  // namespace crucible::store
