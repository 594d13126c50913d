// Lowering of the rarer products of vectors and matrices: outer, cross and trilinear ones, and products added to a
// tensor.
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

constexpr Entry kEntries[] = {
    {"aten::addbmm", addbmm}, {"aten::addmv", addmv},         {"aten::addr", addr},
    {"aten::vdot", vdot},     {"aten::linalg_cross", cross}, {"aten::_trilinear", trilinear},
};

}  // namespace

std::span<const Entry> product_entries() { return kEntries; }

}  // namespace crucible::aten
