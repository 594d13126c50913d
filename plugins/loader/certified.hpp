// The certificate that a vendor puts beside a plugin, FILE.so.certificate.json: what the conformance kit found, signed.
#pragma once

#include <optional>
#include <string>

#include "core/base/result.hpp"
#include "plugins/loader/trust.hpp"

namespace crucible::backend {

/// Whether there is one beside the file. Threads: any.
bool has_certificate(const OpenFile& file);

/// What the certificate beside the file says, in words; nothing when there is none. Threads: any.
/// Errors: kBadInput when it is no certificate; kCheckFailed when it was changed, or is of another file.
Result<std::optional<std::string>> certificate_beside(const OpenFile& file);

}  // namespace crucible::backend
