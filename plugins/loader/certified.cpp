#include "plugins/loader/certified.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <system_error>

#include "plugins/loader/verify_certificate.hpp"

namespace crucible::backend {

namespace {

std::filesystem::path certificate_of(const OpenFile& file) { return file.path().string() + ".certificate.json"; }

}  // namespace

bool has_certificate(const OpenFile& file) {
  std::error_code error;
  return std::filesystem::exists(certificate_of(file), error);
}

Result<std::optional<std::string>> certificate_beside(const OpenFile& file) {
  const std::filesystem::path path = certificate_of(file);
  if (!has_certificate(file)) return std::optional<std::string>();
  std::ifstream stream(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(stream)), {});
  const Result<conformance::Certificate> certificate = conformance::verify_certificate(text);
  if (!certificate)
    return Error{certificate.error().code, fmt::format("{}: {}", path.string(), certificate.error().message)};
  CRUCIBLE_TRY(const std::string digest, file_digest(file));
  if (digest != certificate->plugin_sha256) {
    return Error{
        ErrorCode::kCheckFailed,
        fmt::format(
            "{} is the certificate of another file (SHA-256 {}..., this one has {}...): the plugin was built again "
            "or replaced since it was tested",
            path.string(), certificate->plugin_sha256.substr(0, 12), digest.substr(0, 12))};
  }
  std::string tiers;
  for (const conformance::CertifiedTier& tier : certificate->tiers)
    tiers += fmt::format("{}{}", tiers.empty() ? "" : ", ", tier.name);
  return std::optional(
      fmt::format("certified on {} by key {}...: {} ({}{}{})", certificate->date, certificate->public_key.substr(0, 12),
                  certificate->conforms ? "conforms" : "does not conform", tiers, certificate->quick ? "; quick" : "",
                  certificate->emulated ? "; on an emulated device" : ""));
}

}  // namespace crucible::backend
