// One walk along the ops, again as long as states bring something new from the end of an iteration to its start: see
// computed_nans.hpp.
#include "core/graph/computed_nans.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "core/graph/bitcast.hpp"

namespace crucible::graph {
namespace {

/// What the elements of a value may be; several together where it is joined from several. Integers have none.
using Origins = std::uint8_t;
constexpr Origins kPlain = 0;     // numbers that are no NaN
constexpr Origins kBits = 1;      // bits that a bitcast made
constexpr Origins kComputed = 2;  // results of arithmetic

/// The operands whose elements become those of the result as they are; none of arithmetic.
std::span<const Operand> moved(const Program& program, const Op& op) {
  const std::span<const Operand> inputs = op.inputs;
  switch (op.kind) {
    case OpKind::kCopy: {  // a conversion makes another NaN
      const bool converts =
          !inputs[0].is_scalar() && program.values[inputs[0].value].dtype != program.values[op.outputs[0].value].dtype;
      return converts ? inputs.first(0) : inputs;
    }
    case OpKind::kFill:
    case OpKind::kConcat:
    case OpKind::kUpdate:
      return inputs;
    case OpKind::kSelect:
      return inputs.subspan(1);
    case OpKind::kGatherRows:
    case OpKind::kTake:
      return inputs.first(1);
    case OpKind::kPutSet:
      return inputs;  // the index has no origins
    default:
      return inputs.first(0);
  }
}

Origins origins_of(const Operand& operand, const std::vector<Origins>& origins) {
  if (!operand.is_scalar()) return origins[operand.value];
  const Scalar& scalar = operand.scalar;
  return scalar.slot != kNone || (!scalar.is_integer && std::isnan(scalar.real)) ? kComputed : kPlain;
}

void walk(const Program& program, std::vector<Origins>& origins) {
  for (const Op& op : program.ops) {
    Origins made = kPlain;
    if (is_bitcast(program, op)) {
      made = kBits;
    } else {
      const auto parts = moved(program, op);
      if (parts.empty()) made = kComputed;
      for (const Operand& part : parts) made |= origins_of(part, origins);
    }
    for (const Operand& output : op.outputs)
      origins[output.value] = is_floating(program.values[output.value].dtype) ? made : kPlain;
  }
}

}  // namespace

std::size_t name_computed_nans(Program& program) {
  const auto looks_at_floats = [&](const Op& op) {
    return is_bitcast(program, op) && is_floating(program.values[op.inputs[0].value].dtype);
  };
  if (std::ranges::none_of(program.ops, looks_at_floats)) return 0;
  std::vector<Origins> origins(program.values.size(), kPlain);
  for (bool is_new = true; is_new;) {  // each state gains at most two origins
    walk(program, origins);
    is_new = false;
    for (const State& state : program.states) {
      const auto both = static_cast<Origins>(origins[state.start] | origins[state.end]);
      is_new |= both != origins[state.start];
      origins[state.start] = both;
    }
  }
  std::size_t named = 0;
  for (Op& op : program.ops) {
    if (!looks_at_floats(op) || origins[op.inputs[0].value] != kComputed) continue;
    op.attributes.index = kNamesNans;
    ++named;
  }
  return named;
}

}  // namespace crucible::graph
