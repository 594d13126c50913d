// Tensors as indices: see index_plan.hpp.
#include "frontends/aten/indexing/index_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/graph/view.hpp"
#include "frontends/aten/algebra/algebra.hpp"

namespace crucible::aten {

using graph::OpKind;
using graph::View;

bool is_mask(const Term& index) { return index.dtype == DType::kBool || index.dtype == DType::kU8; }

Expression running_count(Emitter& e, const Term& mask) {
  const std::int64_t elements = mask.elements();
  const Expression flat = e.reshape(e.cast(e.cast(mask, DType::kBool), DType::kI64), {elements});
  graph::Attributes attributes;
  attributes.dims = {0};
  return e.reshape(e.emit(OpKind::kScanSum, {flat}, {elements}, DType::kI64, attributes), mask.sizes());
}

Expression true_count(Emitter& e, const Term& mask) {
  const Expression flat = e.reshape(e.cast(e.cast(mask, DType::kBool), DType::kI64), {mask.elements()});
  return e.drop(e.sum(flat, {0}), {0});
}

std::vector<Term> true_coordinates(Emitter& e, const Term& mask, std::int64_t count, std::int64_t filler) {
  const Expression truth = e.cast(mask, DType::kBool);
  const Expression before = running_count(e, truth) - 1;
  const Expression place = choose(truth, before, -1);
  std::vector<Term> coordinates;
  for (std::int64_t d = 0; d < mask.rank(); ++d) {
    const Expression base = e.fill(Term::integer(filler), {count}, DType::kI64);
    coordinates.push_back(e.put(OpKind::kPutSet, base, place, e.position(d, mask.sizes())));
  }
  return coordinates;
}

namespace {

/// The one element that a mask holds goes with all that other indices name: data decides whether it is one.
std::vector<Term> repeated_if_one(Emitter& e, const std::vector<Term>& coordinates, const Term& count) {
  std::vector<Term> repeated;
  const Expression is_one = e.binary(OpKind::kEqual, count, Term::integer(1));
  for (const Term& places : coordinates) repeated.push_back(e.select(is_one, narrow(places, 0, 0, 1), places));
  return repeated;
}

}  // namespace

IndexPlan plan_index(Emitter& e, const Term& x, const std::vector<std::optional<Term>>& indices,
                     const std::function<std::int64_t(std::size_t dimension, std::size_t rank)>& mask_count,
                     bool may_lie_outside) {
  // Which dimensions of x have an index, and how many dimensions the indices have together.
  std::vector<bool> has_index;
  std::size_t common_rank = 0;
  for (const auto& index : indices) {
    const std::size_t covers = index && is_mask(*index) ? static_cast<std::size_t>(index->rank()) : 1;
    for (std::size_t i = 0; i < covers; ++i) has_index.push_back(index.has_value());
    if (index) common_rank = std::max(common_rank, is_mask(*index) ? 1 : static_cast<std::size_t>(index->rank()));
  }
  IndexPlan plan;
  if (has_index.size() > x.sizes().size()) {
    e.fail(fmt::format("{} indices for a tensor with {} dimensions", has_index.size(), x.rank()));
    return plan;
  }
  has_index.resize(x.sizes().size(), false);
  const auto first = static_cast<std::size_t>(std::ranges::find(has_index, true) - has_index.begin());
  const auto count = static_cast<std::size_t>(std::ranges::count(has_index, true));
  const bool neighbours =
      std::all_of(has_index.begin() + static_cast<std::ptrdiff_t>(first),
                  has_index.begin() + static_cast<std::ptrdiff_t>(first + count), [](bool has) { return has; });
  const std::size_t start = neighbours ? first : 0;

  // The indices, negative ones wrapped, masks as coordinates.
  const bool is_alone = std::ranges::count_if(indices, [](const auto& index) { return index.has_value(); }) == 1;
  plan.mask_dim = static_cast<std::int64_t>(start + common_rank) - 1;
  plan.terms.assign(x.sizes().size(), Term::integer(0));
  Sizes common;
  std::size_t at = 0;
  for (const auto& index : indices) {
    std::vector<Term> given;
    if (index && is_mask(*index)) {
      const std::int64_t held = mask_count(start + common_rank - 1, has_index.size() - count + common_rank);
      given = true_coordinates(e, *index, held);
      plan.mask_counts.push_back(true_count(e, *index));
      if (!is_alone && held > 1) given = repeated_if_one(e, given, plan.mask_counts.back());
    } else if (index) {
      given = {may_lie_outside ? e.wrapped_where_asked(*index, x.sizes()[at]) : e.wrapped(*index, x.sizes()[at])};
    }
    for (const Term& term : given) {
      auto both = graph::broadcast_sizes(common, term.sizes());
      if (!both) {
        e.fail(fmt::format("indices of sizes [{}] and [{}] do not broadcast", fmt::join(common, ", "),
                           fmt::join(term.sizes(), ", ")));
        return plan;
      }
      common = *both;
      plan.terms[at++] = term;
    }
    if (!index) ++at;
  }

  // The result's sizes, and each index in its place among them.
  for (std::size_t d = 0; d < start; ++d) plan.sizes.push_back(x.sizes()[d]);
  plan.sizes.insert(plan.sizes.end(), common.begin(), common.end());
  std::vector<std::size_t> others;
  for (std::size_t d = 0; d < has_index.size(); ++d) {
    if (has_index[d]) continue;
    others.push_back(d);
    if (d >= start) plan.sizes.push_back(x.sizes()[d]);
  }
  for (std::size_t i = 0; i < others.size(); ++i) {
    const std::size_t dim = others[i] < start ? others[i] : i + common.size();
    plan.terms[others[i]] = e.position(static_cast<std::int64_t>(dim), plan.sizes);
  }
  const std::size_t after = plan.sizes.size() - start - common.size();
  for (std::size_t d = 0; d < has_index.size(); ++d) {
    if (!has_index[d]) continue;
    Sizes sizes = plan.terms[d].sizes();
    sizes.insert(sizes.end(), after, 1);
    plan.terms[d] = e.reshape(plan.terms[d], sizes);
  }
  return plan;
}

Term narrow(const Term& x, std::int64_t dim, std::int64_t start, std::int64_t length, std::int64_t step) {
  const auto d = static_cast<std::size_t>(wrap_dim(dim, x.rank()));
  Term part = x;
  if (d >= x.sizes().size()) return part;  // of a term that came of a failure
  View& view = part.operand.view;
  if (length > 0) view.offset += start * view.strides[d];
  view.sizes[d] = length;
  view.strides[d] *= step;
  view = graph::normalized(std::move(view));
  return part;
}

Term updated(Emitter& e, const Term& base, const View& region, const Term& source) {
  const std::int64_t elements = base.elements();
  if (region.sizes.size() != region.strides.size() || !graph::last_index(region)) {
    e.fail("a part of a tensor has sizes and strides that do not fit each other");
    return base;
  }
  Term flat = e.reshape(base, {elements});
  const bool whole = !flat.is_number() && graph::same_map(flat.operand.view, View::contiguous({elements})) &&
                     e.program().values[flat.operand.value].elements == elements;
  if (!whole) flat = e.reshape(e.copy(base), {elements});
  graph::Attributes attributes;
  attributes.region = graph::normalized(region);
  const Expression part = source.is_number() ? e.fill(source, region.sizes, base.dtype)
                                             : e.expand(e.cast(source, base.dtype), region.sizes);
  return e.reshape(e.emit(OpKind::kUpdate, {flat, part}, {elements}, base.dtype, attributes), base.sizes());
}

View diagonal_view(View view, std::int64_t offset, std::int64_t first, std::int64_t second) {
  const auto rank = static_cast<std::int64_t>(view.sizes.size());
  const auto a = static_cast<std::size_t>(wrap_dim(first, rank)), b = static_cast<std::size_t>(wrap_dim(second, rank));
  if (a == b || a >= view.sizes.size() || b >= view.sizes.size()) return View{0, {-1}, {1}};  // nothing takes it
  const std::int64_t down = offset < 0 ? -offset : 0, right = offset > 0 ? offset : 0;
  const std::int64_t length = std::max<std::int64_t>(0, std::min(view.sizes[a] - down, view.sizes[b] - right));
  if (length > 0) view.offset += down * view.strides[a] + right * view.strides[b];
  const std::int64_t stride = view.strides[a] + view.strides[b];
  for (const std::size_t d : {std::max(a, b), std::min(a, b)}) {
    view.sizes.erase(view.sizes.begin() + static_cast<std::ptrdiff_t>(d));
    view.strides.erase(view.strides.begin() + static_cast<std::ptrdiff_t>(d));
  }
  view.sizes.push_back(length);
  view.strides.push_back(stride);
  return view;
}

}  // namespace crucible::aten
