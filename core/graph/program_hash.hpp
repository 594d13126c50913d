// The identity of a program: equal hashes mean the same computation. It covers ops, wiring, views, attributes, dtypes,
// shapes, fixed numbers, the content of constants, and which values are states, inputs and outputs; not names, sources,
// blob numbers, the recorded numbers of slots, how many iterations were recorded, nor the order of independent ops.
#pragma once

#include <span>
#include <vector>

#include "core/base/hash.hpp"
#include "core/graph/program.hpp"

namespace crucible::graph {

/// The program's ops in an order that does not depend on the order or the numbers that they have in it: definitions
/// before uses, else by what each op computes and what becomes of its results. Ops that these do not tell apart keep
/// their order. Units: indices in Program::ops. Cost: linear but for one sort.
/// `constants` has the content hash of each blob number that Program::constants names.
std::vector<OpId> canonical_order(const Program& program, std::span<const ContentHash> constants);

/// SHA-256 over the program in canonical order. Two programs of one hash compute the same; one computation may have two
/// hashes where it is symmetric in a way that canonical_order() does not see through. Threads: any.
/// `constants`: as above; a blob number beyond it counts as unknown content, and two unknowns as equal.
ContentHash program_hash(const Program& program, std::span<const ContentHash> constants);

}  // namespace crucible::graph
