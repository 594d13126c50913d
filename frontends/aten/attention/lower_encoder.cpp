// Lowering of the kernels that PyTorch's inference takes a whole layer of a transformer with: the layer, its attention,
// and tensors of sequences of different lengths, which stand in one buffer as rows one after the other.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <optional>

#include "core/graph/view.hpp"
#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/indexing/index_plan.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/normalization/normalization.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

/// x of [..., in] times the transposed weight [out, in], plus the bias.
Term linear(OpCall& c, const Term& x, const char* weight, const char* bias) {
  Emitter& e = c.emit();
  const Expression w = c.wide(weight);
  if (w.rank() != 2 || x.rank() < 1 || x.size(-1) != w.size(1)) {
    e.fail(fmt::format("argument {} does not fit what it is multiplied with", weight));
    return x;
  }
  const std::int64_t rows = w.size(1) == 0 ? 0 : x.elements() / w.size(1);
  const Expression wide = widened(e, e.reshape(x, {rows, w.size(1)}));
  const Expression product = e.matmul(wide, e.transpose(w, 0, 1)) + c.wide(bias);
  Sizes sizes = x.sizes();
  sizes.back() = w.size(0);
  return e.reshape(e.cast(product, x.dtype), sizes);
}

/// 1 is true in the mask where a key may not be seen; a query that sees none has NaN.
Expression masked_softmax(Emitter& e, const Term& scores, const std::optional<Term>& hidden, std::int64_t dim) {
  Term x = widened(e, scores);
  if (hidden) {
    const Expression mask = e.binary(OpKind::kNotEqual, *hidden, Term::integer(0));
    x = choose(mask, -std::numeric_limits<double>::infinity(), x);
  }
  const Expression powers = exp(x - e.max(x, {dim}));
  return e.cast(powers / e.sum(powers, {dim}), scores.dtype);
}

/// The mask as it broadcasts to [batch, heads, queries, keys]; its type says what its two dimensions are.
std::optional<Term> mask_of(OpCall& c) {
  if (!c.has("mask")) return std::nullopt;
  Emitter& e = c.emit();
  const Expression mask = c.tensor("mask");
  const std::int64_t type = c.has("mask_type") ? c.integer("mask_type") : 2;
  if (mask.rank() == 4) return mask;
  if (mask.rank() == 2 && type == 0) return e.reshape(mask, {1, 1, mask.size(0), mask.size(1)});
  if (mask.rank() == 2 && type == 1) return e.reshape(mask, {mask.size(0), 1, 1, mask.size(1)});
  e.fail(fmt::format("a mask with {} dimensions and of type {} is not supported", mask.rank(), type));
  return std::nullopt;
}

struct Heads {
  Term query, key, value;  // [batch, heads, rows, width]
};

/// Queries, keys and values with their biases, the queries scaled; `x` is [batch, rows, 3 * heads * width].
Heads heads_of(Emitter& e, const Term& x, std::int64_t heads) {
  const std::int64_t width = heads < 1 ? 0 : x.size(2) / 3 / heads;
  if (heads < 1 || x.size(2) != 3 * heads * width) {
    e.fail(fmt::format("{} heads do not divide {} numbers in three", heads, x.size(2)));
    return {x, x, x};
  }
  const Expression parts = e.permute(e.reshape(x, {x.size(0), x.size(1), 3, heads, width}), {2, 0, 3, 1, 4});
  const auto part = [&](std::int64_t i) { return e.drop(narrow(parts, 0, i, 1), {0}); };
  const Expression query = multiply(e, widened(e, part(0)), Term::number(1 / std::sqrt(static_cast<double>(width))));
  return {e.cast(query, x.dtype), part(1), part(2)};
}

struct Attended {
  Term output;   // [batch, rows, heads * width]
  Term weights;  // [batch, heads, rows, rows]
};

