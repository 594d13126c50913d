// Certificates: what a report says of one plugin, signed with Ed25519. Reading and verifying one is in
// verify_certificate.hpp, which needs nothing else of the kit.
#pragma once

#include <filesystem>
#include <string>

#include "core/base/result.hpp"
#include "plugins/conformance/result.hpp"

namespace crucible::conformance {

/// Writes a new private key as PEM, readable by its owner alone. Errors: kBadInput when the file exists or cannot be
/// written.
Result<void> make_key(const std::filesystem::path& file);

/// The signed certificate as JSON text. Errors: kBadInput when the key cannot be read or is no Ed25519 key.
Result<std::string> make_certificate(const Report& report, const std::filesystem::path& key_file);

}  // namespace crucible::conformance
