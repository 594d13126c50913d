#include "frontends/cli/python_folder.hpp"

#include <fmt/format.h>

namespace crucible::cli {

Result<std::filesystem::path> python_folder() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  for (const fs::path& folder :
       {executable.parent_path() / "python", executable.parent_path().parent_path() / "lib/crucible/python"}) {
    if (fs::exists(folder / "start/sitecustomize.py", error)) return folder;
  }
  return Error{ErrorCode::kUnavailable,
               fmt::format("the recorder is not there: it is neither in {0}/python, where a build has it, nor in "
                           "{1}/lib/crucible/python, where an installation has it; build Crucible with CRUCIBLE_PYTHON "
                           "set to a Python that has torch, and install that",
                           executable.parent_path().string(), executable.parent_path().parent_path().string())};
}

}  // namespace crucible::cli
