// Scaled dot-product attention as the program computes it, whatever kernel the framework chose: scores, a mask by
// coordinates and by an argument, a softmax over the keys. The gradient states the probabilities anew from scores, so
// that it depends on nothing that a kernel saved in a form of its own.
#pragma once

#include <limits>
#include <optional>

#include "core/graph/composite.hpp"
#include "frontends/aten/algebra/emitter.hpp"

namespace crucible::aten {

struct Attention {
  Term query, key, value;  // [batch, heads, rows, width]; key and value may have fewer heads, each shared by neighbours
  std::optional<Term> mask;  // broadcasts to [batch, heads, queries, keys]: bool (true may be seen) or added to scores
  double scale = 1;
  // Query i sees key j when i + shift - left <= j <= i + shift + right; nothing: no limit on that side.
  std::optional<std::int64_t> left, right;
  std::int64_t shift = 0;
  std::optional<Term> kept;  // of dropout: bool, [batch, heads, queries, keys]; the others' probabilities become 0
  double kept_scale = 1;     // what probabilities that are kept are multiplied by
};

struct AttentionResult {
  Term output;         // [batch, heads, queries, width of value]
  Term log_sum;        // [batch, heads, queries], f32 or better; 0 where a query sees no key
  Term probabilities;  // [batch, heads, queries, keys]; zeros where a query sees no key
};

struct AttentionGradient {
  Term query, key, value;
  Term mask;  // of an added mask, before it was broadcast: [batch, heads, queries, keys]
};

/// What a composite attention is told: the scale, and the limits that there are ("causal" for a right one of 0).
std::vector<graph::CompositeAttribute> attributes_of(const Attention& a);

/// Scores, the softmax and sums are in f32 or better. As in the framework's fused kernels, exp(score - largest) is
/// rounded to the values' dtype for the product, which is divided by the sum afterwards.
AttentionResult attend(Emitter& e, const Attention& a);

/// `output` is that of attend(); `gradient` is that of the output.
AttentionGradient attend_backward(Emitter& e, const Attention& a, const Term& gradient, const Term& output);

}  // namespace crucible::aten
