// Accumulators of a group's sums and maxima: a variable per row, or an array over the lanes. Floats are maximised by
// their order keys. See group_emitter.hpp.
#include <limits>

#include "core/kernel/group_emitter.hpp"

namespace crucible::kernel {

using graph::OpKind;

DType GroupEmitter::accumulator_type(const Member& member) const {
  const DType type = compute_type(program_.values[member.output.value].dtype);
  const bool key = program_.ops[member.op].kind == OpKind::kReduceMax && is_floating(type);
  return key ? order_key_type(type) : type;
}

ExprId GroupEmitter::identity(const Member& member) {
  const DType type = accumulator_type(member);
  if (program_.ops[member.op].kind == OpKind::kReduceSum) {
    return is_floating(type) ? b_.real(0, type) : b_.integer(0, type);
  }
  switch (type) {
    case DType::kBool:
    case DType::kU8:
      return b_.integer(0, type);
    case DType::kI8:
      return b_.integer(std::numeric_limits<std::int8_t>::min(), type);
    case DType::kI16:
      return b_.integer(std::numeric_limits<std::int16_t>::min(), type);
    case DType::kI32:
      return b_.integer(std::numeric_limits<std::int32_t>::min(), type);
    default:
      return b_.integer(std::numeric_limits<std::int64_t>::min(), type);
  }
}

ExprId GroupEmitter::combined(const Member& member, ExprId a, ExprId b) {
  return b_.binary(program_.ops[member.op].kind == OpKind::kReduceSum ? Operation::kAdd : Operation::kMaximum, a, b);
}

ExprId GroupEmitter::term(const Member& member) {
  const DType out = program_.values[member.output.value].dtype;
  const ExprId value = rounded_to(b_, input(member, program_.ops[member.op], 0), out);
  const bool key = program_.ops[member.op].kind == OpKind::kReduceMax && is_floating(out);
  return b_.let(key ? b_.unary(Operation::kOrderKey, value) : value);
}

bool GroupEmitter::needs_finish(const Member& member) const {
  const DType out = program_.values[member.output.value].dtype;
  return accumulator_type(member) != out;
}

ExprId GroupEmitter::finished(const Member& member, ExprId accumulator) {
  const DType out = program_.values[member.output.value].dtype;
  const bool key = program_.ops[member.op].kind == OpKind::kReduceMax && is_floating(out);
  const ExprId value = key ? b_.from_order_key(accumulator, compute_type(out)) : accumulator;
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

}  // namespace crucible::kernel
