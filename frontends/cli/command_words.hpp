// A command as one line of text and as words, as a POSIX shell without variables, patterns and operators reads it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace crucible::cli {

/// The words with spaces between them, quoted where a shell would read them as something else: words_of() gives them
/// back.
std::string line_of(const std::vector<std::string>& words);

/// Words between blanks; single and double quotes and backslashes as in a shell, everything else as it stands.
/// Errors: kUsage for a quote that is not closed.
Result<std::vector<std::string>> words_of(std::string_view line);

}  // namespace crucible::cli
