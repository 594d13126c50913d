// Passes over numbers: constants of one element become numbers in the ops that read them, slots that always agree
// become one, and arithmetic that changes no bit goes away.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>

#include "core/graph/op_table.hpp"
#include "core/graph/passes.hpp"
#include "core/graph/reference_numbers.hpp"
#include "core/graph/view.hpp"

namespace crucible::graph {
namespace {

/// Whether operand `i` of `op` may be a number: element-wise ops allow one everywhere but where the op table's class
/// needs a tensor, and at least one operand stays a tensor.
bool may_be_number(const Program& program, const Op& op, std::size_t i) {
  const OpClass op_class = info(op.kind).op_class;
  switch (op_class) {
    case OpClass::kConversion:
      return false;  // a copy of a number is a fill
    case OpClass::kComparison:
    case OpClass::kLogic:
      return i > 0;
    case OpClass::kSelection:
      return i > 0 && !op.inputs[3 - i].is_scalar();
    case OpClass::kArithmetic:
    case OpClass::kFloating:
      // The number is converted to the result's dtype at once; a tensor too, so both round alike.
      return op.inputs.size() == 2 && !op.inputs[1 - i].is_scalar() &&
             is_floating(program.values[op.outputs[0].value].dtype) ==
                 is_floating(program.values[op.inputs[i].value].dtype);
    default:
      return false;
  }
}

bool has_arithmetic(DType dtype) { return dtype != DType::kC64 && dtype != DType::kC128 && dtype != DType::kOther; }

/// The one element as a number; nothing for dtypes without arithmetic.
std::optional<Scalar> number_in(DType dtype, const std::vector<std::byte>& bytes) {
  if (bytes.size() != size_bytes(dtype) || !has_arithmetic(dtype)) return std::nullopt;
  const Numbers element = load(bytes, dtype, View::contiguous({1}));
  Scalar scalar;
  scalar.is_integer = element.is_integer;
  if (element.is_integer) {
    scalar.integer = element.integer[0];
  } else {
    scalar.real = element.real[0];
  }
  return scalar;
}

/// The dtype that a number operand of an element-wise op is converted to before anything is computed; nothing for
/// others.
std::optional<DType> dtype_of_numbers(const Program& program, const Op& op) {
  switch (info(op.kind).op_class) {
    case OpClass::kComparison:
      return program.values[op.inputs[0].value].dtype;
    case OpClass::kArithmetic:
    case OpClass::kFloating:
    case OpClass::kSelection:
      return program.values[op.outputs[0].value].dtype;
    default:
      return op.kind == OpKind::kFill ? std::optional(program.values[op.outputs[0].value].dtype) : std::nullopt;
  }
}

bool is_number(const Operand& operand, double wanted) {
  if (!operand.is_scalar() || operand.scalar.slot != kNone) return false;
  return operand.scalar.is_integer ? static_cast<double>(operand.scalar.integer) == wanted
                                   : operand.scalar.real == wanted;
}

/// The operand that an op hands on without changing a bit of it, or kNone.
std::size_t unchanged_operand(const Op& op) {
  constexpr std::size_t kNothing = kNone;
  switch (op.kind) {
    case OpKind::kCopy:  // into the layout that it has: the reader asks for the dtype
      return op.inputs[0].view.is_contiguous() ? 0 : kNothing;
    case OpKind::kMultiply:
      return is_number(op.inputs[1], 1) ? 0 : is_number(op.inputs[0], 1) ? 1 : kNothing;
    case OpKind::kDivide:
      return is_number(op.inputs[1], 1) ? 0 : kNothing;
    case OpKind::kSubtract:  // x - (+0) is x for every x; x + 0 turns -0 into +0
      return is_number(op.inputs[1], 0) &&
                     !(op.inputs[1].scalar.is_integer == false && std::signbit(op.inputs[1].scalar.real))
                 ? 0
                 : kNothing;
    default:
      return kNothing;
  }
}

/// A copy of so much of a value that keeping all of it for the copy's readers is no loss.
bool is_large_part(const Program& program, const Op& op) {
  constexpr std::int64_t kMostTimesLarger =
      4;  // as keys and values are of the product that makes queries, keys and values
  if (op.kind != OpKind::kCopy || op.inputs[0].is_scalar()) return false;
  return kMostTimesLarger * op.outputs[0].view.elements() >= program.values[op.inputs[0].value].elements;
}

/// Products read matrices whose rows or columns lie side by side as fast as any.
bool is_matrix(const View& view) {
  const std::size_t rank = view.sizes.size();
  return rank >= 2 && (view.strides[rank - 1] == 1 || view.strides[rank - 2] == 1);
}

/// The number as `op` computes with it. A tensor is rounded to f16 or bf16 before anything is computed, a number to
/// f32.
Scalar number_for(const Program& program, const Op& op, const Scalar& number) {
  const auto dtype = dtype_of_numbers(program, op);
  if (dtype != DType::kF16 && dtype != DType::kBF16) return number;
  return Scalar{kNone, false, round_to(*dtype, number.is_integer ? static_cast<double>(number.integer) : number.real),
                0};
}

}  // namespace

Result<void> inline_constants(Program& program, const trace::BlobStore& blobs) {
  std::map<ValueId, Scalar> numbers;  // values whose elements all are one number
  for (const Constant& constant : program.constants) {
    const Value& value = program.values[constant.value];
    if (value.elements != 1 || constant.blob == kNone) continue;
    CRUCIBLE_TRY(const auto bytes, blobs.load(constant.blob));
    if (const auto number = number_in(value.dtype, bytes)) numbers.emplace(constant.value, *number);
  }
  for (Op& op : program.ops) {
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const auto found = op.inputs[i].is_scalar() ? numbers.end() : numbers.find(op.inputs[i].value);
      if (found == numbers.end() || !may_be_number(program, op, i)) continue;
      op.inputs[i] = Operand{kNone, {}, number_for(program, op, found->second)};
    }
    // Readers of what drop_identities will drop read the number too, so that a second run finds nothing new.
    const std::size_t kept = unchanged_operand(op);
    const auto same = kept == kNone ? numbers.end() : numbers.find(op.inputs[kept].value);
    if (same == numbers.end() || program.values[same->first].dtype != program.values[op.outputs[0].value].dtype)
      continue;
    numbers.emplace(op.outputs[0].value, same->second);
  }
  return {};
}

