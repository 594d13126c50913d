// Lowering of reductions and matrix products.
#include <numeric>

#include "frontends/aten/formulas.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;
using Dims = std::vector<std::int64_t>;

Dims all_dims(const Term& x) {
  Dims dims(static_cast<std::size_t>(x.rank()));
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

/// The argument `dim`: a list, a number, or all dimensions where it is missing or empty.
Dims dims_of(OpCall& c, const Term& x) {
  if (!c.has("dim")) return all_dims(x);
  Dims dims = c.integers("dim");
  return dims.empty() ? all_dims(x) : dims;
}

/// Without the reduced dimensions unless the op keeps them.
Term kept_or_dropped(OpCall& c, const Term& reduced, const Dims& dims) {
  const bool keep = c.has("keepdim") && c.boolean("keepdim");
  return keep ? reduced : c.emit().drop(reduced, dims);
}

void sum(OpCall& c) {
  Emitter& e = c.emit();
  const Term x = e.cast(c.tensor("self"), compute_dtype(c.result(0).dtype));
  const Dims dims = dims_of(c, x);
  c.set(0, kept_or_dropped(c, e.sum(x, dims), dims));
}

void mean(OpCall& c) {
  Emitter& e = c.emit();
  const Term x = e.cast(c.tensor("self"), compute_dtype(c.result(0).dtype));
  const Dims dims = dims_of(c, x);
  c.set(0, kept_or_dropped(c, e.mean(x, dims), dims));
}

void maximum(OpCall& c) {
  const Term x = c.tensor("self");
  const Dims dims = dims_of(c, x);
  c.set(0, kept_or_dropped(c, c.emit().max(x, dims), dims));
}

void norm(OpCall& c) {
  Emitter& e = c.emit();
  const Term x = e.cast(c.tensor("self"), compute_dtype(c.result(0).dtype));
  const Dims dims = dims_of(c, x);
  c.set(0, kept_or_dropped(c, vector_norm(e, x, c.real("ord"), dims), dims));
}

/// Two-pass variance with `correction` (a number; None is 1).
void variance(OpCall& c) {
  Emitter& e = c.emit();
  const Term x = widened(e, c.tensor("self"));
  const Dims dims = dims_of(c, x);
  double count = 1;
  for (auto dim : dims) count *= x.rank() == 0 ? 1.0 : static_cast<double>(x.size(dim));
  const Term centered = e.binary(OpKind::kSubtract, x, e.mean(x, dims));
  const Term squares = e.sum(multiply(e, centered, centered), dims);
  const double correction = c.has("correction") ? c.real("correction") : 1.0;
  Term result = e.binary(OpKind::kDivide, squares, Term::number(std::max(count - correction, 0.0)));
  if (c.entry_name().starts_with("aten::std")) result = e.unary(OpKind::kSqrt, result);
  c.set(0, kept_or_dropped(c, result, dims));
}

void matrix_product(OpCall& c) {
  const char* right = c.has("mat2") ? "mat2" : "other";
  c.set(0, c.emit().matmul(c.tensor("self"), c.tensor(right)));
}

/// beta self + alpha (a b); a factor that differs between iterations is multiplied in afterwards.
void add_matrix_product(OpCall& c, const Term& a, const Term& b) {
  Emitter& e = c.emit();
  const Term alpha = c.operand("alpha"), beta = c.operand("beta");
  const bool fixed = alpha.operand.scalar.slot == graph::kNone;
  Term product = e.matmul(a, b, fixed ? e.number_values(alpha)[0] : 1.0);
  if (!fixed) product = multiply(e, product, alpha);
  product = widened(e, product);
  // beta = 0 ignores self altogether, NaN included.
  if (is_fixed(beta, 0)) return c.set(0, product);
  const Term self = widened(e, c.tensor("self"));
  c.set(0, e.binary(OpKind::kAdd, product, is_fixed(beta, 1) ? self : multiply(e, self, beta)));
}

void addmm(OpCall& c) { add_matrix_product(c, c.tensor("mat1"), c.tensor("mat2")); }
void baddbmm(OpCall& c) { add_matrix_product(c, c.tensor("batch1"), c.tensor("batch2")); }

void matrix_vector(OpCall& c) {
  Emitter& e = c.emit();
  c.set(0, e.drop(e.matmul(c.tensor("self"), e.unsqueeze(c.tensor("vec"), -1)), {-1}));
}

void dot(OpCall& c) {
  Emitter& e = c.emit();
  const Term product = e.matmul(e.unsqueeze(c.tensor("self"), 0), e.unsqueeze(c.tensor("tensor"), 1));
  c.set(0, e.drop(product, {0, 1}));
}

constexpr Entry kEntries[] = {
    {"aten::sum", sum},
    {"aten::sum.dim_IntList", sum},
    {"aten::mean", mean},
    {"aten::mean.dim", mean},
    {"aten::amax", maximum},
    {"aten::max", maximum},
    {"aten::linalg_vector_norm", norm},
    {"aten::var.correction", variance},
    {"aten::std.correction", variance},
    {"aten::mm", matrix_product},
    {"aten::bmm", matrix_product},
    {"aten::addmm", addmm},
    {"aten::baddbmm", baddbmm},
    {"aten::mv", matrix_vector},
    {"aten::dot", dot},
};

}  // namespace

std::span<const Entry> reduction_entries() { return kEntries; }

}  // namespace crucible::aten
