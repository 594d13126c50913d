// Settings and the name of a case as the one argument of a child process.
#pragma once

#include <string>

#include "core/base/result.hpp"
#include "plugins/conformance/case.hpp"

namespace crucible::conformance {

std::string child_argument(const Settings& settings, const std::string& case_name);

struct ChildTask {
  Settings settings;
  std::string case_name;
};

/// Errors: kUsage when the text is not what child_argument() makes.
Result<ChildTask> parse_child_argument(const std::string& text);

}  // namespace crucible::conformance
