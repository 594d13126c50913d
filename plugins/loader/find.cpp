// Where plugins are looked for. The current directory is never one of the places: whoever can write there could choose
// the code that runs.
#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <string>
#include <system_error>

#include "plugins/loader/backend.hpp"
#include "plugins/loader/inspect.hpp"

namespace crucible::backend {
namespace {

constexpr std::string_view kPrefix = "libcrucible_", kSuffix = ".so";

/// The folders in the order in which they are searched; relative entries of the variable are left out.
std::vector<std::filesystem::path> search_folders() {
  std::vector<std::filesystem::path> folders;
  // secure_getenv: a process with more rights than its user does not load what the user's environment names.
  if (const char* variable = secure_getenv("CRUCIBLE_PLUGIN_PATH")) {
    std::string_view rest = variable;
    while (!rest.empty()) {
      const std::size_t colon = rest.find(':');
      const std::filesystem::path folder(rest.substr(0, colon));
      if (folder.is_absolute()) folders.push_back(folder);
      rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
    }
  }
  std::error_code error;
  const std::filesystem::path executable = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    folders.push_back(executable.parent_path());
    folders.push_back(executable.parent_path().parent_path() / "lib" / "crucible");
  }
  return folders;
}

/// "cpu" of "libcrucible_cpu.so"; "" of other names.
std::string name_in(const std::string& file) {
  if (!file.starts_with(kPrefix) || !file.ends_with(kSuffix) || file.size() <= kPrefix.size() + kSuffix.size())
    return "";
  return file.substr(kPrefix.size(), file.size() - kPrefix.size() - kSuffix.size());
}

}  // namespace

std::vector<FoundBackend> list_backends() {
  std::map<std::string, std::filesystem::path> found;
  for (const std::filesystem::path& folder : search_folders()) {
    std::error_code error;
    for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      const std::string name = name_in(entry->path().filename().string());
      if (!name.empty() && exports_symbol(entry->path(), CRUCIBLE_QUERY_SYMBOL)) found.try_emplace(name, entry->path());
    }
  }
  std::vector<FoundBackend> result;
  for (auto& [name, path] : found) result.push_back({name, path});
  return result;
}

Result<std::filesystem::path> find_backend(std::string_view name) {
  if (name.empty() || name.find('/') != std::string_view::npos) {
    return Error{ErrorCode::kUsage,
                 fmt::format("'{}' is not the name of a backend: names have letters, digits and '_'", name)};
  }
  const std::string file = fmt::format("{}{}{}", kPrefix, name, kSuffix);
  std::string places;
  for (const std::filesystem::path& folder : search_folders()) {
    std::error_code error;
    if (std::filesystem::exists(folder / file, error)) return folder / file;
    places += fmt::format("\n  {}", (folder / file).string());
  }
  return Error{ErrorCode::kUnavailable,
               fmt::format("plugin {} was not found; looked for{}\nset CRUCIBLE_PLUGIN_PATH to the folder that has it",
                           name, places)};
}

}  // namespace crucible::backend
