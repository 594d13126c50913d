// Which files of folders the user has trusted: paths with the SHA-256 of what they held then, in a file of the user's
// own beside his crucible.toml. A file that changed, or that lies elsewhere, is another file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "frontends/config/places.hpp"

namespace crucible::config {

struct TrustedFile {
  std::string place;   // place_of() the file
  std::string sha256;  // of its content, 64 lower-case hexadecimal digits
  bool operator==(const TrustedFile&) const = default;
};

/// "trusted" beside user_config_file(); empty without a home.
std::filesystem::path trust_store(const Surroundings& surroundings);

/// What a trusted file is known by: its folder without links and its own name. A link is known by where it lies, not by
/// where it leads: relative paths in a file belong to the folder in which it was found.
std::string place_of(const std::filesystem::path& file);

std::string sha256_of(const std::string& text);

/// None where there is no store. Errors: kBadInput when it is damaged, is no file of the user's own, or others can
/// change it.
Result<std::vector<TrustedFile>> read_trusted(const std::filesystem::path& store);

/// Replaces the store, for the user alone (0600), in a folder that is made for him alone. Errors: kBadInput.
Result<void> write_trusted(const std::filesystem::path& store, const std::vector<TrustedFile>& files);

}  // namespace crucible::config
