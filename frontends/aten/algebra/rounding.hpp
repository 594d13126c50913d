// Where results of f16 and bf16 are rounded: once per ATen op, as the framework's kernels do, which compute in f32
// (`opmath`) and round what they store. A lowering that rounds in the middle gives 2048 for 2048 + 1 + 1.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "frontends/aten/algebra/emitter.hpp"

namespace crucible::aten {

/// The result of a product or a convolution in what it is summed in: of f16 and bf16 the f32 before its rounding, for
/// ops that go on computing with it. `product` is what the last op made, which nothing has read; other dtypes are as
/// they are.
Term unrounded(Emitter& e, const Term& product);

/// A value of f16 or bf16 that a lowering rounds and then computes with, though both belong to one recorded op.
struct MiddleRounding {
  std::uint32_t source = 0;            // of the program
  graph::OpId rounds = 0, reads = 0;   // the op that rounds and the one that computes with what it gave
};

/// All of a program that the lowering made and no pass has changed, without composites; one for each op that reads, in
/// order. Reads by what only moves elements (copies of the same dtype, concatenations, lookups) count where their
/// results are computed with.
std::vector<MiddleRounding> middle_roundings(const graph::Program& program);

/// The recorded ops, as sources of such a program, that round something on the way to a value, its own among them. Of
/// one a result is off by half a unit at most; of several, each of which may round to the other side than the framework
/// does, by as much as the later ones make of that.
std::set<std::uint32_t> rounding_ops(const graph::Program& program, graph::ValueId value);

}  // namespace crucible::aten
