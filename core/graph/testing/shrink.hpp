// Test support: makes a program that shows a failure as small as it gets, for people to read.
#pragma once

#include <functional>
#include <string>

#include "core/graph/random_program.hpp"

namespace crucible::graph {

/// Drops outputs, states and ops, replaces operands by inputs and by numbers, shrinks sizes and makes data plain, as
/// long as `fails` stays true; a candidate that verify() refuses or the interpreter cannot run is no candidate. What
/// comes back fails too, and no single step of these makes it smaller. `fails` must be true of `failing`.
RandomProgram shrink(RandomProgram failing, const std::function<bool(const RandomProgram&)>& fails);

/// The program's text, and the first elements of each value that enters from outside.
std::string with_data(const RandomProgram& random);

}  // namespace crucible::graph
