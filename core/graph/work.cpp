// Bytes and flops of single ops, from shapes: see queries.hpp.
#include <algorithm>
#include <bit>

#include "core/graph/composite.hpp"
#include "core/graph/op_table.hpp"
#include "core/graph/queries.hpp"

namespace crucible::graph {
namespace {

/// Distinct elements that a view reads: dimensions with stride 0 repeat, and overlapping windows see no more than the
/// buffer.
std::uint64_t distinct_elements(const Program& program, const Operand& operand) {
  const View& view = operand.view;
  std::int64_t count = 1;
  for (std::size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] == 0) return 0;
    if (view.strides[d] == 0) continue;
    // Sizes of a view that repeats elements may have a product without meaning.
    if (__builtin_mul_overflow(count, view.sizes[d], &count))
      return static_cast<std::uint64_t>(program.values[operand.value].elements);
  }
  return static_cast<std::uint64_t>(std::min(count, program.values[operand.value].elements));
}

std::uint64_t elements(const Operand& operand) { return static_cast<std::uint64_t>(operand.view.elements()); }

/// Products of a convolution: each element of the images that the filters make (or made) meets one filter of the
/// weight.
std::uint64_t filtered(const Operand& images, const Operand& weight) {
  const std::int64_t filters = weight.view.sizes[0];
  return filters == 0 ? 0 : 2 * elements(images) * (elements(weight) / static_cast<std::uint64_t>(filters));
}

/// The usual counts of multiplications and additions; of the iterative ones about what ten sweeps take.
std::uint64_t factorization_flops(const Op& op) {
  if (op.kind == OpKind::kPivotsToPermutation) return 0;
  const View& x = op.inputs[0].view;
  const std::size_t rank = x.sizes.size();
  const auto rows = static_cast<std::uint64_t>(x.sizes[rank - 2]),
             columns = static_cast<std::uint64_t>(x.sizes[rank - 1]);
  const std::uint64_t area = elements(op.inputs[0]), least = std::min(rows, columns);
  switch (op.kind) {
    case OpKind::kCholesky:
      return area * rows / 3;
    case OpKind::kTriangularSolve:
      return elements(op.inputs[1]) * rows;
    case OpKind::kLu:
      return area * least * 2 / 3;
    case OpKind::kHouseholderQr:
      return area * least * 4 / 3;
    case OpKind::kHouseholderProduct:
      return elements(op.outputs[0]) * columns * 4;
    default:
      return area * columns * 40;
  }
}

}  // namespace

std::uint64_t flops(const Op& op) {
  if (static_cast<int>(op.kind) >= kOpKindCount) return 0;  // of an opaque op nobody knows, of a composite see work()
  const Operand& out = op.outputs[0];
  switch (info(op.kind).op_class) {
    case OpClass::kConversion:
    case OpClass::kGenerator:
    case OpClass::kOpaque:
    case OpClass::kComposite:
      return 0;
    case OpClass::kArithmetic:
    case OpClass::kFloating:
    case OpClass::kInteger:
    case OpClass::kTest:
    case OpClass::kComparison:
    case OpClass::kLogic:
    case OpClass::kSelection:
      return elements(out);
    case OpClass::kReduction:
    case OpClass::kArgReduction:
    case OpClass::kScan:
      return elements(op.inputs[0]);
    case OpClass::kSort: {
      const auto& sizes = op.inputs[0].view.sizes;
      const auto line = sizes.empty() ? 1 : sizes[static_cast<std::size_t>(op.attributes.dims[0])];
      return elements(op.inputs[0]) * static_cast<std::uint64_t>(std::bit_width(
                                          static_cast<std::uint64_t>(std::max<std::int64_t>(line - 1, 0))));
    }
    case OpClass::kIndexed:
      if (op.kind == OpKind::kScatterAddRows) return elements(op.inputs[0]);
      return is_put(op.kind) && op.kind != OpKind::kPutSet ? elements(op.inputs[2]) : 0;
    case OpClass::kContraction:
      switch (op.kind) {
        case OpKind::kConv2d:
          return filtered(out, op.inputs[1]);
        case OpKind::kConv2dBackwardInput:
          return filtered(op.inputs[0], op.inputs[1]);
        case OpKind::kConv2dBackwardWeight:
          return filtered(op.inputs[0], out);
        default:
          return 2 * elements(out) * static_cast<std::uint64_t>(op.inputs[0].view.sizes.back());
      }
    case OpClass::kPooling: {
      if (op.kind == OpKind::kMaxPool2dBackward) return elements(op.inputs[0]);
      return elements(out) * static_cast<std::uint64_t>(op.attributes.kernel[0] * op.attributes.kernel[1]);
    }
    case OpClass::kFactorization:
      return factorization_flops(op);
  }
  return 0;
}

Work work(const Program& program, OpId id) {
  const Op& op = program.ops[id];
  Work result;
  for (const Operand& input : op.inputs) {
    if (!input.is_scalar())
      result.bytes_read += distinct_elements(program, input) * size_bytes(program.values[input.value].dtype);
  }
  for (const Operand& output : op.outputs) {
    const Value& value = program.values[output.value];
    result.bytes_written += static_cast<std::uint64_t>(value.elements) * size_bytes(value.dtype);
  }
  result.flops = flops(op);
  if (op.kind == OpKind::kComposite) {
    for (const Op& inner : composite_of(program, op).body.ops) result.flops += flops(inner);
  }
  return result;
}

}  // namespace crucible::graph
