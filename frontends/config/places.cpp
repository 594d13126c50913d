#include "frontends/config/places.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include "core/base/file_owners.hpp"

namespace crucible::config {
namespace {

constexpr const char* kFileName = "crucible.toml";
constexpr std::size_t kLargest = std::size_t{1} << 20;

/// Something stands there, be it a link that leads nowhere.
bool stands(const std::filesystem::path& path) {
  struct stat status{};
  return lstat(path.c_str(), &status) == 0;
}

/// Why the folder that should have the file cannot be looked into; "" where it can, or where there is none.
std::string fault_of_folder(const std::filesystem::path& folder) {
  struct stat status{};
  if (lstat(folder.c_str(), &status) != 0) {
    return errno == EACCES ? fmt::format("a folder above {} cannot be looked into: chmod u+x it", folder.string()) : "";
  }
  if (stat(folder.c_str(), &status) != 0)
    return fmt::format("{} is a link that leads nowhere ({}): mend or remove it", folder.string(),
                       std::strerror(errno));
  if (!S_ISDIR(status.st_mode)) return fmt::format("{} is no folder: move it away", folder.string());
  return access(folder.c_str(), X_OK) == 0 ? ""
                                           : fmt::format("{} cannot be looked into: chmod u+x it", folder.string());
}

/// Why what stands at `path` cannot be read as a file; "" where it can.
std::string fault_of(const std::filesystem::path& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) {
    std::error_code error;
    const std::filesystem::path target = std::filesystem::read_symlink(path, error);
    if (errno == ELOOP)
      return fmt::format("is a link that leads back to itself, by way of {}: mend or remove it", target.string());
    if (errno == ENOENT && error) return "is not there";
    if (errno == ENOENT) return fmt::format("is a link to {}, which is not there: mend or remove it", target.string());
    return fmt::format("cannot be reached: {}", std::strerror(errno));
  }
  struct stat nothing{};
  if (S_ISCHR(status.st_mode) && stat("/dev/null", &nothing) == 0 && status.st_rdev == nothing.st_rdev) return "";
  if (S_ISDIR(status.st_mode)) return "is a folder: crucible.toml is a file, so move the folder away";
  if (!S_ISREG(status.st_mode)) return "is neither a file nor a link to one (a pipe, a socket or a device): remove it";
  return "";
}

/// Others must not be able to change it, or to put another in its place: whoever writes it chooses the code that runs.
std::string danger_of(const std::filesystem::path& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode))
    return "";  // told as a fault, or nothing (/dev/null)
  if ((status.st_mode & S_IWOTH) != 0) return fmt::format("everybody can write it: chmod o-w {}", path.string());
  if (status.st_uid != 0 && status.st_uid != geteuid()) {
    return fmt::format("it belongs to user {}, not to you: chown or remove {}", status.st_uid, path.string());
  }
  const std::vector<std::string> doubts = doubts_about(path, "it");
  return doubts.empty() ? "" : fmt::format("others can change it: {}", fmt::join(doubts, ", "));
}

std::filesystem::path home(const Surroundings& surroundings) {
  const auto variable = surroundings.environment("HOME");
  return variable && variable->starts_with('/') ? std::filesystem::path(*variable).lexically_normal()
                                                : std::filesystem::path();
}

std::filesystem::path project_file(const Surroundings& surroundings) {
  const std::filesystem::path end = home(surroundings);
  for (std::filesystem::path folder = surroundings.working_folder; folder.is_absolute();
       folder = folder.parent_path()) {
    if (stands(folder / kFileName)) return folder / kFileName;
    std::error_code error;
    if (folder == end || folder == folder.root_path() || std::filesystem::exists(folder / ".git", error)) break;
  }
  return {};
}

}  // namespace

std::filesystem::path user_config_file(const Surroundings& surroundings) {
  const auto xdg = surroundings.environment("XDG_CONFIG_HOME");
  if (xdg && xdg->starts_with('/')) return std::filesystem::path(*xdg) / "crucible" / kFileName;
  const std::filesystem::path folder = home(surroundings);
  return folder.empty() ? folder : folder / ".config" / "crucible" / kFileName;
}

Surroundings process_surroundings() {
  std::error_code error;
  Surroundings surroundings;
  surroundings.working_folder = std::filesystem::current_path(error);
  surroundings.environment = [](const std::string& name) -> std::optional<std::string> {
    const char* const value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  surroundings.privileged = getauxval(AT_SECURE) != 0;
  if (const auto named = surroundings.environment("CRUCIBLE_CONFIG"); named && !surroundings.privileged)
    surroundings.named_file = *named;
  return surroundings;
}

std::string_view standing_name(Standing standing) {
  switch (standing) {
    case Standing::kOwn:
      return "own";
    case Standing::kTrusted:
      return "trusted";
    case Standing::kFolder:
      return "folder";
  }
  return "";
}

std::vector<ConfigFile> find_files(const Surroundings& surroundings) {
  std::vector<ConfigFile> files;
  const auto add = [&files](Layer layer, const std::filesystem::path& path, Standing standing, bool is_named) {
    if (path.empty()) return;
    if (stands(path) || is_named) {
      files.push_back({layer, path, danger_of(path), fault_of(path), standing, is_named});
    } else if (std::string fault = layer == Layer::kProject ? "" : fault_of_folder(path.parent_path());
               !fault.empty()) {
      files.push_back({layer, path, "", std::move(fault)});
    }
  };
  add(Layer::kSystem, surroundings.system_file, Standing::kOwn, false);
  if (surroundings.privileged) return files;
  add(Layer::kUser, user_config_file(surroundings), Standing::kOwn, false);
  if (!surroundings.named_file.empty()) {
    std::error_code error;
    add(Layer::kProject, std::filesystem::absolute(surroundings.named_file, error), surroundings.named_as, true);
    return files;
  }
  const std::filesystem::path project = project_file(surroundings);
  // Whoever stands in his own configuration's folder has one file there, not two.
  const auto is_read_already = [&project](const ConfigFile& file) {
    std::error_code error;
    return std::filesystem::equivalent(file.path.parent_path(), project.parent_path(), error);
  };
  if (!std::ranges::any_of(files, is_read_already)) add(Layer::kProject, project, Standing::kFolder, false);
  return files;
}

std::optional<std::string> read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text(kLargest + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || static_cast<std::size_t>(file.gcount()) > kLargest) return std::nullopt;
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace crucible::config