Attended attend_all(Emitter& e, const Heads& h, const std::optional<Term>& mask) {
  const DType dtype = h.query.dtype;
  const Expression scores = e.cast(e.matmul(widened(e, h.query), e.transpose(widened(e, h.key), -1, -2)), dtype);
  Attended result;
  result.weights = masked_softmax(e, scores, mask, -1);
  const Expression sum =
      e.permute(e.cast(e.matmul(widened(e, result.weights), widened(e, h.value)), dtype), {0, 2, 1, 3});
  result.output = e.reshape(sum, {sum.size(0), sum.size(1), sum.size(2) * sum.size(3)});
  return result;
}

/// Rows of `x` of one sequence after the other, of these lengths, each changed by itself.
Term each_sequence(Emitter& e, const Term& x, const std::vector<std::int64_t>& lengths,
                   const std::function<Term(const Term&)>& change) {
  std::vector<Term> done;
  std::int64_t start = 0;
  for (const std::int64_t length : lengths) {
    if (length > 0) done.push_back(e.drop(change(e.unsqueeze(narrow(x, 0, start, length), 0)), {0}));
    start += length;
  }
  return done.size() == 1 ? done[0] : e.concat(done, 0);
}

void bias_and_heads(OpCall& c) {
  Emitter& e = c.emit();
  if (c.is_nested("qkv")) return e.fail("heads of a tensor of tensors are not supported");
  const Expression x = c.wide("qkv");
  if (x.rank() != 3) return e.fail("argument qkv is not of three dimensions");
  const Heads h = heads_of(e, e.binary(OpKind::kAdd, x, c.wide("qkv_bias")), c.integer("num_heads"));
  c.set(0, h.query);
  c.set(1, h.key);
  c.set(2, h.value);
}

void masked_softmax_op(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self");
  Term mask = c.tensor("mask");
  const std::int64_t type = c.has("mask_type") ? c.integer("mask_type") : 2;
  const std::int64_t dim = c.has("dim") ? c.integer("dim") : -1;
  if (type == 1 && mask.rank() == 2 && x.rank() == 4) mask = e.reshape(mask, {mask.size(0), 1, 1, mask.size(1)});
  c.set(0, masked_softmax(e, x, mask, dim));
}

/// y (g - sum(g y)), 0 where the mask hid the element.
void masked_softmax_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Expression g = c.wide("grad_output"), y = c.wide("output");
  const Expression mask = c.tensor("mask") != 0;
  const Expression shown = choose(mask, e.fill(Term::number(0), {}, g.dtype), multiply(e, g, y));
  const Expression total = e.sum(shown, {c.has("dim") ? c.integer("dim") : -1});
  const Expression gradient = multiply(e, y, g - total);
  c.set(0, choose(mask, e.fill(Term::number(0), {}, g.dtype), gradient));
}

/// Attention of a sequence to itself; queries, keys and values are one tensor.
void attention(OpCall& c) {
  Emitter& e = c.emit();
  if (c.is_nested("query")) return e.fail("this attention of a tensor of tensors is not supported");
  const Expression x = c.tensor("query"), key = c.tensor("key"), value = c.tensor("value");
  const auto same = [&](const Term& other) {
    return other.operand.value == x.operand.value && other.operand.view == x.operand.view;
  };
  if (x.rank() != 3) return e.fail("argument query is not of three dimensions");
  Heads h;
  const std::int64_t heads = c.integer("num_head"), size = c.integer("embed_dim");
  if (same(key) && same(value)) {
    h = heads_of(e, linear(c, x, "qkv_weight", "qkv_bias"), heads);
  } else {  // a third of the weight for each
    const Expression weight = c.wide("qkv_weight"), bias = c.wide("qkv_bias");
    if (weight.rank() != 2 || weight.size(0) != 3 * size || heads < 1 || size % heads != 0)
      return e.fail("argument qkv_weight does not fit embed_dim");
    const auto third = [&](const Term& t, std::int64_t i) {
      const Term w = narrow(weight, 0, i * size, size);
      const Expression flat = e.reshape(widened(e, t), {t.size(0) * t.size(1), t.size(2)});
      Term rows = e.matmul(flat, e.transpose(w, 0, 1)) + narrow(bias, 0, i * size, size);
      if (i == 0) rows = multiply(e, rows, Term::number(1 / std::sqrt(static_cast<double>(size / heads))));
      return e.permute(e.reshape(e.cast(rows, x.dtype), {t.size(0), t.size(1), heads, size / heads}), {0, 2, 1, 3});
    };
    h = {third(x, 0), third(key, 1), third(value, 2)};
  }
  const auto mask = mask_of(c);
  if (!e.failure().empty()) return;
  const Attended a = attend_all(e, h, mask);
  c.set(0, linear(c, a.output, "proj_weight", "proj_bias"));
  if (!c.wants(1)) return;
  const bool averages = c.boolean("average_attn_weights");
  c.set(1, averages ? e.drop(e.mean(widened(e, a.weights), {1}), {1}) : a.weights);
}

