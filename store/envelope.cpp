// Signing and checking by OpenSSL; JSON of the envelope.
#include "store/envelope.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "core/base/hash.hpp"

namespace crucible::store {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::size_t kSignatureBytes = 64, kKeyFileLimit = 16384, kSignatureLimit = 64;

const unsigned char* bytes_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

EVP_PKEY* as_key(const std::shared_ptr<void>& key) { return static_cast<EVP_PKEY*>(key.get()); }

std::shared_ptr<void> owned(EVP_PKEY* key) {
  return std::shared_ptr<void>(key, [](void* it) { EVP_PKEY_free(static_cast<EVP_PKEY*>(it)); });
}

struct Context {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() { EVP_MD_CTX_free(context); }
};

std::string id_of(EVP_PKEY* key) {
  std::array<unsigned char, 32> raw{};
  std::size_t size = raw.size();
  if (EVP_PKEY_get_raw_public_key(key, raw.data(), &size) != 1) return {};
  return sha256(std::as_bytes(std::span(raw))).hex();
}

/// The text of a key's file, none of whose bits in `forbidden` may be in its mode.
Result<std::string> key_text(const std::filesystem::path& file, mode_t forbidden, std::string_view danger) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status{};
  if (descriptor < 0 || fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    const int reason = errno;
    if (descriptor >= 0) close(descriptor);
    return Error{ErrorCode::kBadInput, fmt::format("cannot read the key {}: {}", file.string(),
                                                   descriptor < 0 ? std::strerror(reason) : "it is no file")};
  }
  std::string text(kKeyFileLimit, '\0');
  const ssize_t size = ::read(descriptor, text.data(), text.size());
  close(descriptor);
  if ((status.st_mode & forbidden) != 0 || (status.st_uid != geteuid() && status.st_uid != 0)) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("the key {} is not used: {} (mode {:04o}, owner {}); chmod {} and own it", file.string(),
                             danger, status.st_mode & 07777u, status.st_uid, forbidden == 077 ? "600" : "644")};
  }
  text.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  return text;
}

Error not_ed25519(const std::filesystem::path& file, std::string_view kind) {
  return {ErrorCode::kBadInput, fmt::format("{} holds no {} Ed25519 key as PEM", file.string(), kind)};
}

}  // namespace

Result<std::string> secret_text(const std::filesystem::path& file) { return key_text(file, 077, "others can read it"); }

std::string to_base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t group = 0;
    for (std::size_t byte = 0; byte < 3; ++byte) {
      group = group << 8 | (at + byte < bytes.size() ? static_cast<std::uint8_t>(bytes[at + byte]) : 0u);
    }
    for (std::size_t digit = 0; digit < 4; ++digit) {
      out += at + digit <= bytes.size() ? kDigits[group >> (18 - 6 * digit) & 63] : '=';
    }
  }
  return out;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  std::string out;
  out.reserve(text.size() / 4 * 3);
  std::uint32_t group = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool is_padding = at + padding >= text.size();
    const std::size_t digit = is_padding ? 0 : kDigits.find(text[at]);
    if (digit == std::string_view::npos) return std::nullopt;
    group = group << 6 | static_cast<std::uint32_t>(digit);
    if (at % 4 != 3) continue;
    for (int shift = 16; shift >= 0; shift -= 8) out += static_cast<char>(group >> shift & 0xff);
    group = 0;
  }
  for (std::size_t at = 0; at < padding; ++at) {
    if (out.back() != '\0') return std::nullopt;  // bits that belong to nothing: two texts would mean the same
    out.pop_back();
  }
  return out;
}

Result<PublicKey> PublicKey::read(const std::filesystem::path& file) {
  CRUCIBLE_TRY(const std::string text, key_text(file, 022, "others can write it"));
  BIO* const bio = BIO_new_mem_buf(text.data(), static_cast<int>(text.size()));
  PublicKey key;
  key.key_ = owned(PEM_read_bio_PUBKEY(bio, nullptr, nullptr, nullptr));
  BIO_free(bio);
  if (!key.key_ || EVP_PKEY_id(as_key(key.key_)) != EVP_PKEY_ED25519) return not_ed25519(file, "public");
  key.id_ = id_of(as_key(key.key_));
  return key;
}

