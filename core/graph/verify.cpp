// Verification of a whole program: see program.hpp for the rules. Nothing else in core/ repeats these checks, so every
// stage that makes or changes a program calls verify on its result. Rules of single ops are in verify_ops.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/graph/composite.hpp"
#include "core/graph/meaning.hpp"
#include "core/graph/op_table.hpp"
#include "core/graph/program.hpp"
#include "core/graph/verify_ops.hpp"
#include "core/graph/view.hpp"

namespace crucible::graph {
namespace {

template <class... Args>
Error broken(fmt::format_string<Args...> text, Args&&... args) {
  return Error{ErrorCode::kInternal, fmt::format(text, std::forward<Args>(args)...)};
}

Result<void> check_values(const Program& program) {
  for (ValueId v = 0; v < program.values.size(); ++v) {
    const Value& value = program.values[v];
    if (value.elements < 0) return broken("value %{}: {} elements: must not be negative", v, value.elements);
    if (static_cast<int>(value.kind) > static_cast<int>(ValueKind::kConstant)) {
      return broken("value %{}: unknown kind {}", v, static_cast<int>(value.kind));
    }
    const bool known = value.dtype == DType::kBool || is_integral(value.dtype) || is_floating(value.dtype);
    if (!known) return broken("value %{}: dtype {}: nothing computes with it", v, name(value.dtype));
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(value.elements, static_cast<std::int64_t>(size_bytes(value.dtype)), &bytes)) {
      return broken("value %{}: {} elements of {} do not fit in 63 bits", v, value.elements, name(value.dtype));
    }
    const bool temporary = value.kind == ValueKind::kTemporary;
    if (!temporary && value.producer != kNone) {
      return broken("value %{}: only temporaries have a producer, and it names op {}", v, value.producer);
    }
    if (temporary && value.producer >= program.ops.size()) {
      return broken("value %{}: a temporary needs a producer among the {} ops, and it names {}", v, program.ops.size(),
                    value.producer);
    }
  }
  return {};
}

/// An operand or a result of an op as messages name it; put into words only where a rule is broken.
struct Place {
  const Program& program;
  OpId op;
  std::string_view part;  // "operand", "result"
  std::size_t number;
  std::string text() const { return fmt::format("{}: {} {}", describe_op(program, op), part, number); }
};

/// An output of the program, likewise.
struct OutputPlace {
  const Program& program;
  std::size_t number;
  std::string text() const { return fmt::format("output {} ({})", number, program.outputs[number].name); }
};

/// `where`: a Place or an OutputPlace.
template <class Where>
Result<void> check_view(const Program& program, const Operand& operand, const Where& where) {
  if (operand.value >= program.values.size()) {
    return broken("{}: value %{} does not exist; there are {}", where.text(), operand.value, program.values.size());
  }
  auto last = last_index(operand.view);
  if (!last) return broken("{}: sizes, strides or offset are negative, too large or differ in number", where.text());
  const auto elements = program.values[operand.value].elements;
  if (*last >= elements) {
    return broken("{}: the view reaches element {} of %{}, which has {}", where.text(), *last, operand.value, elements);
  }
  if (operand.scalar != Scalar{}) return broken("{}: a tensor operand must not carry a number", where.text());
  return {};
}

Result<void> check_scalar(const Program& program, const Operand& operand, const Place& where) {
  const Scalar& scalar = operand.scalar;
  if (scalar.slot != kNone && scalar.slot >= program.slots.size()) {
    return broken("{}: slot {} does not exist; there are {}", where.text(), scalar.slot, program.slots.size());
  }
  if (scalar.slot != kNone && scalar.is_integer != program.slots[scalar.slot].is_integer) {
    return broken("{}: slot {} holds {} numbers, the operand reads it as {} one", where.text(), scalar.slot,
                  program.slots[scalar.slot].is_integer ? "whole" : "real", scalar.is_integer ? "a whole" : "a real");
  }
  const bool numbers_unused = scalar.real == 0 && scalar.integer == 0;
  if (scalar.slot != kNone && !numbers_unused)
    return broken("{}: a slot operand must not carry a number too", where.text());
  if (scalar.slot == kNone && (scalar.is_integer ? scalar.real != 0 : scalar.integer != 0)) {
    return broken("{}: the scalar holds two numbers; is_integer says which one is meant", where.text());
  }
  if (operand.view != View{}) return broken("{}: a scalar operand must not carry a view", where.text());
  return {};
}

/// How many elements an operand may show. It shows few elements of a value often where it repeats or overlaps them, so
/// a file of a few bytes can ask for any work; no program shows much more than its tensors have: windows of 128 x 128
/// on its largest are allowed.
std::int64_t most_shown(const Program& program) {
  constexpr std::int64_t kAlways = std::int64_t{1} << 26, kMost = std::int64_t{1} << 44, kTimes = std::int64_t{1} << 14;
  std::int64_t largest = 0;
  for (const Value& value : program.values) largest = std::max(largest, value.elements);
  return largest >= kMost / kTimes ? kMost : std::max(kAlways, largest * kTimes);
}

Result<void> check_inputs(const Program& program, OpId index, const std::vector<bool>& defined, std::int64_t most) {
  const Op& op = program.ops[index];
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const Operand& operand = op.inputs[i];
    const Place where{program, index, "operand", i};
    if (operand.is_scalar()) {
      CRUCIBLE_TRY_VOID(check_scalar(program, operand, where));
      continue;
    }
    CRUCIBLE_TRY_VOID(check_view(program, operand, where));
    if (!defined[operand.value]) return broken("{}: %{} is used before it is defined", where.text(), operand.value);
    if (operand.view.elements() > most) {
      return broken("{}: shows {} elements of the {} of %{}; with the tensors of this program, {} are the limit",
                    where.text(), operand.view.elements(), program.values[operand.value].elements, operand.value, most);
    }
  }
  return {};
}

