// Programs from their text form: the way back from to_text() of program.hpp.
#pragma once

#include <string_view>

#include "core/base/result.hpp"
#include "core/graph/program.hpp"

namespace crucible::graph {

/// The program whose to_text() is `text`: of a program that verify() accepts every field comes back, doubles to the
/// bit. Blanks between words do not count, what stands behind ';' is for people, empty lines are passed over. Blob
/// numbers mean those of the recording that the text was made from. Errors: kBadInput with line and column, what was
/// expected there and what stands there, or with the rule of verify() that the program breaks.
Result<Program> parse_program(std::string_view text);

}  // namespace crucible::graph