class Layer {
 public:
  explicit Layer(OpCall& c) : c_(c), e_(c.emit()), epsilon_(c.real("eps")) {}

  /// The layer's result for x, of which `attend` makes the attention of [..., rows, 3 * size] without its last product.
  Term run(const Term& x, const std::function<Term(const Term&)>& attend) {
    const bool norm_first = c_.boolean("norm_first");
    const Term before = norm_first ? norm(x, "norm_weight_1", "norm_bias_1") : x;
    Term y = linear(c_, attend(linear(c_, before, "qkv_weight", "qkv_bias")), "proj_weight", "proj_bias");
    y = e_.binary(OpKind::kAdd, y, x);
    if (!norm_first) y = norm(y, "norm_weight_1", "norm_bias_1");
    Term z = linear(c_, norm_first ? norm(y, "norm_weight_2", "norm_bias_2") : y, "ffn_weight_1", "ffn_bias_1");
    z = linear(c_, activated(z), "ffn_weight_2", "ffn_bias_2");
    z = e_.binary(OpKind::kAdd, z, y);
    return norm_first ? z : norm(z, "norm_weight_2", "norm_bias_2");
  }

 private:
  Term norm(const Term& given, const char* weight, const char* bias) {
    const Term x = widened(e_, given);
    const Term mean = e_.mean(x, {-1}), centered = e_.binary(OpKind::kSubtract, x, mean);
    const Term variance = e_.mean(multiply(e_, centered, centered), {-1});
    const Term y = multiply(e_, normalized(e_, x, mean, inverse_deviation(e_, variance, epsilon_)),
                            widened(e_, c_.tensor(weight)));
    return e_.cast(e_.binary(OpKind::kAdd, y, widened(e_, c_.tensor(bias))), given.dtype);
  }

  Term activated(const Term& given) {
    const Expression x = widened(e_, given);
    if (!c_.boolean("use_gelu")) return e_.cast(e_.binary(OpKind::kMaximum, x, Term::integer(0)), given.dtype);
    const Term bell = e_.unary(OpKind::kErf, multiply(e_, x, Term::number(std::numbers::sqrt2 / 2)));
    return e_.cast(multiply(e_, multiply(e_, x, Term::number(0.5)), e_.binary(OpKind::kAdd, bell, Term::integer(1))),
                   given.dtype);
  }

  OpCall& c_;
  Emitter& e_;
  double epsilon_;
};

/// The lengths of sequences of rows of one width; a failure where they are something else.
std::vector<std::int64_t> lengths_of(Emitter& e, const std::vector<Sizes>& sizes, std::int64_t width) {
  std::vector<std::int64_t> lengths;
  for (const Sizes& one : sizes) {
    if (one.size() != 2 || one[1] != width) {
      e.fail("a tensor of tensors is not one of rows of the same width");
      return {};
    }
    lengths.push_back(one[0]);
  }
  if (std::ranges::all_of(lengths, [](std::int64_t length) { return length == 0; }))
    e.fail("a tensor of tensors without elements is not supported");
  return lengths;
}

