// Attention that the framework composed of single ops (its `math` kernel), in the program that was lowered from them.
#pragma once

#include <vector>

#include "core/graph/outline.hpp"
#include "core/graph/program.hpp"

namespace crucible::aten {

/// Replaces each attention of that form, and its gradient where it stands, by the ops of attention.hpp: one program
/// whichever kernel the framework chose. Recognized are f32 and f64, four dimensions, query and keys multiplied with
/// the root of the scale each, no mask, an added one or the causal one, and no dropout; whatever else reads the
/// probabilities leaves the attention as it is. What nobody reads afterwards stays for the passes to remove. The
/// program must pass verify(), and does so afterwards. `outlines` (null: none) are given places in the new program, and
/// what was found as composites. Returns how many were replaced.
int recognize_composed_attention(graph::Program& program, std::vector<graph::Outline>* outlines = nullptr);

}  // namespace crucible::aten
