// Accumulators of a group's sums, products and extrema: a variable per row, or an array over the lanes. Floats are
// maximised by their order keys, in which NaN stands above everything; the minimum is the negated maximum of the
// negated numbers. See group_emitter.hpp.
#include <limits>

#include "core/kernel/emit/group_emitter.hpp"

namespace crucible::kernel {

using graph::OpKind;

bool GroupEmitter::is_extremum(const Member& member) const {
  const OpKind kind = program_.ops[member.op].kind;
  return kind == OpKind::kReduceMax || kind == OpKind::kReduceMin;
}

ExprId GroupEmitter::negated_for_minimum(const Member& member, ExprId value) {
  return program_.ops[member.op].kind == OpKind::kReduceMin ? b_.unary(Operation::kNegate, value) : value;
}

DType GroupEmitter::accumulator_type(const Member& member) const {
  const DType type = compute_type(program_.values[member.output.value].dtype);
  const bool key = is_extremum(member) && is_floating(type);
  return key ? order_key_type(type) : type;
}

ExprId GroupEmitter::identity(const Member& member) {
  const DType type = accumulator_type(member);
  const OpKind kind = program_.ops[member.op].kind;
  if (!is_extremum(member)) {
    const int neutral = kind == OpKind::kReduceProduct ? 1 : 0;
    if (member.order.in_sequence) return b_.real(-0.0, type);  // to which any first number adds as it is
    return is_floating(type) ? b_.real(neutral, type) : b_.integer(neutral, type);
  }
  // Floats are ranked by keys, of which the largest is wanted in either case.
  const bool largest = kind == OpKind::kReduceMax || is_floating(program_.values[member.output.value].dtype);
  const auto outermost = [&]<class T>(T) {
    return b_.integer(largest ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max(), type);
  };
  switch (type) {
    case DType::kBool:
      return b_.integer(largest ? 0 : 1, type);
    case DType::kU8:
      return outermost(std::uint8_t{});
    case DType::kI8:
      return outermost(std::int8_t{});
    case DType::kI16:
      return outermost(std::int16_t{});
    case DType::kI32:
      return outermost(std::int32_t{});
    default:
      return outermost(std::int64_t{});
  }
}

ExprId GroupEmitter::combined(const Member& member, ExprId a, ExprId b) {
  switch (program_.ops[member.op].kind) {
    case OpKind::kReduceSum:
      return b_.binary(Operation::kAdd, a, b);
    case OpKind::kReduceProduct:
      return b_.binary(Operation::kMultiply, a, b);
    case OpKind::kReduceMin:
      if (!is_floating(program_.values[member.output.value].dtype)) return b_.binary(Operation::kMinimum, a, b);
      return b_.binary(Operation::kMaximum, a, b);
    default:
      return b_.binary(Operation::kMaximum, a, b);
  }
}

ExprId GroupEmitter::term(const Member& member) {
  const DType out = program_.values[member.output.value].dtype;
  const ExprId value = rounded_to(b_, member_input(program_, binder_, b_, member, 0, values_of(member)), out);
  const bool key = is_extremum(member) && is_floating(out);
  return b_.let(key ? b_.unary(Operation::kOrderKey, negated_for_minimum(member, value)) : value);
}

bool GroupEmitter::needs_finish(const Member& member) const {
  const DType out = program_.values[member.output.value].dtype;
  return accumulator_type(member) != out;
}

ExprId GroupEmitter::finished(const Member& member, ExprId accumulator) {
  const DType out = program_.values[member.output.value].dtype;
  const bool key = is_extremum(member) && is_floating(out);
  const ExprId value =
      key ? negated_for_minimum(member, b_.from_order_key(accumulator, compute_type(out))) : accumulator;
  return rounded_to(b_, value, out);
}

void GroupEmitter::start_accumulator(const Member& member) {
  if (!is_columns()) {
    accumulator_[&member] = b_.declare(identity(member));
    return;
  }
  const ArrayId array = b_.add_array(accumulator_type(member), group_.sizes[plan_.lanes]);
  row_arrays_[member.output.value] = array;
  const ExprId lane = b_.open_for(b_.integer(0), b_.integer(group_.sizes[plan_.lanes]), LoopMode::kVector);
  b_.store_element(array, lane, identity(member));
  b_.close();
}

void GroupEmitter::start_partials(const std::vector<const Member*>& reductions) {
  for (const Member* member : reductions) partial_[member] = b_.declare(identity(*member));
}

void GroupEmitter::finish_partials(const std::vector<const Member*>& reductions) {
  for (const Member* member : reductions) {
    const VariableId total = accumulator_.at(member);
    b_.set(total, combined(*member, b_.variable(total), b_.variable(partial_.at(member))));
  }
}

void GroupEmitter::accumulate(VariableId variable, const Member& member) {
  const ExprId value = term(member);
  b_.set(variable, combined(member, b_.variable(variable), value));
}

void GroupEmitter::start_chains(const std::vector<const Member*>& reductions, ChainArrays& arrays) {
  for (const Member* member : reductions) {
    if (!arrays.contains(member)) arrays[member] = b_.add_array(accumulator_type(*member), plan_.chains);
    const ExprId chain = b_.open_for(b_.integer(0), b_.integer(plan_.chains), LoopMode::kVector);
    b_.store_element(arrays.at(member), chain, identity(*member));
    b_.close();
  }
}

void GroupEmitter::add_to_chain(const Member& member, ExprId chain) {
  const auto part = parts_.find(&member);
  const ArrayId array = part == parts_.end() ? totals_.at(&member) : part->second;
  const ExprId value = term(member), old = b_.let(b_.element(array, chain));
  b_.store_element(array, chain, combined(member, old, value));
}

void GroupEmitter::join_parts(const std::vector<const Member*>& reductions) {
  for (const Member* member : reductions) {
    const ArrayId total = totals_.at(member);
    const ExprId chain = b_.open_for(b_.integer(0), b_.integer(plan_.chains), LoopMode::kVector);
    const ExprId old = b_.let(b_.element(total, chain)), part = b_.let(b_.element(parts_.at(member), chain));
    b_.store_element(total, chain, combined(*member, old, part));
    b_.close();
  }
}

ExprId GroupEmitter::joined_chains(const Member& member) {
  const ArrayId total = totals_.at(&member);
  std::int64_t width = plan_.chains / 2;
  for (; width > 1; width /= 2) {
    const ExprId chain = b_.open_for(b_.integer(0), b_.integer(width), LoopMode::kVector);
    const ExprId low = b_.let(b_.element(total, chain)),
                 high = b_.let(b_.element(total, b_.add(chain, b_.integer(width))));
    b_.store_element(total, chain, combined(member, low, high));
    b_.close();
  }
  return b_.let(combined(member, b_.let(b_.element(total, b_.integer(0))), b_.let(b_.element(total, b_.integer(1)))));
}

}  // namespace crucible::kernel
