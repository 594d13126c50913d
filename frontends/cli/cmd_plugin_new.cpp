// `crucible plugin new NAME`: writes the project of a new plugin, outside this tree, that builds and works at once.
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "core/base/terminal.hpp"
#include "frontends/cli/plugin_command.hpp"
#include "plugins/loader/backend.hpp"
#include "plugins/template/template.hpp"

namespace crucible::cli {
namespace {

namespace fs = std::filesystem;

/// Errors: kUsage when a plugin of that name would be hidden or hide another.
Result<void> check_free(const std::string& name) {
  for (const backend::FoundBackend& found : backend::list_backends()) {
    if (found.name == name) {
      return Error{ErrorCode::kUsage,
                   fmt::format("there is a plugin {} already ({}): take another name, or --force if yours is "
                               "to stand in for it",
                               name, found.path.string())};
    }
  }
  return {};
}

/// The prefix that this program is installed under, when CMake would not find it through PATH; else "".
std::string prefix_to_tell() {
  std::error_code error;
  const fs::path bin = fs::read_symlink("/proc/self/exe", error).parent_path();
  const char* path = std::getenv("PATH");
  if (error ||
      fmt::format(":{}:", path == nullptr ? "" : path).find(fmt::format(":{}:", bin.string())) != std::string::npos)
    return "";
  return bin.parent_path().string();
}

}  // namespace

Result<int> run_plugin_new(const NewPlugin& arguments) {
  CRUCIBLE_TRY_VOID(plugin_template::check_name(arguments.name));
  if (!arguments.force) CRUCIBLE_TRY_VOID(check_free(arguments.name));
  const fs::path folder = arguments.folder.empty() ? fs::path(arguments.name) : fs::path(arguments.folder);
  CRUCIBLE_TRY(
      const std::vector<fs::path> written,
      plugin_template::write_project(folder, arguments.name, {arguments.dialect, arguments.memory, arguments.force}));
  if (arguments.json) {
    nlohmann::ordered_json document = {{"name", arguments.name},
                                       {"dialect", arguments.dialect},
                                       {"memory", arguments.memory},
                                       {"folder", folder.string()}};
    document["files"] = nlohmann::ordered_json::array();
    for (const fs::path& path : written) document["files"].push_back(path.string());
    print_json(document);
    return 0;
  }
  const std::string prefix = prefix_to_tell();
  print_out(
      "wrote {} files into {}\n\n  cd {}\n  cmake --preset release{}\n  cmake --build --preset release\n"
      "  crucible plugin check build/release/libcrucible_{}.so\n",
      written.size(), folder.string(), folder.string(),
      prefix.empty() ? "" : fmt::format(" -DCMAKE_PREFIX_PATH={}", prefix), arguments.name);
  return 0;
}

}  // namespace crucible::cli