Result<void> check_outputs(const Program& program, OpId index, std::vector<bool>& defined) {
  const Op& op = program.ops[index];
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    const Operand& operand = op.outputs[i];
    const Place where{program, index, "result", i};
    if (operand.is_scalar()) return broken("{}: must be a tensor", where.text());
    CRUCIBLE_TRY_VOID(check_view(program, operand, where));
    const Value& value = program.values[operand.value];
    if (value.kind != ValueKind::kTemporary) return broken("{}: %{} is not a temporary", where.text(), operand.value);
    if (defined[operand.value]) return broken("{}: %{} is written twice", where.text(), operand.value);
    if (value.producer != index) {
      return broken("{}: %{} names op {} as its producer", where.text(), operand.value, value.producer);
    }
    // Of a product in pieces each result covers its part.
    const std::int64_t results =
        std::max<std::int64_t>(info(op.kind).op_class == OpClass::kContraction ? op.attributes.pieces : 1, 1);
    if (value.elements % results != 0 || !covers(operand.view, value.elements / results)) {
      return broken("{}: the view must cover the {} elements of %{} exactly once", where.text(), value.elements,
                    operand.value);
    }
    defined[operand.value] = true;
  }
  return {};
}

Result<void> check_ops(const Program& program, std::vector<bool>& defined) {
  const std::int64_t most = most_shown(program);
  for (OpId index = 0; index < program.ops.size(); ++index) {
    const Op& op = program.ops[index];
    if (!is_known(op.kind)) return broken("op {}: unknown kind {}", index, static_cast<int>(op.kind));
    if (op.source != kNone && op.source >= program.sources.size()) {
      return broken("op {} ({}): source {} does not exist; there are {}", index, name(op.kind), op.source,
                    program.sources.size());
    }
    const OpInfo& row = info(op.kind);
    const auto inputs = static_cast<int>(op.inputs.size());
    if (inputs < row.min_inputs || (row.max_inputs >= 0 && inputs > row.max_inputs)) {
      return broken("{}: has {} operands, needs {}{}", describe_op(program, index), inputs, row.min_inputs,
                    row.max_inputs < 0 ? " or more" : "");
    }
    if (row.outputs >= 0 && static_cast<int>(op.outputs.size()) != row.outputs) {
      return broken("{}: has {} results, needs {}", describe_op(program, index), op.outputs.size(), row.outputs);
    }
    CRUCIBLE_TRY_VOID(check_inputs(program, index, defined, most));
    CRUCIBLE_TRY_VOID(check_outputs(program, index, defined));
    CRUCIBLE_TRY_VOID(verify_op(program, index));
  }
  return {};
}

