// Fills, marks, places and slices: see random_index.hpp.
#include "core/graph/random_index.hpp"

#include <algorithm>
#include <utility>

namespace crucible::graph {

void RandomIndexSteps::generated() {
  constexpr void (RandomIndexSteps::* kSteps[])() = {
      &RandomIndexSteps::write_at_places, &RandomIndexSteps::write_slice,    &RandomIndexSteps::read_backwards,
      &RandomIndexSteps::list_marked,     &RandomIndexSteps::combine_filled, &RandomIndexSteps::count_in_order};
  (this->*kSteps[integer(0, 5)])();
}

/// A fill of few sizes and numbers, so that programs have equal ones: an old one mostly, which kernels compute for
/// themselves and others need in memory.
Operand RandomIndexSteps::filled(std::int64_t elements, double number) {
  for (const auto& [made, of] : fills_) {
    if (of == number && made.view.sizes[0] == elements && integer(0, 3) > 0) return made;
  }
  const Operand made = emit(OpKind::kFill, {fixed(number)}, {elements});
  fills_.emplace_back(made, number);
  return made;
}

/// 0 to n - 1, or back, or some of them, perhaps computed: never outside, or a little.
Operand RandomIndexSteps::places_in(std::int64_t elements, std::int64_t count) {
  if (integer(0, 1) == 0) return ids(count, elements + integer(0, 1));
  Attributes along;
  along.dims = {0};
  const Operand counted = emit(OpKind::kCoordinate, {}, {count}, DType::kI64, along);
  if (integer(0, 2) == 0) return counted;
  return emit(OpKind::kSubtract, {scalar_integer(std::min(elements, count) - integer(0, 1)), counted}, {count},
              DType::kI64);
}

/// zeros, then rows marked or added up at places; the zeros may be wanted elsewhere.
void RandomIndexSteps::write_at_places() {
  const std::int64_t elements = few_elements(), count = integer(1, 6);
  constexpr OpKind kKinds[] = {OpKind::kPutSet, OpKind::kPutSet, OpKind::kPutAdd,
                               OpKind::kPutMax, OpKind::kPutMin, OpKind::kPutMultiply};
  const OpKind kind = kKinds[integer(0, 5)];
  Tensor base = {filled(elements, few_numbers()), 1, true};
  if (!marked_.empty() && integer(0, 1) == 0) base = old_marked();
  const std::int64_t size = base.operand.view.sizes[0];
  Tensor source = matching({count});
  if (integer(0, 1) == 0) source = {filled(count, few_numbers()), 1, true};  // a number for all of them
  const bool adds = kind == OpKind::kPutAdd || kind == OpKind::kPutMultiply;
  source = tamed(source, 1);
  keep_marked({emit(kind, {base.operand, places_in(size, count), source.operand}, {size}),
               adds ? base.bound * 2 + 7 : std::max(base.bound, 1.0), false});
}

/// z[a:b] = number, or what another tensor has.
void RandomIndexSteps::write_slice() {
  const std::int64_t elements = few_elements();
  const bool is_new = marked_.empty() || integer(0, 2) == 0;
  const Tensor old = is_new ? Tensor{filled(elements, few_numbers()), 1, true} : old_marked();
  const std::int64_t size = old.operand.view.sizes[0], stride = integer(1, 2), count = integer(1, size / 2);
  const Tensor source =
      integer(0, 1) == 0 ? Tensor{filled(count, few_numbers()), 1, true} : tamed(matching({count}), 1);
  Attributes a;
  a.region = {integer(0, size - 1 - (count - 1) * stride), {count}, {stride}};
  Operand all = old.operand;
  all.view = View::contiguous({size});
  keep_marked({emit(OpKind::kUpdate, {all, source.operand}, {size}, DType::kF32, a), std::max(old.bound, 1.0), false});
}

/// flip and roll: reads at places that are counted.
void RandomIndexSteps::read_backwards() {
  const Tensor t = viewed(pick());
  const std::int64_t elements = t.operand.view.elements();
  const auto flat = reshaped(t.operand.view, {elements});
  if (!flat) return;
  const Operand row{t.operand.value, *flat, {}};
  pool_.push_back({emit(OpKind::kTake, {row, places_in(elements, elements)}, {elements}), t.bound, t.exact});
}

/// nonzero: a mask, a running count of it, and a list of the places that it marks.
void RandomIndexSteps::list_marked() {
  const Tensor t = exact_tensor();
  const std::int64_t elements = t.operand.view.elements();
  const auto flat = reshaped(t.operand.view, {elements});
  if (!flat) return;
  Attributes along;
  along.dims = {0};
  Operand mask = emit(OpKind::kGreater, {{t.operand.value, *flat, {}}, fixed(0.25)}, {elements}, DType::kBool);
  if (integer(0, 1) == 0) {
    const Operand counted = emit(OpKind::kCoordinate, {}, {elements}, DType::kI64, along);
    const Operand other =
        emit(OpKind::kNotEqual, {counted, scalar_integer(integer(0, elements))}, {elements}, DType::kBool);
    mask = emit(OpKind::kLogicalAnd, {mask, other}, {elements}, DType::kBool);
  }
  const Operand number = emit(OpKind::kCopy, {mask}, {elements}, DType::kI64);
  const Operand running = emit(OpKind::kScanSum, {number}, {elements}, DType::kI64, along);
  const Operand place = emit(OpKind::kSubtract, {running, scalar_integer(1)}, {elements}, DType::kI64);
  const Operand slot = emit(OpKind::kSelect, {mask, place, scalar_integer(-1)}, {elements}, DType::kI64);
  const Operand none = emit(OpKind::kFill, {scalar_integer(0)}, {elements}, DType::kI64);
  const Operand counted = emit(OpKind::kCoordinate, {}, {elements}, DType::kI64, along);
  const Operand listed = emit(OpKind::kPutSet, {none, slot, counted}, {elements}, DType::kI64);
  if (integer(0, 1) == 0) {
    const Tensor x = matching({elements});
    pool_.push_back({emit(OpKind::kTake, {x.operand, listed}, {elements}), x.bound, x.exact});
  } else {
    pool_.push_back({emit(OpKind::kCopy, {listed}, {elements}), static_cast<double>(elements), true});
  }
}

void RandomIndexSteps::combine_filled() {
  const std::int64_t elements = few_elements();
  const Tensor t = tamed(matching({elements}));
  constexpr OpKind kKinds[] = {OpKind::kAdd, OpKind::kMultiply, OpKind::kMaximum};
  pool_.push_back(
      {emit(kKinds[integer(0, 2)], {t.operand, filled(elements, few_numbers())}, {elements}), t.bound + 1, false});
}

/// arange and linspace, as numbers.
void RandomIndexSteps::count_in_order() {
  const std::int64_t elements = few_elements();
  Attributes along;
  along.dims = {0};
  const Operand counted = emit(OpKind::kCoordinate, {}, {elements}, DType::kF32, along);
  if (integer(0, 1) == 0) {
    pool_.push_back({counted, static_cast<double>(elements), true});
  } else {
    pool_.push_back(
        {emit(OpKind::kMultiply, {counted, fixed(1.0 / static_cast<double>(elements))}, {elements}), 1, false});
  }
}

void RandomIndexSteps::keep_marked(Tensor made) {
  if (made.bound > 50) made = tamed(made);
  made.operand.view = View::contiguous({made.operand.view.elements()});
  marked_.push_back(made);
  pool_.push_back(made);
  if (marked_.size() > 4) marked_.erase(marked_.begin());
}

}  // namespace crucible::graph