void encoder_layer(OpCall& c) {
  Emitter& e = c.emit();
  const std::int64_t heads = c.integer("num_heads"), width = c.integer("embed_dim");
  if (!c.is_nested("src")) {
    const Expression x = c.tensor("src");
    if (x.rank() != 3) return e.fail("argument src is not of three dimensions");
    const auto mask = mask_of(c);
    if (!e.failure().empty()) return;
    return c.set(0,
                 Layer(c).run(x, [&](const Term& qkv) { return attend_all(e, heads_of(e, qkv, heads), mask).output; }));
  }
  if (c.has("mask")) return e.fail("a mask beside a tensor of tensors is not supported");
  const Nested nested = c.nested("src");
  const auto lengths = lengths_of(e, nested.sizes, width);
  if (!e.failure().empty()) return;
  const Expression rows = e.reshape(nested.buffer, {nested.buffer.elements() / width, width});
  const Term result = Layer(c).run(rows, [&](const Term& qkv) {
    return each_sequence(e, qkv, lengths,
                         [&](const Term& one) { return attend_all(e, heads_of(e, one, heads), std::nullopt).output; });
  });
  c.set_nested(0, e.reshape(result, {result.elements()}));
}

/// The first rows of each sequence, as many as the result has; the mask says the same, and the recording how many.
void nested_from_mask(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("t");
  if (x.rank() != 3) return e.fail("argument t is not of three dimensions");
  const auto lengths = lengths_of(e, c.nested_sizes(0), x.size(2));
  if (!e.failure().empty()) return;
  if (static_cast<std::int64_t>(lengths.size()) != x.size(0) ||
      std::ranges::any_of(lengths, [&](std::int64_t n) { return n > x.size(1); })) {
    return e.fail("the mask does not fit argument t");
  }
  std::vector<Term> rows;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] > 0)
      rows.push_back(narrow(e.drop(narrow(x, 0, static_cast<std::int64_t>(i), 1), {0}), 0, 0, lengths[i]));
  }
  const Term all = rows.size() == 1 ? rows[0] : e.concat(rows, 0);
  c.set_nested(0, e.reshape(all, {all.elements()}));
}

void padded(OpCall& c) {
  Emitter& e = c.emit();
  const double padding = c.real("padding");
  if (!c.is_nested("self")) return e.fail("padding of something that is no tensor of tensors is not supported");
  const Nested nested = c.nested("self");
  if (c.has("output_size")) c.integers("output_size");
  const Sizes& sizes = c.result(0).sizes;
  if (sizes.size() != nested.sizes[0].size() + 1 || sizes[0] != static_cast<std::int64_t>(nested.sizes.size())) {
    return e.fail("the padded tensor does not fit what it is made of");
  }
  Term result = e.fill(Term::number(padding), sizes, nested.buffer.dtype);
  std::int64_t start = 0;
  for (std::size_t i = 0; i < nested.sizes.size(); ++i) {
    const Sizes& one = nested.sizes[i];
    graph::View region = graph::View::contiguous(sizes);
    region.offset = static_cast<std::int64_t>(i) * region.strides[0];
    region.sizes.erase(region.sizes.begin());
    region.strides.erase(region.strides.begin());
    for (std::size_t d = 0; d < one.size(); ++d) {
      if (one[d] > region.sizes[d]) return e.fail("the padded tensor is smaller than what it is made of");
    }
    region.sizes = one;
    const std::int64_t elements = graph::View::contiguous(one).elements();
    if (elements > 0)
      result = updated(e, result, graph::normalized(region), e.reshape(narrow(nested.buffer, 0, start, elements), one));
    start += elements;
  }
  c.set(0, result);
}

constexpr Entry kEntries[] = {
    {"aten::_transformer_encoder_layer_fwd", encoder_layer},
    {"aten::_native_multi_head_attention", attention},
    {"aten::_transform_bias_rescale_qkv", bias_and_heads},
    {"aten::_masked_softmax", masked_softmax_op},
    {"aten::_masked_softmax_backward", masked_softmax_backward},
    {"aten::_nested_tensor_from_mask", nested_from_mask},
    {"aten::to_padded_tensor", padded},
};

}  // namespace

std::span<const Entry> encoder_entries() { return kEntries; }

}  // namespace crucible::aten