void number_kinds(Program& program) {
  constexpr std::int64_t kExact = std::int64_t{1} << 53;  // a double holds every integer up to here
  const auto is_exact = [](std::int64_t integer) { return integer <= kExact && integer >= -kExact; };
  // A slot has one type for all of its readers.
  std::vector<bool> is_real(program.slots.size(), true);
  for (SlotId slot = 0; slot < program.slots.size(); ++slot) {
    is_real[slot] = program.slots[slot].is_integer &&
                    std::ranges::all_of(program.slots[slot].values,
                                        [&](const Number& number) { return is_exact(number.integer()); });
  }
  for (Op& op : program.ops) {
    const auto dtype = dtype_of_numbers(program, op);
    const bool is_floating_here = dtype && is_floating(*dtype);
    for (Operand& input : op.inputs) {
      Scalar& scalar = input.scalar;
      if (!input.is_scalar() || !scalar.is_integer) continue;
      if (scalar.slot != kNone) {
        if (!is_floating_here) is_real[scalar.slot] = false;
      } else if (is_floating_here && is_exact(scalar.integer)) {
        scalar = Scalar{kNone, false, static_cast<double>(scalar.integer), 0};
      }
    }
  }
  for (SlotId slot = 0; slot < program.slots.size(); ++slot) {
    if (!is_real[slot]) continue;
    program.slots[slot].is_integer = false;
    for (Number& number : program.slots[slot].values) number = Number(number.real());
  }
  for (Op& op : program.ops) {
    for (Operand& input : op.inputs) {
      if (input.is_scalar() && input.scalar.slot != kNone)
        input.scalar.is_integer = program.slots[input.scalar.slot].is_integer;
    }
  }
}

void merge_slots(Program& program) {
  if (program.iterations < 2) return;  // one number says nothing about the next
  std::map<std::vector<Number>, SlotId> first;  // by type and bits: 0 and -0 are two numbers, and a NaN is like itself
  std::vector<SlotId> renamed(program.slots.size());
  for (SlotId s = 0; s < program.slots.size(); ++s)
    renamed[s] = first.emplace(program.slots[s].values, s).first->second;
  for (Op& op : program.ops) {
    for (Operand& input : op.inputs) {
      if (input.is_scalar() && input.scalar.slot != kNone) input.scalar.slot = renamed[input.scalar.slot];
    }
  }
}

void drop_identities(Program& program) {
  std::vector<bool> is_end(program.values.size(), false);
  for (const State& state : program.states) is_end[state.end] = true;
  struct Same {
    Operand kept;
    bool is_moved;  // copied from another layout
  };
  std::map<ValueId, Same> same_as;  // a result, and the operand that it equals element by element
  const auto reads_further_back = [&](const Op& op, Operand& input) {
    const auto found = input.is_scalar() ? same_as.end() : same_as.find(input.value);
    if (found == same_as.end() || (found->second.is_moved && op.kind != OpKind::kMatMul)) return false;
    // An update reads its base whole.
    const auto& kept = found->second.kept;
    const bool is_base = op.kind == OpKind::kUpdate && &input == op.inputs.data();
    if (is_base && !covers(kept.view, program.values[kept.value].elements)) return false;
    // Results are row-major, so that `kept` and they have their elements in one order.
    const auto moved = relaid(input.view, View::contiguous(kept.view.sizes), kept.view);
    const auto view = moved ? reshaped(*moved, input.view.sizes) : std::nullopt;
    if (!view || (found->second.is_moved && !is_matrix(*view))) return false;
    input.value = kept.value;
    input.view = *view;
    return true;
  };
  for (Op& op : program.ops) {
    if (op.kind == OpKind::kComposite) continue;  // its body reads whole buffers, as they lie
    for (Operand& input : op.inputs) {
      // Step by step: a part that no view expresses before one copy may have one behind the next.
      while (reads_further_back(op, input)) {
      }
    }
    const std::size_t unchanged = unchanged_operand(op);
    const bool is_moved = unchanged == kNone && is_large_part(program, op);
    const std::size_t kept = is_moved ? 0 : unchanged;
    if (kept == kNone || op.inputs[kept].is_scalar()) continue;
    const Operand& result = op.outputs[0];
    const bool row_major = result.view.is_contiguous() && result.view.offset == 0;
    if (!row_major || is_end[result.value] ||
        program.values[op.inputs[kept].value].dtype != program.values[result.value].dtype)
      continue;
    same_as.emplace(result.value, Same{op.inputs[kept], is_moved});
  }
}

}  // namespace crucible::graph
