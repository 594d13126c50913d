// What the commands about plugins share: the record of decisions that the user asked for, and one line of a long
// reason.
#pragma once

#include <filesystem>
#include <string>

#include "core/base/result.hpp"
#include "plugins/loader/decision.hpp"

namespace crucible::cli {

/// Appends every decision of `log` from now on to `file`, one line of JSON each; "" does nothing.
/// Errors: kUsage when the file cannot be written.
Result<void> write_decisions(backend::DecisionLog& log, const std::string& file);

/// A reason on one line, without the path of the plugin that stands beside it anyway.
std::string short_reason(const std::string& reason, const std::filesystem::path& plugin);

}  // namespace crucible::cli
