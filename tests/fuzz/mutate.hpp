// Changes of a program and its blobs, field by field, by the types that the writers have.
#pragma once

#include <string>

#include "core/trace/trace.hpp"
#include "tests/fuzz/recorded.hpp"

namespace crucible::fuzz {

/// One field becomes something else, whether or not the program still makes sense. The field's name.
std::string break_field(Recorded& recorded, Draw& draw);

/// Several fields that belong together become something else: the program often stays valid and is an unusual one. What
/// was done.
std::string bend(Recorded& recorded, Draw& draw);

/// One field of a recording. Its name.
std::string break_field(trace::Trace& trace, Draw& draw);

}  // namespace crucible::fuzz
