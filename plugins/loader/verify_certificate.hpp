// Reading a certificate and verifying its signature. Stands alone, so that the loader can use it: OpenSSL, JSON and the
// standard library, nothing of the kit.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/result.hpp"

namespace crucible::conformance {

struct CertifiedTier {
  std::string name;
  std::uint64_t passed = 0, failed = 0, unsupported = 0, expected_failures = 0, unexpected_passes = 0, skipped = 0;
};

/// What a certificate says. All of it is covered by the signature.
struct Certificate {
  std::string plugin_sha256, plugin_name, plugin_version, plugin_build_id, plugin_abi;
  std::string host_version;
  std::string device_id, device_name, driver;
  bool emulated = false;
  bool quick = false;
  bool conforms = false;  // no failure and no unexpected pass
  std::vector<CertifiedTier> tiers;
  std::string date;        // UTC, ISO 8601
  std::string public_key;  // 64 hexadecimal digits
};

/// The certificate, if its signature is that of its own public key over exactly this content.
/// `trusted_key`: 64 hexadecimal digits that the public key must be, or "" to take any; a certificate that signs itself
/// proves only that nobody has changed it.
/// Errors: kBadInput when it is no certificate; kCheckFailed when a field was changed or the key is another.
Result<Certificate> verify_certificate(const std::string& json_text, const std::string& trusted_key = "");

/// The bytes that are signed: the document without its signature, keys sorted, no spaces. Errors: kBadInput.
Result<std::string> canonical_bytes(const std::string& json_text);

}  // namespace crucible::conformance
