// Whether a command reads a stranger's file behind a wall, and the process that does: docs/sandbox.md.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "frontends/replay/open_device.hpp"

namespace crucible::cli {

using namespace replay;

/// What a command is about to do with a file.
struct SandboxedWork {
  std::string file;                             // a recording, or a capsule
  std::vector<std::filesystem::path> outputs;  // files that it writes; "" and what is a stream's name are passed over
};

/// Where the configuration wants a sandbox for this file: makes a child process, shuts it in (confine.hpp) and waits
/// for it. In the child it returns nothing, and the command goes on there; in the parent the child's exit code. Without
/// a sandbox it returns nothing. Call it before anything of the file is read and while the process has one thread; what
/// the system does not offer is said on standard error. Errors: kBadInput when the child was ended by a signal or by
/// the limit on time; kUnavailable when there can be no child.
Result<std::optional<int>> enter_sandbox(const DeviceChoice& choice, const SandboxedWork& work);

}  // namespace crucible::cli
