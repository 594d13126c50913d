// What the commands about plugins share: the record of decisions that the user asked for, and one line of a long reason.
#pragma once

#include <string>

#include "core/base/result.hpp"
#include "plugins/loader/decision.hpp"

namespace crucible::cli {

/// Appends every decision of `log` from now on to `file`, one line of JSON each; "" does nothing.
/// Errors: kUsage when the file cannot be written.
Result<void> write_decisions(backend::DecisionLog& log, const std::string& file);

/// The first line of a reason.
std::string first_line(const std::string& reason);

}  // namespace crucible::cli
