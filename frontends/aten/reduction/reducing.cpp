// Shared parts of reductions: see reducing.hpp.
#include "frontends/aten/reduction/reducing.hpp"

#include <numeric>

#include "frontends/aten/algebra/algebra.hpp"

namespace crucible::aten {

using graph::OpKind;

Dims all_dims(const Term& x) {
  Dims dims(static_cast<std::size_t>(x.rank()));
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

Dims dims_of(OpCall& c, const Term& x) {
  if (!c.has("dim")) return all_dims(x);
  Dims dims = c.integers("dim");
  return dims.empty() ? all_dims(x) : dims;
}

bool keeps_dims(OpCall& c) { return c.has("keepdim") && c.boolean("keepdim"); }

Term kept_or_dropped(OpCall& c, const Term& reduced, const Dims& dims) {
  return keeps_dims(c) ? reduced : c.emit().drop(reduced, dims);
}

std::int64_t reduced_elements(const Term& x, const Dims& dims) {
  std::int64_t count = 1;
  for (auto dim : dims) count *= x.rank() == 0 ? 1 : x.size(dim);
  return count;
}

Expression reduced(Emitter& e, OpKind kind, const Term& x, const Dims& dims) {
  graph::Attributes attributes;
  Sizes sizes = x.sizes();
  std::vector<bool> named(sizes.size(), false);
  for (auto dim : dims) {
    if (x.rank() > 0) named[static_cast<std::size_t>(wrap_dim(dim, x.rank()))] = true;
  }
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (!named[d]) continue;
    attributes.dims.push_back(static_cast<std::int64_t>(d));
    sizes[d] = 1;
  }
  return e.emit(kind, {x}, sizes, x.dtype, attributes);
}

namespace {

Expression truth_of(Emitter& e, OpKind kind, const Term& x, const Dims& dims, bool of_nothing) {
  Sizes kept = x.sizes();
  for (auto dim : dims) {
    if (x.rank() > 0) kept[static_cast<std::size_t>(wrap_dim(dim, x.rank()))] = 1;
  }
  if (reduced_elements(x, dims) == 0) return e.fill(Term::integer(of_nothing), kept, DType::kBool);
  return reduced(e, kind, e.cast(x, DType::kBool), dims);
}

}  // namespace

Expression all_of(Emitter& e, const Term& x, const Dims& dims) {
  return truth_of(e, OpKind::kReduceMin, x, dims, true);
}
Expression any_of(Emitter& e, const Term& x, const Dims& dims) {
  return truth_of(e, OpKind::kReduceMax, x, dims, false);
}

namespace {

/// A tensor with at least one dimension, and the dimension that is meant.
struct Lines {
  Term x;
  std::int64_t dim;
  graph::Attributes attributes;
};

Lines lines_of(Emitter& e, const Term& x, std::int64_t dim) {
  Lines lines{x.rank() == 0 ? e.reshape(x, {1}) : x, x.rank() == 0 ? 0 : wrap_dim(dim, x.rank()), {}};
  lines.attributes.dims = {lines.dim};
  return lines;
}

Term as_before(Emitter& e, const Term& result, const Term& x) { return x.rank() == 0 ? e.reshape(result, {}) : result; }

Placed placed(Emitter& e, OpKind kind, const Term& x, std::int64_t dim) {
  const Lines lines = lines_of(e, x, dim);
  const auto results = e.emit_many(kind, {lines.x}, {{lines.x.sizes(), x.dtype}, {lines.x.sizes(), DType::kI64}},
                                   lines.attributes);
  return {as_before(e, results[0], x), as_before(e, results[1], x)};
}

}  // namespace

Term place_of_extremum(Emitter& e, OpKind kind, const Term& x, std::int64_t dim) {
  const Lines lines = lines_of(e, x, dim);
  Sizes sizes = lines.x.sizes();
  sizes[static_cast<std::size_t>(lines.dim)] = 1;
  return as_before(e, e.emit(kind, {lines.x}, sizes, DType::kI64, lines.attributes), x);
}

Term running_total(Emitter& e, OpKind kind, const Term& x, std::int64_t dim) {
  const Lines lines = lines_of(e, x, dim);
  return as_before(e, e.emit(kind, {lines.x}, lines.x.sizes(), x.dtype, lines.attributes), x);
}

Placed running_extremum(Emitter& e, OpKind kind, const Term& x, std::int64_t dim) { return placed(e, kind, x, dim); }

Placed sorted(Emitter& e, const Term& x, std::int64_t dim, bool descending) {
  return placed(e, descending ? OpKind::kSortDescending : OpKind::kSortAscending, x, dim);
}

Term slice(const Term& x, std::int64_t dim, std::int64_t start, std::int64_t length) {
  Term part = x;
  const auto d = static_cast<std::size_t>(wrap_dim(dim, x.rank()));
  if (d >= x.sizes().size()) return part;  // of a term that came of a failure
  part.operand.view.offset += start * part.operand.view.strides[d];
  part.operand.view.sizes[d] = length;
  return part;
}

Term at_place(Emitter& e, const Term& x, const Term& place, std::int64_t dim) {
  if (x.rank() == 0) return x;
  const Expression here = e.coordinate(dim, x.sizes(), DType::kI64) == place;
  const Expression zero = e.fill(Term::integer(0), {}, x.dtype);
  if (x.dtype == DType::kBool) return any_of(e, x && here, {dim});
  return e.sum(choose(here, x, zero), {dim});
}

Expression sign_of(Emitter& e, const Term& x) {
  const Expression one = e.fill(Term::integer(1), {}, x.dtype), zero = e.fill(Term::integer(0), {}, x.dtype);
  const Expression above = e.binary(OpKind::kGreater, x, Term::integer(0));
  const Expression below = e.binary(OpKind::kLess, x, Term::integer(0));
  return choose(above, one, choose(below, -one, zero));
}

}  // namespace crucible::aten
