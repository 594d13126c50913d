// Lowering of what finds distinct elements or slices. How many there are is what the recording says; equal ones stand
// side by side, after sorting where they need not, and a running count of those that differ from their neighbour
// numbers them.
#include <functional>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/indexing/index_plan.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/reduction/reducing.hpp"
#include "frontends/aten/reduction/runs.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

/// Result k if it was asked for; what was not asked for is empty.
void set_if_any(OpCall& c, std::size_t k, const std::function<Term()>& made) {
  if (!c.wants(k)) return;
  const Sizes& sizes = c.result(k).sizes;
  const bool is_empty = graph::View::contiguous(sizes).elements() == 0;
  c.set(k, is_empty ? c.emit().fill(Term::integer(0), sizes, c.result(k).dtype) : c.emit().reshape(made(), sizes));
}

/// Results 1 and 2: the run of each element, and how many elements each of `count` runs has.
void set_inverse_and_counts(OpCall& c, const Runs& runs, std::int64_t count) {
  Emitter& e = c.emit();
  set_if_any(c, 1, [&] { return run_of_each(e, runs); });
  set_if_any(c, 2, [&] {
    return e.put(OpKind::kPutAdd, e.fill(Term::integer(0), {count}, DType::kI64), runs.number, Term::integer(1));
  });
  for (const char* flag : {"sorted", "return_inverse", "return_counts"}) {
    if (c.has(flag)) c.boolean(flag);  // the results say it
  }
}

template <bool sorts>
void distinct_elements(OpCall& c) {
  Emitter& e = c.emit();
  const Expression given = c.tensor("self"), x = e.reshape(given, {given.elements()});
  const Runs runs = runs_of(e, x, sorts);
  const std::int64_t count = graph::View::contiguous(c.result(0).sizes).elements();
  e.expect_count(count, [&] { return true_count(e, runs.begins); });
  set_if_any(c, 0, [&] { return e.take(x, first_of_runs(e, runs, count)); });
  set_inverse_and_counts(c, runs, count);
}

/// How many distinct elements of its column are below each element of x [n, w]; each NaN is one of them.
Expression dense_rank(Emitter& e, const Term& x) {
  const Placed column = sorted(e, x, 0, false);
  const Expression place = e.linear_index(x.sizes(), {column.index, e.position(1, x.sizes())});
  return e.put(OpKind::kPutSet, e.fill(Term::integer(0), x.sizes(), DType::kI64), place,
               run_numbers(e, run_begins(e, column.values)));
}

/// A number [n] for each row of x [n, w], in the rows' lexicographic order: ranks in pairs of columns, of pairs, and so
/// on.
Expression rank_of_rows(Emitter& e, const Term& x) {
  Term ranks = dense_rank(e, x);
  while (ranks.size(1) > 1) {
    const std::int64_t pairs = ranks.size(1) / 2;
    const Expression left(e, narrow(ranks, 1, 0, pairs, 2)), right(e, narrow(ranks, 1, 1, pairs, 2));
    const Expression both = left * ranks.size(0) + right;
    ranks = dense_rank(e, ranks.size(1) % 2 == 0 ? both : e.concat({both, narrow(ranks, 1, ranks.size(1) - 1, 1)}, 1));
  }
  return e.drop(ranks, {1});
}

template <bool sorts>
void distinct_slices(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self");
  const auto dim = wrap_dim(c.integer("dim"), x.rank());
  if (dim < 0 || dim >= x.rank() || c.result(0).sizes.size() != x.sizes().size()) {
    return e.fail("argument dim, the tensor and the result do not fit each other");
  }
  if (x.elements() == 0) {
    for (std::size_t k = 0; k < 3; ++k)
      set_if_any(c, k, [&] { return e.fill(Term::integer(0), c.result(k).sizes, DType::kI64); });
    return;
  }
  Dims order = all_dims(x), back;  // the dimension first, the others as they were
  order.erase(order.begin() + dim);
  order.insert(order.begin(), dim);
  for (std::int64_t d = 0; d < x.rank(); ++d) back.push_back(d == dim ? 0 : d < dim ? d + 1 : d);
  const Expression front = e.permute(x, order), rows = e.reshape(front, {front.size(0), x.elements() / front.size(0)});
  Runs runs;
  if (sorts) {
    runs = runs_of(e, rank_of_rows(e, rows), true);
  } else {
    const Expression begins = e.drop(any_of(e, run_begins(e, rows), {1}), {1});
    runs = {begins, run_numbers(e, begins), e.position(0, {front.size(0)})};
  }
  Sizes sizes = front.sizes();
  const std::int64_t count = sizes[0] = c.result(0).sizes[static_cast<std::size_t>(dim)];
  e.expect_count(count, [&] { return true_count(e, runs.begins); });
  set_if_any(c, 0,
             [&] { return e.permute(e.reshape(e.gather_rows(rows, first_of_runs(e, runs, count)), sizes), back); });
  set_inverse_and_counts(c, runs, count);
}

void distinct_neighbours(OpCall& c) { c.has("dim") ? distinct_slices<false>(c) : distinct_elements<false>(c); }

constexpr Entry kEntries[] = {
    {"aten::_unique", distinct_elements<true>},        {"aten::_unique2", distinct_elements<true>},
    {"aten::unique_dim", distinct_slices<true>},       {"aten::unique_dim_consecutive", distinct_slices<false>},
    {"aten::unique_consecutive", distinct_neighbours},
};

}  // namespace

std::span<const Entry> unique_entries() { return kEntries; }

}  // namespace crucible::aten
