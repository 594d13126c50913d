// Lowering of reads and writes along one dimension: gather, scatter and its reductions, index_add and its kin.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/graph/view.hpp"
#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/indexing/index_plan.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

/// 0-dim tensors count as one element along one dimension.
Term at_least_1d(Emitter& e, const Term& x) { return x.rank() == 0 ? e.reshape(x, {1}) : x; }

/// Indices that lie in [0, size), or are moved there: the program is told when they are.
Expression inside(Emitter& e, const Term& index, std::int64_t size) {
  return e.held_in(index, 0, std::max<std::int64_t>(size, 1) - 1);
}

/// For a full index tensor: the element along `dim` that it names, at its own place along the others.
std::vector<Term> along(Emitter& e, std::int64_t dim, const Term& index) {
  std::vector<Term> terms;
  for (std::int64_t d = 0; d < index.rank(); ++d) terms.push_back(d == dim ? index : e.position(d, index.sizes()));
  return terms;
}

void gather(OpCall& c) {
  Emitter& e = c.emit();
  const Term x = at_least_1d(e, c.tensor("self")), index = at_least_1d(e, c.tensor("index"));
  if (c.has("sparse_grad")) c.boolean("sparse_grad");
  const auto dim = wrap_dim(c.integer("dim"), x.rank());
  e.expect_in(index, 0, x.size(dim) - 1);
  if (index.elements() == 0)
    return c.set(0, e.fill(Term::integer(0), index.sizes(), x.dtype));  // whatever dimensions the index has
  c.set(0, e.reshape(e.expand(e.take_at(x, along(e, dim, inside(e, index, x.size(dim)))), index.sizes()),
                     c.result(0).sizes));
}

/// The first elements of `x` along each dimension, as many as `sizes` says.
Term first_elements(const Term& x, const Sizes& sizes) {
  Term part = x;
  for (std::size_t d = 0; d < sizes.size(); ++d) part = narrow(part, static_cast<std::int64_t>(d), 0, sizes[d]);
  return part;
}

struct Write {
  Term base, place, source;
};

/// What a scatter writes where: `source` is a number or a tensor at least as large as the index.
Write scattered(OpCall& c, const Term& given) {
  Emitter& e = c.emit();
  const Term base = at_least_1d(e, c.tensor("self")), index = at_least_1d(e, c.tensor("index"));
  const auto dim = wrap_dim(c.integer("dim"), base.rank());
  if (index.elements() == 0)
    return {base, e.fill(Term::integer(-1), {0}, DType::kI64), e.fill(Term::integer(0), {0}, base.dtype)};
  e.expect_in(index, 0, base.size(dim) - 1);
  Term source = given;
  if (given.is_number() || given.rank() == 0) {
    source = e.expand(given.is_number() ? e.fill(given, {}, base.dtype) : given, index.sizes());
  } else if (given.rank() == index.rank()) {
    source = first_elements(given, index.sizes());
  } else {
    e.fail(fmt::format("index [{}] and source [{}] differ in their number of dimensions",
                       fmt::join(index.sizes(), ", "), fmt::join(given.sizes(), ", ")));
  }
  const Expression place = e.linear_index(base.sizes(), along(e, dim, inside(e, index, base.size(dim))));
  return {base, place.is_number() ? e.fill(place, index.sizes(), DType::kI64) : e.expand(place, index.sizes()), source};
}

void finish(OpCall& c, const Term& result) { c.set(0, c.emit().reshape(result, c.result(0).sizes)); }

void scatter(OpCall& c) {
  const Write w = scattered(c, c.operand(c.has("src") ? "src" : "value"));
  OpKind kind = OpKind::kPutSet;
  if (c.has("reduce")) kind = c.text("reduce") == "multiply" ? OpKind::kPutMultiply : OpKind::kPutAdd;
  finish(c, c.emit().put(kind, w.base, w.place, w.source));
}

void scatter_add(OpCall& c) {
  const Write w = scattered(c, c.tensor("src"));
  finish(c, c.emit().put(OpKind::kPutAdd, w.base, w.place, w.source));
}

/// The number that changes nothing when a reduction meets it.
Term identity_of(OpKind kind, DType dtype) {
  if (kind == OpKind::kPutAdd) return Term::integer(0);
  if (kind == OpKind::kPutMultiply) return Term::integer(1);
  const bool least = kind == OpKind::kPutMax;
  if (is_floating(dtype)) return Term::number(least ? -HUGE_VAL : HUGE_VAL);
  if (dtype == DType::kBool) return Term::integer(least ? 0 : 1);
  if (dtype == DType::kU8) return Term::integer(least ? 0 : 255);
  const int bits = 8 * static_cast<int>(size_bytes(dtype));
  const std::int64_t most = bits == 64 ? std::numeric_limits<std::int64_t>::max() : (std::int64_t{1} << (bits - 1)) - 1;
  return Term::integer(least ? -most - 1 : most);
}