bool PublicKey::verifies(std::string_view message, std::string_view signature) const {
  const Context context;
  return signature.size() == kSignatureBytes &&
         EVP_DigestVerifyInit(context.context, nullptr, nullptr, nullptr, as_key(key_)) == 1 &&
         EVP_DigestVerify(context.context, bytes_of(signature), signature.size(), bytes_of(message), message.size()) ==
             1;
}

Result<SecretKey> SecretKey::read(const std::filesystem::path& file) {
  CRUCIBLE_TRY(const std::string text, secret_text(file));
  BIO* const bio = BIO_new_mem_buf(text.data(), static_cast<int>(text.size()));
  SecretKey key;
  // No password is asked for on a terminal: a key that has one is none of ours.
  const auto no_password = [](char*, int, int, void*) { return -1; };
  key.key_ = owned(PEM_read_bio_PrivateKey(bio, nullptr, no_password, nullptr));
  BIO_free(bio);
  if (!key.key_ || EVP_PKEY_id(as_key(key.key_)) != EVP_PKEY_ED25519) return not_ed25519(file, "secret");
  key.public_.key_ = key.key_;
  key.public_.id_ = id_of(as_key(key.key_));
  return key;
}

std::string SecretKey::sign(std::string_view message) const {
  const Context context;
  std::string signature(kSignatureBytes, '\0');
  std::size_t size = signature.size();
  const bool is_signed = EVP_DigestSignInit(context.context, nullptr, nullptr, nullptr, as_key(key_)) == 1 &&
                         EVP_DigestSign(context.context, reinterpret_cast<unsigned char*>(signature.data()), &size,
                                        bytes_of(message), message.size()) == 1;
  return is_signed ? signature : std::string();
}

std::string signed_bytes(std::string_view type, std::string_view payload) {
  return fmt::format("DSSEv1 {} {} {} {}", type.size(), type, payload.size(), payload);
}

std::string to_json(const Envelope& envelope) {
  nlohmann::ordered_json json = {{"payloadType", envelope.type},
                                 {"payload", to_base64(envelope.payload)},
                                 {"signatures", nlohmann::ordered_json::array()}};
  for (const Signature& signature : envelope.signatures) {
    json["signatures"].push_back({{"keyid", signature.key_id}, {"sig", to_base64(signature.bytes)}});
  }
  return json.dump() + "\n";
}

Result<Envelope> parse_envelope(std::string_view text) {
  const auto refuse = [](std::string_view why) {
    return Error{ErrorCode::kBadInput, fmt::format("this is no signed envelope: {}", why)};
  };
  // The parser would end there, and what follows would be nobody's.
  if (text.find('\0') != std::string_view::npos) return refuse("it has a NUL");
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return refuse("no JSON object");
  const auto text_of = [](const nlohmann::json& object, const char* name) -> std::optional<std::string> {
    const auto found = object.find(name);
    if (found == object.end() || !found->is_string()) return std::nullopt;
    return found->get<std::string>();
  };
  const auto type = text_of(json, "payloadType"), payload = text_of(json, "payload");
  const auto bytes = payload ? from_base64(*payload) : std::nullopt;
  if (!type || !bytes) return refuse("payloadType or payload is missing or no base64");
  Envelope envelope{*type, *bytes, {}};
  const auto signatures = json.find("signatures");
  if (signatures == json.end() || !signatures->is_array() || signatures->size() > kSignatureLimit) {
    return refuse("its signatures are no list, or too many");
  }
  for (const nlohmann::json& each : *signatures) {
    const auto id = each.is_object() ? text_of(each, "keyid") : std::nullopt;
    const auto sig = id ? text_of(each, "sig") : std::nullopt;
    const auto raw = sig ? from_base64(*sig) : std::nullopt;
    if (!raw) return refuse("a signature has no keyid, or no sig that is base64");
    envelope.signatures.push_back({*id, *raw});
  }
  return envelope;
}

std::string fault_of(const Envelope& envelope, const Trust& trust) {
  if (envelope.signatures.empty()) return "it is not signed";
  const std::string message = signed_bytes(envelope.type, envelope.payload);
  bool is_known = false;
  for (const Signature& signature : envelope.signatures) {
    for (const PublicKey& key : trust.keys) {
      if (key.id() != signature.key_id) continue;
      if (key.verifies(message, signature.bytes)) return {};
      is_known = true;
    }
  }
  return is_known ? "its signature is wrong" : "no key that may write signed it";
}

}  // namespace crucible::store
