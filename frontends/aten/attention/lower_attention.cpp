// Lowering of scaled dot-product attention under the names of its kernels: the CPU's, flash, memory-efficient, cuDNN's,
// and the composed one. All mean attention.hpp; what a kernel saves for its backward pass is re-derived here, so random
// states and padded logarithms of one kernel fit another's. Dropout's masks are drawn again: dropout_mask.hpp.
#include <fmt/format.h>

#include <cmath>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/attention/attention.hpp"
#include "frontends/aten/attention/dropout_mask.hpp"
#include "frontends/aten/indexing/index_plan.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

constexpr std::string_view kMathInstead =
    "record with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH), whose masks are results of an op";

double dropout_of(OpCall& c) { return c.has("dropout_p") ? c.real("dropout_p") : 0; }

/// Which scores dropout keeps, where the op has any. A backward pass is given seed and offset as arguments.
void draw_mask(OpCall& c, Attention& a) {
  const double p = dropout_of(c);
  if (p == 0) return;
  Emitter& e = c.emit();
  const auto fail = [&](std::string_view why) {
    e.fail(fmt::format("attention with dropout draws its mask inside the kernel, {}: {}", why, kMathInstead));
  };
  const bool is_flash = c.entry_name().find("flash_attention") != std::string_view::npos;
  const bool is_efficient = c.entry_name().find("efficient_attention") != std::string_view::npos;
  if (!is_flash && !is_efficient) return fail("and how this one does is not public");
  if (c.is_of_rocm()) return fail("and how those for AMD's devices do is not known here");
  if (p < 0 || p >= 1) return fail("and keeps none where dropout_p is 1");
  const bool is_backward = c.has("grad_out") || c.has("grad_out_");
  DropoutSeed drawn;
  if (is_flash) {  // one tensor of two
    std::optional<Term> state;
    for (const char* name : {"rng_state", "philox_seed"}) {
      if (!state) state = is_backward ? c.state_behind(name) : c.drawn_state(name, 2);
    }
    if (!state) return fail("and its seed is not in the recording");
    drawn = {narrow(*state, 0, 0, 1), narrow(*state, 0, 1, 1)};
  } else {
    const auto state = [&](const char* name, std::size_t k) -> std::optional<Term> {
      if (!is_backward) {
        const std::optional<Term> found = c.drawn_state(name, 1);
        if (found && c.wants(k)) c.set(k, e.reshape(*found, c.result(k).sizes));
        return found;
      }
      const std::optional<Term> found = c.state_behind(name);
      return found ? found : Term(e.reshape(c.tensor(name), {1}));  // copied in between
    };
    const std::optional<Term> seed = state("philox_seed", 2), offset = state("philox_offset", 3);
    if (!seed || !offset) return fail("and its seed is not in the recording");
    drawn = {*seed, *offset};
  }
  c.refuse_composite();
  a.kept_scale = 1.0 / (1.0 - p);
  const Sizes sizes{a.query.size(0), a.query.size(1), a.query.size(2), a.key.size(2)};
  a.kept = kept_scores(e, is_flash ? MaskLayout::kFlash : MaskLayout::kEfficient, drawn, p, sizes);
}

bool refuse(OpCall& c) {
  for (const char* name : {"seqused_k", "alibi_slopes", "seqlen_k", "block_table"}) {
    if (c.has(name)) c.emit().fail(std::string("attention with ") + name + " is not supported");
  }
  for (const char* name : {"cum_seq_q", "cu_seqlens_q"}) {
    const bool backward = c.has("grad_out") || c.has("grad_out_");
    if (!backward && c.has(name)) c.emit().fail("attention over sequences of different lengths is not supported");
  }
  for (const char* name : {"max_q", "max_k", "max_seqlen_q", "max_seqlen_k", "num_splits_key", "num_splits"}) {
    if (c.has(name)) c.integer(name);
  }
  return !c.emit().failure().empty();
}

/// Sizes of one kind of window: -1 and None are no limit.
std::optional<std::int64_t> limit(OpCall& c, const char* name) {
  if (!c.has(name)) return std::nullopt;
  const auto size = c.integer(name);
  return size < 0 ? std::nullopt : std::optional(size);
}

/// True where tensors are [batch, rows, heads, width] rather than [batch, heads, rows, width].
bool rows_first(const OpCall& c) {
  return c.entry_name().starts_with("aten::_flash_attention") || c.entry_name().starts_with("aten::_efficient");
}

/// To [batch, heads, rows, width] or back.
Term heads_first(OpCall& c, const Term& x) { return rows_first(c) ? c.emit().transpose(x, 1, 2) : x; }

/// Query, key and value with scale, mask and causality, as the op's arguments give them.
Attention attention_of(OpCall& c) {
  Attention a;
  a.query = heads_first(c, c.tensor("query"));
  a.key = heads_first(c, c.tensor("key"));
  a.value = heads_first(c, c.tensor("value"));
  a.scale = c.has("scale") ? c.real("scale") : 1.0 / std::sqrt(static_cast<double>(a.query.size(-1)));
  for (const char* name : {"attn_mask", "attn_bias", "bias"}) {
    if (c.has(name)) a.mask = c.tensor(name);
  }
  const std::int64_t surplus = a.key.size(-2) - a.query.size(-2);
  if (c.has("is_causal") && c.boolean("is_causal")) {
    a.right = 0;
    if (rows_first(c)) a.shift = surplus;  // flash aligns the last query with the last key
  }
  if (c.has("custom_mask_type")) {  // 1: causal from the first query and key, 2: from the last
    const auto type = c.integer("custom_mask_type");
    if (type != 0) a.right = 0;
    if (type == 2) a.shift = surplus;
    if (limit(c, "window_size")) c.emit().fail("memory-efficient attention with a window is not supported");
  }
  if (c.has("window_size_left") || c.has("window_size_right")) {
    a.shift = surplus;
    a.left = limit(c, "window_size_left");
    if (!a.right) a.right = limit(c, "window_size_right");
  }
  if (c.emit().failure().empty()) draw_mask(c, a);
  if (rows_first(c)) c.turn_results({"output", "grad_query", "grad_key", "grad_value"});
  c.role("query", a.query);
  c.role("key", a.key);
  c.role("value", a.value);
  for (const graph::CompositeAttribute& attribute : attributes_of(a)) {
    const graph::Scalar& number = attribute.numbers[0];
    c.note(attribute.name, number.is_integer ? static_cast<double>(number.integer) : number.real, number.is_integer);
  }
  return a;
}

