// Lowering of the rarer products of vectors and matrices: outer, cross and trilinear ones, and products added to a
// tensor.
#include <cmath>
#include <numbers>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/algebra/rounding.hpp"
#include "frontends/aten/indexing/index_plan.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

/// beta self + alpha product, in the precision of f32 or better; beta = 0 ignores self altogether, NaN included.
Term added(OpCall& c, const Term& product) {
  Emitter& e = c.emit();
  const Expression alpha = c.operand("alpha"), beta = c.operand("beta"), wide = widened(e, product);
  const Expression right = is_fixed(alpha, 1) ? wide : multiply(e, wide, alpha);
  if (is_fixed(beta, 0)) return e.expand(right, c.result(0).sizes);
  const Expression self = c.wide("self");
  return (is_fixed(beta, 1) ? self : multiply(e, self, beta)) + right;
}

/// The sum over a batch of products.
void addbmm(OpCall& c) {
  Emitter& e = c.emit();
  const Term products = unrounded(e, e.matmul(c.tensor("batch1"), c.tensor("batch2")));
  c.set(0, added(c, e.drop(e.sum(products, {0}), {0})));
}

void addmv(OpCall& c) {
  Emitter& e = c.emit();
  const Expression column = e.unsqueeze(c.tensor("vec"), -1);
  c.set(0, added(c, e.drop(unrounded(e, e.matmul(c.tensor("mat"), column)), {-1})));
}

/// The outer product; of bools and, or.
void addr(OpCall& c) {
  Emitter& e = c.emit();
  const Expression column = e.unsqueeze(c.tensor("vec1"), -1), row = e.unsqueeze(c.tensor("vec2"), 0);
  if (c.result(0).dtype != DType::kBool) {
    return c.set(0, added(c, widened(e, column) * widened(e, row)));
  }
  const bool takes_product = e.number_values(c.operand("alpha"))[0].real() != 0;
  const bool takes_self = e.number_values(c.operand("beta"))[0].real() != 0;
  const Expression product = (column && row) && e.fill(Term::integer(takes_product ? 1 : 0), {}, DType::kBool);
  c.set(0, takes_self ? c.tensor("self") || product : product);
}

void vdot(OpCall& c) {
  Emitter& e = c.emit();
  const Expression product = e.matmul(e.unsqueeze(c.tensor("self"), 0), e.unsqueeze(c.tensor("other"), 1));
  c.set(0, e.drop(product, {0, 1}));
}

/// Component i is a[i + 1] b[i + 2] - a[i + 2] b[i + 1], counted around three.
void cross(OpCall& c) {
  Emitter& e = c.emit();
  const Sizes& sizes = c.result(0).sizes;
  const std::int64_t dim = wrap_dim(c.integer("dim"), static_cast<std::int64_t>(sizes.size()));
  const Expression a(e, e.expand(c.wide("self"), sizes)), b(e, e.expand(c.wide("other"), sizes));
  const auto part = [&](const Expression& x, int i) { return Expression(e, narrow(x, dim, i % 3, 1)); };
  std::vector<Term> parts;
  for (int i = 0; i < 3; ++i) {
    parts.push_back(part(a, i + 1) * part(b, i + 2) - part(a, i + 2) * part(b, i + 1));
  }
  c.set(0, e.concat(parts, dim));
}

/// The sum over some dimensions of a product of three, each with dimensions of size 1 put in.
void trilinear(OpCall& c) {
  Emitter& e = c.emit();
  const auto expanded = [&](const char* name, const char* dims) {
    Term x = c.wide(name);
    for (const auto dim : c.integers(dims)) x = e.unsqueeze(x, dim);
    return Expression(e, x);
  };
  c.integer("unroll_dim");
  const Expression product = expanded("i1", "expand1") * expanded("i2", "expand2") * expanded("i3", "expand3");
  const auto dims = c.integers("sumdim");
  c.set(0, dims.empty() ? product : e.drop(e.sum(product, dims), dims));
}

/// The product in the dtype of its result, which is wider than that of its factors.
void wide_product(OpCall& c) {
  Emitter& e = c.emit();
  c.set(0, unrounded(e, e.matmul(c.tensor("self"), c.tensor("mat2"))));
}

void add_wide_product(OpCall& c) {
  Emitter& e = c.emit();
  const bool is_batch = c.has("batch1");
  c.set(0, added(c, unrounded(
                        e, e.matmul(c.tensor(is_batch ? "batch1" : "mat1"), c.tensor(is_batch ? "batch2" : "mat2")))));
}

/// addmm and what follows it in one kernel. `use_gelu`: libraries of devices have its approximation by tanh, the
/// processor's kernel the function itself.
void activated_product(OpCall& c) {
  Emitter& e = c.emit();
  const Expression sum(e, added(c, unrounded(e, e.matmul(c.tensor("mat1"), c.tensor("mat2")))));
  if (!c.boolean("use_gelu")) return c.set(0, larger(sum, 0));
  if (c.is_of_processor(0)) {
    const Expression x = e.cast(sum, c.result(0).dtype).cast(sum.dtype);  // two kernels: it rounds in between
    return c.set(0, x * 0.5 * ((x * (0.5 * std::numbers::sqrt2)).unary(OpKind::kErf) + 1.0));
  }
  const Expression inner = (sum + sum * sum * sum * 0.044715) * std::sqrt(2 / std::numbers::pi);
  c.set(0, sum * 0.5 * (hyperbolic_tangent(inner) + 1.0));
}

void integer_product(OpCall& c) {
  Emitter& e = c.emit();
  c.set(0, e.matmul(e.cast(c.tensor("self"), DType::kI32), e.cast(c.tensor("mat2"), DType::kI32)));
}

/// A convolution over time of [time, batch, channels] with weights [steps, channels, channels of the result].
void convolution_over_time(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self"), weight = c.tensor("weight");
  const Sizes& sizes = c.result(0).sizes;
  const std::int64_t pad = c.integer("pad"), steps = weight.size(0);
  if (x.rank() != 3 || weight.rank() != 3 || sizes.size() != 3) return e.fail("conv_tbc needs three dimensions");
  if (pad < 0 || pad > x.size(0) + steps || sizes[0] != x.size(0) + 2 * pad - steps + 1)
    return e.fail("the padding of conv_tbc does not fit its result");
  Expression padded = x;
  if (pad > 0) {
    const Term zeros = e.fill(Term::integer(0), {pad, x.size(1), x.size(2)}, x.dtype);
    padded = e.concat({zeros, x, zeros}, 0);
  }
  Expression sum = c.wide("bias");
  for (std::int64_t k = 0; k < steps; ++k) {
    const Term taken = narrow(padded, 0, k, sizes[0]), factor = e.drop(narrow(weight, 0, k, 1), {0});
    sum = sum + Expression(e, unrounded(e, e.matmul(taken, factor)));
  }
  c.set(0, e.expand(sum, sizes));
}

constexpr Entry kEntries[] = {
    {"aten::mm.dtype", wide_product},
    {"aten::bmm.dtype", wide_product},
    {"aten::addmm.dtype", add_wide_product},
    {"aten::baddbmm.dtype", add_wide_product},
    {"aten::_addmm_activation", activated_product},
    {"aten::_int_mm", integer_product},
    {"aten::conv_tbc", convolution_over_time},
    {"aten::addbmm", addbmm},
    {"aten::addmv", addmv},
    {"aten::addr", addr},
    {"aten::vdot", vdot},
    {"aten::linalg_cross", cross},
    {"aten::_trilinear", trilinear},
};

}  // namespace

std::span<const Entry> product_entries() { return kEntries; }

}  // namespace crucible::aten
