// Verification of a certificate: see verify_certificate.hpp.
#include "plugins/loader/verify_certificate.hpp"

#include <openssl/evp.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <set>

namespace crucible::conformance {
namespace {

constexpr const char* kFormat = "crucible-certificate-1";

using Json = nlohmann::json;  // sorts its keys

Error not_one(const std::string& what) { return Error{ErrorCode::kBadInput, "this is no certificate: " + what}; }

/// JSON that names a key twice could show one value to the signature and another to a reader.
bool has_repeated_keys(const std::string& text) {
  bool repeated = false;
  std::vector<std::set<std::string>> open;
  const auto watch = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end && !open.empty()) open.pop_back();
    if (event == Json::parse_event_t::key && !open.empty())
      repeated |= !open.back().insert(value.get<std::string>()).second;
    return true;
  };
  const Json ignored = Json::parse(text, watch, false);
  return repeated || ignored.is_discarded();
}

int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

/// "" when it is not hexadecimal of `size` bytes.
std::string from_hex(const std::string& text, std::size_t size) {
  std::string bytes;
  if (text.size() != 2 * size) return "";
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = digit(text[i]), low = digit(text[i + 1]);
    if (high < 0 || low < 0) return "";
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
}

bool signature_holds(const std::string& key, const std::string& signature, const std::string& message) {
  const auto* data = [](const std::string& text) { return reinterpret_cast<const unsigned char*>(text.data()); }(key);
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> public_key(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, data, key.size()), EVP_PKEY_free);
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  if (public_key == nullptr || context == nullptr) return false;
  if (EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, public_key.get()) != 1) return false;
  return EVP_DigestVerify(context.get(), reinterpret_cast<const unsigned char*>(signature.data()), signature.size(),
                          reinterpret_cast<const unsigned char*>(message.data()), message.size()) == 1;
}

/// Reads the fields; throws nlohmann's exceptions when one is missing or of another type.
Certificate read_fields(const Json& document) {
  Certificate c;
  const Json &plugin = document.at("plugin"), &device = document.at("device");
  c.plugin_sha256 = plugin.at("sha256"), c.plugin_name = plugin.at("name"), c.plugin_version = plugin.at("version");
  c.plugin_build_id = plugin.at("build_id"), c.plugin_abi = plugin.at("abi");
  c.host_version = document.at("host_version");
  c.device_id = device.at("id"), c.device_name = device.at("name"), c.driver = device.at("driver");
  c.emulated = device.at("emulated"), c.quick = document.at("quick"), c.conforms = document.at("conforms");
  for (const Json& row : document.at("tiers")) {
    c.tiers.push_back({row.at("tier"), row.at("passed"), row.at("failed"), row.at("unsupported"),
                       row.at("expected_failures"), row.at("unexpected_passes"), row.at("skipped")});
  }
  c.date = document.at("date"), c.public_key = document.at("public_key");
  return c;
}

}  // namespace

Result<std::string> canonical_bytes(const std::string& json_text) {
  if (has_repeated_keys(json_text)) return not_one("it is not JSON, or has a key twice");
  Json document = Json::parse(json_text, nullptr, false);
  if (!document.is_object()) return not_one("it is not a JSON object");
  document.erase("signature");
  return document.dump(-1, ' ', true, Json::error_handler_t::replace);
}

Result<Certificate> verify_certificate(const std::string& json_text, const std::string& trusted_key) {
  CRUCIBLE_TRY(const std::string message, canonical_bytes(json_text));
  const Json document = Json::parse(json_text, nullptr, false);
  const auto text = [&](const char* key) {
    return document.contains(key) && document[key].is_string() ? document[key].get<std::string>() : std::string();
  };
  if (text("format") != kFormat) return not_one("its format is '" + text("format") + "', not " + kFormat);
  const std::string key = from_hex(text("public_key"), 32), signature = from_hex(text("signature"), 64);
  if (key.empty() || signature.empty()) return not_one("its public key or its signature is damaged");
  if (!signature_holds(key, signature, message)) {
    return Error{ErrorCode::kCheckFailed,
                 "the certificate's signature does not fit its content: it was changed after it was signed"};
  }
  if (!trusted_key.empty() && trusted_key != text("public_key")) {
    return Error{ErrorCode::kCheckFailed,
                 "the certificate is signed by " + text("public_key") + ", not by " + trusted_key};
  }
  try {
    return read_fields(document);
  } catch (const Json::exception& error) {
    return not_one(error.what());
  }
}

}  // namespace crucible::conformance