/// Several writes to one element joined by a named reduction, with or without what was there.
Term reduced(OpCall& c, const Write& w) {
  Emitter& e = c.emit();
  const std::string how = c.text("reduce");
  const bool keep = !c.has("include_self") || c.boolean("include_self");
  const bool mean = how == "mean";
  OpKind kind = OpKind::kPutAdd;
  if (how == "prod") kind = OpKind::kPutMultiply;
  if (how == "amax") kind = OpKind::kPutMax;
  if (how == "amin") kind = OpKind::kPutMin;
  Term base = w.base;
  if (!keep) base = e.put(OpKind::kPutSet, base, w.place, e.fill(identity_of(kind, base.dtype), {}, base.dtype));
  const Expression joined = e.put(kind, base, w.place, w.source);
  if (!mean) return joined;
  const DType dtype = base.dtype;
  const Expression ones = e.expand(e.fill(Term::integer(1), {}, dtype), w.place.sizes());
  const Expression start = e.fill(Term::integer(keep ? 1 : 0), base.sizes(), dtype);
  const Expression count = e.put(OpKind::kPutAdd, start, w.place, ones);
  const Expression most = larger(count, 1);
  if (is_floating(dtype)) return widened(e, joined) / widened(e, most);
  // Rounded down. The count is above zero, so that the rest has the sign of the sum.
  const Expression quotient = joined.binary(OpKind::kDivideInteger, most);
  const Expression rest = joined - quotient * most;
  const Expression down = quotient - 1;
  return choose(rest < 0, down, quotient);
}

void scatter_reduce(OpCall& c) { finish(c, reduced(c, scattered(c, c.tensor("src")))); }

/// Writes of slices: the elements of `source` along `dim` go where `index`, a row, says.
Write slices(OpCall& c, const Term& given, bool wraps) {
  Emitter& e = c.emit();
  const Term base = at_least_1d(e, c.tensor("self"));
  const auto dim = wrap_dim(c.integer("dim"), base.rank());
  Term index = at_least_1d(e, c.tensor("index"));
  if (base.is_number() || dim < 0 || dim >= base.rank() || index.is_number() || index.rank() != 1) {
    e.fail("argument dim names no dimension, or argument index is no row");
    return {base, Term::integer(0), Term::integer(0)};
  }
  if (wraps) {
    index = e.wrapped(index, base.size(dim));
  } else {
    e.expect_in(index, 0, base.size(dim) - 1);
    index = inside(e, index, base.size(dim));
  }
  Sizes sizes = base.sizes();
  sizes[static_cast<std::size_t>(dim)] = index.size(0);
  std::vector<Term> terms;
  for (std::int64_t d = 0; d < base.rank(); ++d) terms.push_back(e.position(d, sizes));
  Sizes row(sizes.size(), 1);
  row[static_cast<std::size_t>(dim)] = index.size(0);
  terms[static_cast<std::size_t>(dim)] = e.reshape(index, row);
  const Expression place = e.linear_index(base.sizes(), terms);
  const Expression where = place.is_number() ? e.fill(place, sizes, DType::kI64) : e.expand(place, sizes);
  if (given.is_number() || given.rank() == 0) {
    return {base, where, e.expand(given.is_number() ? e.fill(given, {}, base.dtype) : given, sizes)};
  }
  return {base, where, e.reshape(given, sizes)};
}

void index_add(OpCall& c) {
  Emitter& e = c.emit();
  Term source = c.tensor("source");
  const Term alpha = c.has("alpha") ? c.operand("alpha") : Term::integer(1);
  if (!is_fixed(alpha, 1) && source.dtype != DType::kBool) {
    source = e.cast(widened(e, source) * alpha, source.dtype);
  }
  const Write w = slices(c, source, false);
  finish(c, e.put(OpKind::kPutAdd, w.base, w.place, w.source));
}

void index_copy(OpCall& c) {
  const Write w = slices(c, c.tensor("source"), false);
  finish(c, c.emit().put(OpKind::kPutSet, w.base, w.place, w.source));
}

void index_fill(OpCall& c) {
  const Write w = slices(c, c.operand("value"), true);
  finish(c, c.emit().put(OpKind::kPutSet, w.base, w.place, w.source));
}

void index_reduce(OpCall& c) { finish(c, reduced(c, slices(c, c.tensor("source"), false))); }

constexpr Entry kEntries[] = {
    {"aten::gather", gather, Complexity::kParts},
    {"aten::scatter.src", scatter, Complexity::kParts},
    {"aten::scatter.value", scatter, Complexity::kParts},
    {"aten::scatter.reduce", scatter},
    {"aten::scatter.value_reduce", scatter},
    {"aten::scatter_add", scatter_add, Complexity::kParts},
    {"aten::scatter_reduce.two", scatter_reduce},
    {"aten::index_add", index_add, Complexity::kParts},
    {"aten::index_copy", index_copy, Complexity::kParts},
    {"aten::index_fill.int_Scalar", index_fill, Complexity::kParts},
    {"aten::index_fill.int_Tensor", index_fill, Complexity::kParts},
    {"aten::index_reduce", index_reduce},
};

}  // namespace

std::span<const Entry> scatter_entries() { return kEntries; }

}  // namespace crucible::aten
