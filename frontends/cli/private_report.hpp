// `crucible trace info FILE --private`: what a recording tells of its maker, as a table or as JSON.
#pragma once

#include <string>

#include "core/trace/trace.hpp"
#include "frontends/cli/command.hpp"

namespace crucible::cli {

/// Prints it. Errors: kBadInput when the file's mode cannot be read.
Result<int> print_private(const std::string& file, const trace::Trace& trace, bool json);

}  // namespace crucible::cli