/// Each value of kind `kind` must be named exactly once by the program's lists; `seen` counts.
Result<void> check_listed(const Program& program, ValueId value, ValueKind kind, std::string_view list,
                          std::size_t index, std::vector<bool>& seen) {
  if (value >= program.values.size()) return broken("{} {}: value %{} does not exist", list, index, value);
  if (program.values[value].kind != kind) return broken("{} {}: %{} is of another kind", list, index, value);
  if (seen[value]) return broken("{} {}: %{} is listed twice", list, index, value);
  seen[value] = true;
  return {};
}

Result<void> check_state_end(const Program& program, std::size_t index, std::vector<bool>& ends) {
  const State& state = program.states[index];
  if (state.end == state.start) return {};
  if (state.end >= program.values.size()) return broken("state {}: end %{} does not exist", index, state.end);
  const Value& start = program.values[state.start];
  const Value& end = program.values[state.end];
  if (end.kind != ValueKind::kTemporary) {
    return broken("state {}: end %{} must be the start itself or a temporary", index, state.end);
  }
  if (ends[state.end]) return broken("state {}: end %{} ends another state too", index, state.end);
  ends[state.end] = true;
  if (start.dtype != end.dtype || start.elements != end.elements) {
    return broken("state {}: start %{} is {}[{}] but end %{} is {}[{}]", index, state.start, name(start.dtype),
                  start.elements, state.end, name(end.dtype), end.elements);
  }
  return {};
}

Result<void> check_lists(const Program& program) {
  std::vector<bool> seen(program.values.size(), false), ends(program.values.size(), false);
  for (std::size_t i = 0; i < program.states.size(); ++i) {
    CRUCIBLE_TRY_VOID(check_listed(program, program.states[i].start, ValueKind::kState, "state", i, seen));
    CRUCIBLE_TRY_VOID(check_state_end(program, i, ends));
  }
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const Input& input = program.inputs[i];
    CRUCIBLE_TRY_VOID(check_listed(program, input.value, ValueKind::kInput, "input", i, seen));
    if (input.blobs.size() != program.iterations) {
      return broken("input {}: has {} blobs for {} iterations", i, input.blobs.size(), program.iterations);
    }
  }
  for (std::size_t i = 0; i < program.constants.size(); ++i) {
    CRUCIBLE_TRY_VOID(check_listed(program, program.constants[i].value, ValueKind::kConstant, "constant", i, seen));
  }
  for (ValueId v = 0; v < program.values.size(); ++v) {
    if (program.values[v].kind != ValueKind::kTemporary && !seen[v]) {
      return broken("value %{}: enters from outside but is in no list of states, inputs or constants", v);
    }
  }
  return {};
}

Result<void> check_tensor_output(const Program& program, const Output& output, const OutputPlace& where,
                                 const std::vector<bool>& defined, const std::vector<bool>& overwritten) {
  if (!defined[output.operand.value]) return broken("{}: %{} is never defined", where.text(), output.operand.value);
  if (!output.recorded.empty()) return broken("{}: a tensor has recorded numbers", where.text());
  if (output.is_bounds()) return broken("{}: a tensor has bounds", where.text());
  if (output.blobs.size() != program.iterations) {
    return broken("{}: has {} recorded tensors for {} iterations", where.text(), output.blobs.size(),
                  program.iterations);
  }
  // The next iteration begins with what the state ends as, which lies where its start was.
  if (overwritten[output.operand.value]) {
    return broken("{}: %{} is a state that the iteration changes", where.text(), output.operand.value);
  }
  return {};
}

