// Element-wise ops, generators and reductions of wild programs: see wild_builder.hpp.
#include <array>

#include "core/graph/op_table.hpp"
#include "core/graph/testing/wild_builder.hpp"
#include "core/graph/view.hpp"

namespace crucible::graph {
namespace {

/// Any element-wise kind that has operands; the op table says the rest.
OpKind elementwise_kind(WildBuilder& b) {
  return static_cast<OpKind>(b.integer(0, static_cast<std::int64_t>(OpKind::kSelect)));
}

DType result_dtype(WildBuilder& b, OpClass op_class, DType first) {
  const bool keeps = b.one_in(2);
  switch (op_class) {
    case OpClass::kConversion:
      return b.any_dtype();
    case OpClass::kFloating:
      return keeps && is_floating(first) ? first : b.floating();
    case OpClass::kInteger:
      return keeps && is_integral(first) ? first : b.integral();
    case OpClass::kTest:
    case OpClass::kComparison:
    case OpClass::kLogic:
      return DType::kBool;
    case OpClass::kSelection:
      return keeps ? first : b.any_dtype();
    default:
      return keeps && first != DType::kBool ? first : b.arithmetic();
  }
}

/// Random dimensions in ascending order; never none where `least` is 1.
std::vector<std::int64_t> some_dims(WildBuilder& b, std::size_t rank, std::size_t least) {
  std::vector<std::int64_t> dims;
  for (std::size_t d = 0; d < rank; ++d) {
    if (b.one_in(2) || (dims.size() < least && d + 1 == rank)) dims.push_back(static_cast<std::int64_t>(d));
  }
  return dims;
}

}  // namespace

void wild_elementwise(WildBuilder& b) {
  const OpKind kind = elementwise_kind(b);
  const OpInfo& row = info(kind);
  if (row.op_class == OpClass::kSelection) {
    const Operand condition = b.tensor_of(DType::kBool);
    const Sizes sizes = condition.view.sizes;
    const Operand x = b.either(sizes), y = b.either(sizes);
    const DType first = x.is_scalar() ? DType::kF32 : b.dtype(x);
    b.emit(kind, {condition, x, y}, sizes, result_dtype(b, row.op_class, first));
    return;
  }
  const Operand first = b.tensor();
  const Sizes sizes = first.view.sizes;
  std::vector<Operand> operands = {first};
  if (row.min_inputs == 2) operands.push_back(b.either(sizes, b.one_in(2) ? b.dtype(first) : DType::kOther));
  const bool first_is_tensor = row.op_class == OpClass::kComparison || row.op_class == OpClass::kLogic;
  if (operands.size() == 2 && !first_is_tensor && b.one_in(3)) std::swap(operands[0], operands[1]);
  b.emit(kind, std::move(operands), sizes, result_dtype(b, row.op_class, b.dtype(first)));
}

void wild_identity(WildBuilder& b) {
  constexpr std::array kKinds = {OpKind::kMultiply, OpKind::kMultiply, OpKind::kDivide, OpKind::kSubtract,
                                 OpKind::kSubtract, OpKind::kAdd};
  const OpKind kind = b.one_of(kKinds);
  const Operand x = b.tensor();
  const bool scales = kind == OpKind::kMultiply || kind == OpKind::kDivide;
  Operand number = b.one_in(2) ? b.whole(scales ? 1 : 0) : b.fixed(scales ? 1.0 : 0.0);
  if (!scales && b.one_in(4)) number = b.fixed(-0.0);
  DType dtype = b.one_in(4) || b.dtype(x) == DType::kBool ? b.arithmetic() : b.dtype(x);
  if (kind == OpKind::kDivide && !is_floating(dtype)) dtype = b.floating();
  const Operand result =
      b.emit(kind, b.one_in(3) ? std::vector{number, x} : std::vector{x, number}, x.view.sizes, dtype);
  // Read at once, whole or through a view, by ops that have rules about how they read.
  if (b.one_in(2)) return;
  const Operand seen = b.one_in(2) ? result : b.viewed(result);
  b.emit(OpKind::kCopy, {seen}, seen.view.sizes, dtype);
}

void wild_generator(WildBuilder& b) {
  const Sizes sizes = b.sizes(1, 3);
  const DType dtype = b.arithmetic();
  if (b.one_in(2)) {
    b.emit(OpKind::kFill, {b.number()}, sizes, dtype);
    return;
  }
  Attributes a;
  a.dims = {b.integer(0, static_cast<std::int64_t>(sizes.size()) - 1)};
  b.emit(OpKind::kCoordinate, {}, sizes, dtype, a);
}

void wild_reduction(WildBuilder& b) {
  constexpr std::array kKinds = {OpKind::kReduceSum, OpKind::kReduceMax, OpKind::kReduceMin, OpKind::kReduceProduct};
  const OpKind kind = b.one_of(kKinds);
  const bool extremum = kind == OpKind::kReduceMax || kind == OpKind::kReduceMin;
  const Operand x = extremum ? b.filled_tensor() : b.tensor();
  Attributes a;
  a.dims = some_dims(b, x.view.sizes.size(), 0);
  Sizes sizes = x.view.sizes;
  for (const auto dim : a.dims) sizes[static_cast<std::size_t>(dim)] = 1;
  const bool keeps = extremum || (b.one_in(2) && b.dtype(x) != DType::kBool);
  b.emit(kind, {x}, sizes, keeps ? b.dtype(x) : b.arithmetic(), a);
}

void wild_large_reduction(WildBuilder& b) {
  constexpr std::array kKinds = {OpKind::kReduceSum, OpKind::kReduceMax, OpKind::kReduceMin};
  const OpKind kind = b.one_of(kKinds);
  // Two dimensions that repeat a few numbers: 32768 elements and more, but hardly any memory.
  const std::int64_t width = b.side(), rows = 32768 / width + b.integer(0, 9);
  const bool exact = kind == OpKind::kReduceSum;
  Operand x = b.outside(ValueKind::kInput, exact && b.one_in(3) ? b.integral() : b.floating(), {1, width},
                        exact ? Filling::kWhole : Filling::kAwkward);
  x.view.sizes[0] = rows;
  x.view.strides[0] = 0;
  if (b.one_in(3)) {
    std::swap(x.view.sizes[0], x.view.sizes[1]);
    std::swap(x.view.strides[0], x.view.strides[1]);
  }
  Attributes a;
  a.dims = {0, 1};
  // Narrow sums would leave the whole numbers that they hold exactly.
  const DType dtype = !exact ? b.dtype(x) : is_integral(b.dtype(x)) ? DType::kI64 : DType::kF64;
  b.emit(kind, {x}, {1, 1}, dtype, a);
}

void wild_along(WildBuilder& b) {
  const auto kind =
      static_cast<OpKind>(b.integer(static_cast<int>(OpKind::kArgMax), static_cast<int>(OpKind::kSortDescending)));
  Operand x = b.filled_tensor();
  if (x.view.sizes.empty()) x.view = *reshaped(x.view, {1});
  if (b.dtype(x) == DType::kBool && (kind == OpKind::kScanSum || kind == OpKind::kScanProduct)) {
    x = b.emit(OpKind::kCopy, {x}, x.view.sizes, b.arithmetic());
  }
  Sizes sizes = x.view.sizes;
  Attributes a;
  a.dims = {b.integer(0, static_cast<std::int64_t>(sizes.size()) - 1)};
  if (info(kind).op_class == OpClass::kArgReduction) {
    sizes[static_cast<std::size_t>(a.dims[0])] = 1;
    b.emit(kind, {x}, sizes, DType::kI64, a);
    return;
  }
  b.emit(kind, {x}, sizes, b.dtype(x), a);
  if (info(kind).outputs == 2) b.emit_second(sizes, DType::kI64);
}

}  // namespace crucible::graph
