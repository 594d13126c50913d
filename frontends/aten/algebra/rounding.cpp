// One rounding per recorded op: see rounding.hpp.
#include "frontends/aten/algebra/rounding.hpp"

#include "core/graph/op_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpClass;
using graph::OpKind;

bool is_narrow(DType dtype) { return compute_dtype(dtype) != dtype; }

/// Results are elements of operands, as they were: nothing is rounded. Of `op` and the dtypes of its first operand and
/// result.
bool moves_elements(const graph::Op& op, DType from, DType to) {
  if (from != to) return false;
  switch (graph::info(op.kind).op_class) {
    case OpClass::kConversion:
    case OpClass::kSelection:
    case OpClass::kSort:
      return true;
    case OpClass::kIndexed:
      return op.kind != OpKind::kPutAdd && op.kind != OpKind::kPutMultiply && op.kind != OpKind::kScatterAddRows;
    case OpClass::kArithmetic:
      return op.kind == OpKind::kNegate || op.kind == OpKind::kAbsolute || op.kind == OpKind::kMaximum ||
             op.kind == OpKind::kMinimum;
    case OpClass::kReduction:
      return op.kind == OpKind::kReduceMax || op.kind == OpKind::kReduceMin;
    default:
      return false;
  }
}

/// The dtype of what is computed with: a selection's condition comes first.
DType dtype_read(const graph::Program& program, const graph::Op& op) {
  DType from = DType::kOther;
  for (const graph::Operand& input : op.inputs) {
    if (!input.is_scalar() && (from == DType::kOther || is_narrow(program.values[input.value].dtype)))
      from = program.values[input.value].dtype;
  }
  return from;
}

}  // namespace

Term unrounded(Emitter& e, const Term& product) {
  if (product.is_number() || !is_narrow(product.dtype)) return product;
  graph::Value& value = e.program().values[product.operand.value];
  if (value.producer == graph::kNone ||
      graph::info(e.program().ops[value.producer].kind).op_class != OpClass::kContraction)
    return product;
  Term wide = product;
  wide.dtype = value.dtype = compute_dtype(product.dtype);
  return wide;
}

std::vector<MiddleRounding> middle_roundings(const graph::Program& program) {
  std::vector<MiddleRounding> found;
  std::vector<graph::OpId> rounded_by(program.values.size(), graph::kNone);
  for (graph::OpId id = 0; id < program.ops.size(); ++id) {
    const graph::Op& op = program.ops[id];
    const auto dtype = [&](const graph::Operand& operand) { return program.values[operand.value].dtype; };
    graph::OpId before = graph::kNone;  // what this op's source has rounded of what it reads
    const DType from = dtype_read(program, op);
    for (const graph::Operand& input : op.inputs) {
      if (input.is_scalar()) continue;
      const graph::OpId rounds = rounded_by[input.value];
      if (rounds != graph::kNone && program.ops[rounds].source == op.source) before = rounds;
    }
    for (const graph::Operand& output : op.outputs) {
      const bool moves = from != DType::kOther && moves_elements(op, from, dtype(output));
      if (before != graph::kNone && !moves) {
        found.push_back({op.source, before, id});
        before = graph::kNone;
      }
      if (!is_narrow(dtype(output))) continue;
      if (moves) {
        rounded_by[output.value] = before;
      } else if (graph::info(op.kind).op_class != OpClass::kGenerator) {
        rounded_by[output.value] = id;
      }
    }
  }
  return found;
}

std::set<std::uint32_t> rounding_ops(const graph::Program& program, graph::ValueId value) {
  std::set<std::uint32_t> found;
  std::set<graph::ValueId> seen{value};
  std::vector<graph::ValueId> open{value};
  while (!open.empty()) {
    const graph::Value& at = program.values[open.back()];
    open.pop_back();
    if (at.producer == graph::kNone) continue;
    const graph::Op& op = program.ops[at.producer];
    const DType from = dtype_read(program, op);
    const bool moves = from != DType::kOther && moves_elements(op, from, at.dtype);
    if (is_narrow(at.dtype) && !moves && graph::info(op.kind).op_class != OpClass::kGenerator) found.insert(op.source);
    for (const graph::Operand& input : op.inputs) {
      if (!input.is_scalar() && seen.insert(input.value).second) open.push_back(input.value);
    }
  }
  return found;
}

}  // namespace crucible::aten
