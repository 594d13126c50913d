// Lowering of reductions and matrix products.
#include <algorithm>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/algebra/rounding.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/reduction/reducing.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

void sum(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = e.cast(c.tensor("self"), compute_dtype(c.result(0).dtype));
  const Dims dims = dims_of(c, x);
  c.set(0, kept_or_dropped(c, e.sum(x, dims), dims));
}

void mean(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = e.cast(c.tensor("self"), compute_dtype(c.result(0).dtype));
  const Dims dims = dims_of(c, x);
  c.set(0, kept_or_dropped(c, e.mean(x, dims), dims));
}

void nan_sum(OpCall& c) {
  Emitter& e = c.emit();
  Term x = e.cast(c.tensor("self"), compute_dtype(c.result(0).dtype));
  const Dims dims = dims_of(c, x);
  if (is_floating(x.dtype)) x = choose(e.unary(OpKind::kIsNan, x), e.fill(Term::number(0), {}, x.dtype), x);
  c.set(0, kept_or_dropped(c, e.sum(x, dims), dims));
}

void product(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = e.cast(c.tensor("self"), compute_dtype(c.result(0).dtype));
  const Dims dims = dims_of(c, x);
  const Expression result = x.dtype == DType::kBool ? all_of(e, x, dims) : reduced(e, OpKind::kReduceProduct, x, dims);
  c.set(0, kept_or_dropped(c, result, dims));
}

template <OpKind kind>
void extremum(OpCall& c) {
  const Expression x = c.tensor("self");
  const Dims dims = dims_of(c, x);
  c.set(0, kept_or_dropped(c, reduced(c.emit(), kind, x, dims), dims));
}

/// Results: minimum, maximum.
void both_extrema(OpCall& c) {
  const Expression x = c.tensor("self");
  const Dims dims = dims_of(c, x);
  c.set(0, kept_or_dropped(c, reduced(c.emit(), OpKind::kReduceMin, x, dims), dims));
  c.set(1, kept_or_dropped(c, reduced(c.emit(), OpKind::kReduceMax, x, dims), dims));
}

template <OpKind kind, OpKind place>
void extremum_with_place(OpCall& c) {
  const Expression x = c.tensor("self");
  const std::int64_t dim = c.integer("dim");
  c.set(0, kept_or_dropped(c, reduced(c.emit(), kind, x, {dim}), {dim}));
  c.set(1, kept_or_dropped(c, place_of_extremum(c.emit(), place, x, dim), {dim}));
}

/// Without `dim`: the index in row-major order.
template <OpKind kind>
void place(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self");
  if (c.has("dim")) {
    const std::int64_t dim = c.integer("dim");
    return c.set(0, kept_or_dropped(c, place_of_extremum(e, kind, x, dim), {dim}));
  }
  const Term found = place_of_extremum(e, kind, e.reshape(x, {x.elements()}), 0);
  c.set(0, e.reshape(found, keeps_dims(c) ? Sizes(x.sizes().size(), 1) : Sizes{}));
}

/// An empty list of dimensions reduces nothing here.
template <bool all>
void truth(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self");
  const Dims dims = c.has("dim") ? c.integers("dim") : all_dims(x);
  c.set(0, kept_or_dropped(c, all ? all_of(e, x, dims) : any_of(e, x, dims), dims));
}

void count_nonzero(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self");
  const Dims dims = dims_of(c, x);
  c.set(0, e.drop(e.sum(e.cast(e.cast(x, DType::kBool), DType::kI64), dims), dims));
}

/// The sum whose root is a norm: parts of a tensor are summed so before they are joined.
void power_sum(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = e.cast(c.tensor("self"), compute_dtype(c.result(0).dtype));
  const Dims dims = c.has("dim") ? c.integers("dim") : all_dims(x);
  const double order = c.real("ord");
  const Expression size = magnitude(x);
  const Expression powers = order == 1 ? size : order == 2 ? multiply(e, x, x) : power(e, size, Term::number(order));
  c.set(0, kept_or_dropped(c, e.sum(powers, dims), dims));
}

