#include "frontends/config/places.hpp"

#include <fmt/format.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <system_error>

namespace crucible::config {
namespace {

constexpr const char* kFileName = "crucible.toml";
constexpr std::size_t kLargest = std::size_t{1} << 20;

bool is_file(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

/// Others must not be able to write it, and it must be root's or our own: whoever writes it chooses the code that runs.
std::string danger_of(const std::filesystem::path& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return "";
  if ((status.st_mode & S_IWOTH) != 0) return fmt::format("everybody can write it: chmod o-w {}", path.string());
  if (status.st_uid != 0 && status.st_uid != geteuid()) {
    return fmt::format("it belongs to user {}, not to you: chown or remove {}", status.st_uid, path.string());
  }
  return "";
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
    if (is_file(folder / kFileName)) return folder / kFileName;
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
  return surroundings;
}

std::vector<ConfigFile> find_files(const Surroundings& surroundings) {
  std::vector<ConfigFile> files;
  const auto add = [&files](Layer layer, const std::filesystem::path& path) {
    if (!path.empty() && is_file(path)) files.push_back({layer, path, danger_of(path)});
  };
  add(Layer::kSystem, surroundings.system_file);
  if (surroundings.privileged) return files;
  add(Layer::kUser, user_config_file(surroundings));
  add(Layer::kProject, project_file(surroundings));
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
