// Random programs of one op, made from the table of what must hold of it (op_rules.hpp): some keep all of it, some
// break a line of it.
#pragma once

#include <cstdint>

#include "core/graph/program.hpp"
#include "core/graph/rule_language.hpp"

namespace crucible::graph {

/// One op of a neutral kind, its operands inputs or numbers, nothing else. `line`: the kind's rule, read. Every eighth
/// seed gives tensors without elements beside extents of 2^40. Tensors of many elements show one.
Program one_op(OpKind kind, const ReadRule& line, std::uint64_t seed);

}  // namespace crucible::graph
