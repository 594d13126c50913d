// Where our Python packages are, for commands that start a program with them in front of its own.
#pragma once

#include <filesystem>

#include "core/base/result.hpp"

namespace crucible::cli {

/// The folder with `start/` and `crucible_torch/`: beside the executable in a build tree, under lib/ when installed.
/// Errors: kUnavailable where this build has none.
Result<std::filesystem::path> python_folder();

}  // namespace crucible::cli
