// Writing keys and signed certificates.
#include "plugins/conformance/certificate.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>

#include "plugins/loader/verify_certificate.hpp"

namespace crucible::conformance {
namespace {

using Key = std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)>;
using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

constexpr const char* kHostVersion = "0.1.0";

std::string to_hex(const unsigned char* bytes, std::size_t size) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

Result<Key> read_key(const std::filesystem::path& file) {
  const File stream(std::fopen(file.c_str(), "re"), std::fclose);
  if (stream == nullptr)
    return Error{ErrorCode::kBadInput, fmt::format("cannot read the key {}: {}", file.string(), std::strerror(errno))};
  Key key(PEM_read_PrivateKey(stream.get(), nullptr, nullptr, nullptr), EVP_PKEY_free);
  if (key == nullptr || EVP_PKEY_id(key.get()) != EVP_PKEY_ED25519) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("{} is no Ed25519 private key in PEM: make one with --make-key", file.string())};
  }
  return key;
}

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace

Result<void> make_key(const std::filesystem::path& file) {
  const Key key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"), EVP_PKEY_free);
  if (key == nullptr) return Error{ErrorCode::kUnavailable, "OpenSSL cannot make an Ed25519 key"};
  const int descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0)
    return Error{ErrorCode::kBadInput,
                 fmt::format("cannot make the key file {}: {}", file.string(), std::strerror(errno))};
  const File stream(fdopen(descriptor, "w"), std::fclose);
  if (stream == nullptr || PEM_write_PrivateKey(stream.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1 ||
      std::fflush(stream.get()) != 0) {
    return Error{ErrorCode::kBadInput, fmt::format("cannot write the key {}", file.string())};
  }
  return {};
}

Result<std::string> make_certificate(const Report& report, const std::filesystem::path& key_file) {
  CRUCIBLE_TRY(const Key key, read_key(key_file));
  unsigned char public_key[32];
  std::size_t size = sizeof(public_key);
  if (EVP_PKEY_get_raw_public_key(key.get(), public_key, &size) != 1)
    return Error{ErrorCode::kBadInput, "the key has no public half"};
  const Identity& who = report.identity;
  nlohmann::json document = {
      {"format", "crucible-certificate-1"},
      {"plugin",
       {{"sha256", who.sha256},
        {"name", who.name},
        {"version", who.version},
        {"build_id", who.build_id},
        {"abi", fmt::format("{}.{}", who.abi_major, who.abi_minor)}}},
      {"host_version", kHostVersion},
      {"device",
       {{"id", who.device_id}, {"name", who.device_name}, {"driver", who.driver}, {"emulated", who.emulated}}},
      {"quick", report.quick},
      {"conforms", report.passed()},
      {"date", now_utc()},
      {"public_key", to_hex(public_key, size)},
      {"tiers", nlohmann::json::array()}};
  for (int i = 0; i < kTierCount; ++i) {
    const auto tier = static_cast<Tier>(i);
    std::uint32_t all = 0;
    for (int outcome = 0; outcome < kOutcomeCount; ++outcome) all += report.count(tier, static_cast<Outcome>(outcome));
    if (all == 0) continue;  // a tier that was not run is not in the certificate
    document["tiers"].push_back({{"tier", tier_name(tier)},
                                 {"passed", report.count(tier, Outcome::kPassed)},
                                 {"failed", report.count(tier, Outcome::kFailed)},
                                 {"unsupported", report.count(tier, Outcome::kUnsupported)},
                                 {"expected_failures", report.count(tier, Outcome::kExpectedFailure)},
                                 {"unexpected_passes", report.count(tier, Outcome::kUnexpectedPass)},
                                 {"skipped", report.count(tier, Outcome::kSkipped)}});
  }
  const auto dump = [&] { return document.dump(2, ' ', true, nlohmann::json::error_handler_t::replace); };
  CRUCIBLE_TRY(const std::string message, canonical_bytes(dump()));
  unsigned char signature[64];
  std::size_t signature_size = sizeof(signature);
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  if (context == nullptr || EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) != 1 ||
      EVP_DigestSign(context.get(), signature, &signature_size, reinterpret_cast<const unsigned char*>(message.data()),
                     message.size()) != 1) {
    return Error{ErrorCode::kInternal, "signing the certificate failed"};
  }
  document["signature"] = to_hex(signature, signature_size);
  return dump() + "\n";
}

}  // namespace crucible::conformance