/// [b, h, q] as the kernel keeps it: with a last dimension of 1, behind rows of padding, or not at all.
void set_log_sum(OpCall& c, const Term& log_sum) {
  if (!c.wants(1)) return;
  Emitter& e = c.emit();
  const Sizes& kept = c.result(1).sizes;
  const auto elements = graph::View::contiguous(kept).elements();
  if (elements == 0 && log_sum.elements() != 0) return c.set(1, Term::number(0));
  if (kept.size() == 4 && kept[3] == 1) return c.set(1, e.unsqueeze(log_sum, -1));
  if (kept.size() == 3 && kept[2] > log_sum.size(2)) {
    const Expression rest = e.fill(Term::number(std::numeric_limits<double>::infinity()),
                                   {kept[0], kept[1], kept[2] - log_sum.size(2)}, log_sum.dtype);
    return c.set(1, e.concat({log_sum, rest}, 2));
  }
  c.set(1, log_sum);
}

void attention(OpCall& c) {
  if (refuse(c)) return;
  const Attention a = attention_of(c);
  if (!c.emit().failure().empty()) return;
  const AttentionResult result = attend(c.emit(), a);
  c.set(0, heads_first(c, result.output));
  set_log_sum(c, result.log_sum);
}

/// x summed over what it was broadcast to from `sizes`.
Term summed_to(Emitter& e, const Term& x, const Sizes& sizes) {
  std::vector<std::int64_t> dims, leading;
  const auto extra = x.rank() - static_cast<std::int64_t>(sizes.size());
  for (std::int64_t d = 0; d < x.rank(); ++d) {
    if (d < extra) leading.push_back(d);
    if (d < extra || (sizes[static_cast<std::size_t>(d - extra)] == 1 && x.size(d) != 1)) dims.push_back(d);
  }
  return dims.empty() ? x : e.drop(e.sum(x, dims), leading);
}

void attention_backward(OpCall& c) {
  if (refuse(c)) return;
  Emitter& e = c.emit();
  const Attention a = attention_of(c);
  if (!e.failure().empty()) return;
  const Term g = heads_first(c, c.tensor(c.has("grad_out_") ? "grad_out_" : "grad_out"));
  const Term out = heads_first(c, c.tensor("out"));
  c.role("grad_out", g);
  c.role("out", out);
  const auto gradient = attend_backward(e, a, g, out);
  c.set(0, heads_first(c, gradient.query));
  c.set(1, heads_first(c, gradient.key));
  c.set(2, heads_first(c, gradient.value));
  const bool masked = a.mask && a.mask->dtype != DType::kBool;
  if (c.wants(3) && masked) c.set(3, summed_to(e, gradient.mask, c.result(3).sizes));
}

/// The composed form keeps the probabilities as its second result; more dimensions than four are batches.
void attention_math(OpCall& c) {
  if (refuse(c)) return;
  Emitter& e = c.emit();
  if (c.has("dropout_mask")) return e.fail("attention with a mask of its caller for dropout is not supported");
  Attention a = attention_of(c);
  if (a.query.rank() != 4) return e.fail("composed attention needs 4 dimensions");
  if (!e.failure().empty()) return;
  const AttentionResult result = attend(e, a);
  c.set(0, result.output);
  c.set(1, result.probabilities);
}

constexpr Entry kEntries[] = {
    {"aten::_scaled_dot_product_flash_attention_for_cpu", attention},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", attention_backward},
    {"aten::_scaled_dot_product_flash_attention", attention},
    {"aten::_scaled_dot_product_flash_attention_backward", attention_backward},
    {"aten::_scaled_dot_product_efficient_attention", attention},
    {"aten::_scaled_dot_product_efficient_attention_backward", attention_backward},
    {"aten::_scaled_dot_product_cudnn_attention", attention},
    {"aten::_scaled_dot_product_cudnn_attention_backward", attention_backward},
    {"aten::_scaled_dot_product_fused_attention_overrideable", attention},
    {"aten::_scaled_dot_product_fused_attention_overrideable_backward", attention_backward},
    {"aten::_cudnn_attention_forward", attention},
    {"aten::_cudnn_attention_backward", attention_backward},
    {"aten::_flash_attention_forward", attention},
    {"aten::_flash_attention_backward", attention_backward},
    {"aten::_efficient_attention_forward", attention},
    {"aten::_efficient_attention_backward", attention_backward},
    {"aten::_scaled_dot_product_attention_math", attention_math},
    {"aten::_scaled_dot_product_attention_math_for_mps", attention_math},
};

}  // namespace

std::span<const Entry> attention_entries() { return kEntries; }

}  // namespace crucible::aten
