// The masks of attention with dropout, drawn again. The kernels of devices give back a seed and an offset and no mask;
// which random bits a score gets of them is public for two of them: the memory-efficient kernel and flash attention 2.
#pragma once

#include "frontends/aten/algebra/emitter.hpp"

namespace crucible::aten {

/// Which kernel's way to number the scores.
enum class MaskLayout { kEfficient, kFlash };

/// What a kernel started from: tensors of one element, i64.
struct DropoutSeed {
  Term seed, offset;
};

/// The random words of Philox 4x32: four of i64, each within 32 bits, of the shape that the counter's words broadcast
/// to.
/// Source: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11.
std::vector<Expression> philox(Emitter& e, const std::vector<Expression>& counter, const Term& seed, int rounds);

/// Which scores are kept: bool, [batch, heads, queries, keys]. Shapes: `sizes` has these four.
Expression kept_scores(Emitter& e, MaskLayout layout, const DropoutSeed& drawn, double dropout_p, const Sizes& sizes);

/// The least of 2^32 whole numbers that the memory-efficient kernel keeps: it makes them floats in (0, 1] and keeps
/// those above `dropout_p`. 2^32 where it keeps none.
std::int64_t least_kept(double dropout_p);

}  // namespace crucible::aten