Result<void> check_bounds_output(const Program& program, const Output& output, const OutputPlace& where,
                                 const std::vector<bool>& defined) {
  if (program.values[output.operand.value].dtype != DType::kI64)
    return broken("{}: bounds are of i64 numbers", where.text());
  if (output.operand.view != View::contiguous({2 * static_cast<std::int64_t>(output.bounds.size())})) {
    return broken("{}: {} bounds need a dense list of {} elements", where.text(), output.bounds.size(),
                  2 * output.bounds.size());
  }
  if (!defined[output.operand.value]) return broken("{}: %{} is never defined", where.text(), output.operand.value);
  if (!output.recorded.empty()) return broken("{}: bounds have recorded numbers", where.text());
  for (const Bound& bound : output.bounds) {
    if (bound.source != kNone && bound.source >= program.sources.size())
      return broken("{}: a bound is of source {} of {}", where.text(), bound.source, program.sources.size());
  }
  return {};
}

Result<void> check_slots_and_outputs(const Program& program, const std::vector<bool>& defined) {
  for (std::size_t i = 0; i < program.slots.size(); ++i) {
    if (program.slots[i].values.size() != program.iterations) {
      return broken("slot {} ({}): has {} values for {} iterations", i, program.slots[i].name,
                    program.slots[i].values.size(), program.iterations);
    }
    for (const Number& number : program.slots[i].values) {
      if (number.is_integer() == program.slots[i].is_integer) continue;
      return broken("slot {} ({}): is of {} numbers, one of its values is {}", i, program.slots[i].name,
                    program.slots[i].is_integer ? "whole" : "real", number.is_integer() ? "whole" : "real");
    }
  }
  std::vector<bool> overwritten(program.values.size(), false);
  for (const State& state : program.states)
    overwritten[state.start] = overwritten[state.start] || state.end != state.start;
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    const Output& output = program.outputs[i];
    const OutputPlace where{program, i};
    if (output.operand.is_scalar()) return broken("{}: must be an element of a value", where.text());
    CRUCIBLE_TRY_VOID(check_view(program, output.operand, where));
    if (output.is_tensor()) {
      CRUCIBLE_TRY_VOID(check_tensor_output(program, output, where, defined, overwritten));
      continue;
    }
    if (output.is_bounds()) {
      CRUCIBLE_TRY_VOID(check_bounds_output(program, output, where, defined));
      continue;
    }
    if (i > 0 && !program.outputs[i - 1].is_number())
      return broken("{}: a number stands behind a tensor", where.text());
    if (output.operand.view.elements() != 1) {
      return broken("{}: has {} elements, needs one", where.text(), output.operand.view.elements());
    }
    if (!defined[output.operand.value]) return broken("{}: %{} is never defined", where.text(), output.operand.value);
    if (output.recorded.size() != program.iterations) {
      return broken("{}: has {} recorded values for {} iterations", where.text(), output.recorded.size(),
                    program.iterations);
    }
  }
  return {};
}

}  // namespace

Result<void> verify(const Program& program) {
  CRUCIBLE_TRY_VOID(check_values(program));
  CRUCIBLE_TRY_VOID(verify_composites(program));
  CRUCIBLE_TRY_VOID(verify_meanings(program));
  std::vector<bool> defined(program.values.size(), false);
  for (ValueId v = 0; v < program.values.size(); ++v) {
    defined[v] = program.values[v].kind != ValueKind::kTemporary;
  }
  CRUCIBLE_TRY_VOID(check_ops(program, defined));
  for (ValueId v = 0; v < program.values.size(); ++v) {
    if (!defined[v]) return broken("value %{}: op {} does not write it", v, program.values[v].producer);
  }
  CRUCIBLE_TRY_VOID(check_lists(program));
  return check_slots_and_outputs(program, defined);
}

}  // namespace crucible::graph
