// Standard output as a command's result: it is written whole, or the command ends with an error. A full disk, a file
// size limit and a reader that has gone away are seen here, for every command at once.
#pragma once

#include <optional>
#include <system_error>

namespace crucible::cli {

/// Before anything else in main(): a file size limit then fails a write instead of ending the process, and files that
/// are opened later do not get the number of a standard stream that the caller has closed.
void prepare_standard_streams();

/// Writes out what is buffered. `thrown` is what print_text (core/base/terminal.hpp) threw, if they did. Returns `code`
/// when everything was written; else tells standard error why and returns the exit code for it. A closed pipe is the
/// usual end of `| head`: it is not told.
int end_standard_output(int code, const std::optional<std::error_code>& thrown);

}  // namespace crucible::cli
