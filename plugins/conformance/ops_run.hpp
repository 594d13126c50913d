// Runs programs on the plugin under test and compares with the float64 reference interpreter.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/kernel/schedule.hpp"
#include "plugins/conformance/opened.hpp"
#include "plugins/conformance/ops_programs.hpp"

namespace crucible::conformance {

/// Schedules all programs, compiles their kernels in one call, runs each with every value in a buffer of its own
/// between guard bytes, and compares. One text per program that differs. `with_library`: calls that the plugin claims
/// go to its library, of those that `may_go` says so of (null: all). `library_calls` counts them.
std::vector<std::string> run_programs(Opened& opened, const std::vector<OpsProgram>& programs, bool with_library,
                                      std::size_t* library_calls = nullptr,
                                      const std::function<bool(const kernel::LibraryCall&)>& may_go = nullptr);

/// Whether the plugin's library takes the call.
bool is_claimed(Opened& opened, const kernel::LibraryCall& call);

}  // namespace crucible::conformance
