// Runs programs on the plugin under test and compares with the float64 reference interpreter.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/kernel/schedule.hpp"
#include "plugins/conformance/opened.hpp"
#include "plugins/conformance/ops_programs.hpp"

namespace crucible::conformance {

/// Schedules all programs, compiles their kernels in one call, runs each with every value in a buffer of its own
/// between guard bytes, and compares. One text per program that differs. `with_library`: calls that the plugin claims
/// go to its library, those of one kind where `kind` says so. `library_calls` counts them.
std::vector<std::string> run_programs(Opened& opened, const std::vector<OpsProgram>& programs, bool with_library,
                                      std::size_t* library_calls = nullptr,
                                      std::optional<kernel::LibraryKind> kind = std::nullopt);

}  // namespace crucible::conformance