void trace(OpCall& c) {
  Emitter& e = c.emit();
  Term x = c.tensor("self");
  graph::View& view = x.operand.view;
  view.sizes = {std::min(view.sizes[0], view.sizes[1])};
  view.strides = {view.strides[0] + view.strides[1]};
  c.set(0, e.drop(e.sum(e.cast(x, compute_dtype(c.result(0).dtype)), {0}), {0}));
}

void matrix_product(OpCall& c) {
  const char* right = c.has("mat2") ? "mat2" : "other";
  c.set(0, c.emit().matmul(c.tensor("self"), c.tensor(right)));
}

/// beta self + alpha (a b), rounded once; a factor that differs between iterations is multiplied in afterwards.
void add_matrix_product(OpCall& c, const Term& a, const Term& b) {
  Emitter& e = c.emit();
  const Expression alpha = c.operand("alpha"), beta = c.operand("beta");
  const graph::Number first = alpha.is_number() ? e.number_values(alpha)[0] : graph::Number(1.0);
  const bool fixed = alpha.is_number() && alpha.operand.scalar.slot == graph::kNone &&
                     (!first.is_integer() || graph::Number(first.real()).integer() == first.integer());
  Term product = e.matmul(a, b, fixed ? first.real() : 1.0);
  if (fixed && is_fixed(beta, 0)) return c.set(0, product);
  product = unrounded(e, product);
  if (!fixed) product = multiply(e, product, alpha);
  // beta = 0 ignores self altogether, NaN included.
  if (is_fixed(beta, 0)) return c.set(0, product);
  const Expression self = c.wide("self");
  c.set(0, product + (is_fixed(beta, 1) ? self : multiply(e, self, beta)));
}

void addmm(OpCall& c) { add_matrix_product(c, c.tensor("mat1"), c.tensor("mat2")); }
void baddbmm(OpCall& c) { add_matrix_product(c, c.tensor("batch1"), c.tensor("batch2")); }

void matrix_vector(OpCall& c) {
  Emitter& e = c.emit();
  c.set(0, e.drop(e.matmul(c.tensor("self"), e.unsqueeze(c.tensor("vec"), -1)), {-1}));
}

void dot(OpCall& c) {
  Emitter& e = c.emit();
  const Expression product = e.matmul(e.unsqueeze(c.tensor("self"), 0), e.unsqueeze(c.tensor("tensor"), 1));
  c.set(0, e.drop(product, {0, 1}));
}

constexpr Entry kEntries[] = {
    {"aten::sum", sum},
    {"aten::sum.dim_IntList", sum},
    {"aten::mean", mean},
    {"aten::mean.dim", mean},
    {"aten::nansum", nan_sum},
    {"aten::prod", product},
    {"aten::prod.dim_int", product},
    {"aten::amax", extremum<OpKind::kReduceMax>},
    {"aten::amin", extremum<OpKind::kReduceMin>},
    {"aten::max", extremum<OpKind::kReduceMax>},
    {"aten::min", extremum<OpKind::kReduceMin>},
    {"aten::max.dim", extremum_with_place<OpKind::kReduceMax, OpKind::kArgMax>},
    {"aten::min.dim", extremum_with_place<OpKind::kReduceMin, OpKind::kArgMin>},
    {"aten::aminmax", both_extrema},
    {"aten::_aminmax", both_extrema},
    {"aten::_aminmax.dim", both_extrema},
    {"aten::argmax", place<OpKind::kArgMax>},
    {"aten::argmin", place<OpKind::kArgMin>},
    {"aten::all", truth<true>, Complexity::kMagnitude},
    {"aten::all.dim", truth<true>, Complexity::kMagnitude},
    {"aten::all.dims", truth<true>, Complexity::kMagnitude},
    {"aten::_is_all_true", truth<true>},
    {"aten::_is_any_true", truth<false>},
    {"aten::any", truth<false>, Complexity::kMagnitude},
    {"aten::any.dim", truth<false>, Complexity::kMagnitude},
    {"aten::any.dims", truth<false>, Complexity::kMagnitude},
    {"aten::count_nonzero", count_nonzero, Complexity::kMagnitude},
    {"aten::count_nonzero.dim_IntList", count_nonzero, Complexity::kMagnitude},
    {"aten::linalg__powsum", power_sum},
    {"aten::trace", trace, Complexity::kParts},
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
