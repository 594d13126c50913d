#include "frontends/cli/temporary_folder.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

namespace crucible::cli {

namespace fs = std::filesystem;

Result<TemporaryFolder> TemporaryFolder::create() {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  std::string pattern = ((error ? fs::path("/tmp") : parent) / "crucible-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("cannot create a folder like {}: {}; set TMPDIR to a folder that you may write to",
                             pattern, std::strerror(errno))};
  }
  return TemporaryFolder(pattern);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace crucible::cli
