// Building the kernel IR: interning of expressions, folding of index arithmetic, nesting of blocks. See ir_builder.hpp.
#include "core/kernel/ir/ir_builder.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace crucible::kernel {
namespace {

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdull;
}

std::uint64_t hash_of(const Expr& expr) {
  std::uint64_t hash = static_cast<std::uint64_t>(expr.operation) << 8 | static_cast<std::uint64_t>(expr.type);
  for (ExprId in : expr.in) hash = mix(hash, in);
  hash = mix(hash, expr.id);
  hash = mix(hash, static_cast<std::uint64_t>(expr.integer));
  hash = mix(hash, static_cast<std::uint64_t>(expr.high));
  return mix(hash, std::bit_cast<std::uint64_t>(expr.real));
}

bool is_comparison(Operation operation) { return operation >= Operation::kLess && operation <= Operation::kOr; }

}  // namespace

IrBuilder::IrBuilder() { open_.emplace_back(); }

BufferId IrBuilder::add_buffer(DType type, bool written) {
  ir_.buffers.push_back({type, written, false});
  return static_cast<BufferId>(ir_.buffers.size() - 1);
}

ArrayId IrBuilder::add_array(DType type, std::int64_t size) {
  ir_.arrays.push_back({type, size});
  return static_cast<ArrayId>(ir_.arrays.size() - 1);
}

ExprId IrBuilder::intern(const Expr& expr) {
  auto& bucket = interned_[hash_of(expr)];
  for (ExprId id : bucket) {
    // Compared by bits: 0.0 and -0.0 are different constants.
    if (ir_.exprs[id] == expr &&
        std::bit_cast<std::uint64_t>(ir_.exprs[id].real) == std::bit_cast<std::uint64_t>(expr.real)) {
      return id;
    }
  }
  ir_.exprs.push_back(expr);
  bucket.push_back(static_cast<ExprId>(ir_.exprs.size() - 1));
  return bucket.back();
}

ExprId IrBuilder::integer(std::int64_t value, DType type) {
  return intern({.operation = Operation::kInteger, .type = type, .integer = value});
}

ExprId IrBuilder::real(double value, DType type) {
  return intern({.operation = Operation::kReal, .type = type, .real = value});
}

ExprId IrBuilder::scalar(std::uint32_t index, DType type) {
  return intern({.operation = Operation::kScalar, .type = type, .id = index});
}

ExprId IrBuilder::variable(VariableId id) {
  return intern({.operation = Operation::kVariable, .type = ir_.variables[id].type, .id = id});
}

ExprId IrBuilder::load(BufferId buffer, ExprId index) {
  return intern(
      {.operation = Operation::kLoad, .type = ir_.buffers[buffer].type, .in = {index, kNoId, kNoId}, .id = buffer});
}

ExprId IrBuilder::element(ArrayId array, ExprId index) {
  return intern(
      {.operation = Operation::kElement, .type = ir_.arrays[array].type, .in = {index, kNoId, kNoId}, .id = array});
}

ExprId IrBuilder::convert(ExprId a, DType type) {
  if (ir_.exprs[a].type == type) return a;
  if (ir_.exprs[a].operation == Operation::kInteger && (type == DType::kF32 || type == DType::kF64)) {
    return real(static_cast<double>(ir_.exprs[a].integer), type);
  }
  // By way of f32, as the framework does it: not every device rounds a double to a half once.
  if (ir_.exprs[a].type == DType::kF64 && (type == DType::kF16 || type == DType::kBF16))
    return convert(convert(a, DType::kF32), type);
  return intern({.operation = Operation::kConvert, .type = type, .in = {a, kNoId, kNoId}});
}

ExprId IrBuilder::assume(ExprId a, std::int64_t low, std::int64_t high) {
  return intern(
      {.operation = Operation::kAssume, .type = type(a), .in = {a, kNoId, kNoId}, .integer = low, .high = high});
}

ExprId IrBuilder::guard(ExprId a, std::int64_t low, std::int64_t high) {
  return binary(Operation::kMaximum, binary(Operation::kMinimum, a, integer(high, type(a))), integer(low, type(a)));
}

ExprId IrBuilder::unary(Operation operation, ExprId a) {
  DType result = type(a);
  if (operation == Operation::kIsNan || operation == Operation::kNot) result = DType::kBool;
  if (operation == Operation::kOrderKey) result = order_key_type(result);
  return intern({.operation = operation, .type = result, .in = {a, kNoId, kNoId}});
}

ExprId IrBuilder::from_order_key(ExprId a, DType type) {
  return intern({.operation = Operation::kFromOrderKey, .type = type, .in = {a, kNoId, kNoId}});
}

bool IrBuilder::is_integer_constant(ExprId id, std::int64_t* value) const {
  const Expr& expr = ir_.exprs[id];
  if (expr.operation != Operation::kInteger || expr.type != DType::kI64) return false;
  *value = expr.integer;
  return true;
}

ExprId IrBuilder::binary(Operation operation, ExprId a, ExprId b) {
  std::int64_t left = 0, right = 0;
  const bool left_known = is_integer_constant(a, &left), right_known = is_integer_constant(b, &right);
  switch (operation) {
    case Operation::kAdd:
      if (left_known && right_known) return integer(left + right);
      if (left_known && left == 0) return b;
      if (right_known && right == 0) return a;
      break;
    case Operation::kSubtract:
      if (left_known && right_known) return integer(left - right);
      if (right_known && right == 0) return a;
      break;
    case Operation::kMultiply:
      if (left_known && right_known) return integer(left * right);
      if ((left_known && left == 0) || (right_known && right == 0)) return integer(0);
      if (left_known && left == 1) return b;
      if (right_known && right == 1) return a;
      break;
    case Operation::kDivide:
      if (left_known && right_known && right != 0) return integer(left / right);
      if (right_known && right == 1) return a;
      break;
    case Operation::kRemainder:
      if (left_known && right_known && right != 0) return integer(left % right);
      if (right_known && right == 1) return integer(0);
      break;
    case Operation::kMaximum:
      if (left_known && right_known) return integer(std::max(left, right));
      break;
    case Operation::kMinimum:
      if (left_known && right_known) return integer(std::min(left, right));
      break;
    default:
      break;  // the rest is left to the compiler
  }
  return intern(
      {.operation = operation, .type = is_comparison(operation) ? DType::kBool : type(a), .in = {a, b, kNoId}});
}

ExprId IrBuilder::call(Function function, ExprId a, ExprId b) {
  return intern({.operation = Operation::kCall,
                 .type = type(a),
                 .in = {a, b, kNoId},
                 .id = static_cast<std::uint32_t>(function)});
}

ExprId IrBuilder::fma(ExprId a, ExprId b, ExprId c) {
  return intern({.operation = Operation::kFma, .type = type(c), .in = {a, b, c}});
}

ExprId IrBuilder::select(ExprId condition, ExprId if_true, ExprId if_false) {
  return intern({.operation = Operation::kSelect, .type = type(if_true), .in = {condition, if_true, if_false}});
}

VariableId IrBuilder::add_variable(DType type, bool is_mutable) {
  ir_.variables.push_back({type, is_mutable});
  return static_cast<VariableId>(ir_.variables.size() - 1);
}

ExprId IrBuilder::let_at(std::size_t depth, ExprId value) {
  const Operation operation = at(value).operation;
  if (operation == Operation::kVariable || operation == Operation::kInteger || operation == Operation::kReal)
    return value;
  const VariableId id = add_variable(type(value), false);
  open_[depth].body.push_back({.kind = StmtKind::kLet, .id = id, .a = value, .body = {}});
  return variable(id);
}

VariableId IrBuilder::declare(ExprId initial) {
  const VariableId id = add_variable(type(initial), true);
  open_.back().body.push_back({.kind = StmtKind::kLet, .id = id, .a = initial, .body = {}});
  return id;
}

void IrBuilder::set(VariableId variable, ExprId value) {
  open_.back().body.push_back({.kind = StmtKind::kSet, .id = variable, .a = value, .body = {}});
}

void IrBuilder::store(BufferId buffer, ExprId index, ExprId value) {
  open_.back().body.push_back({.kind = StmtKind::kStore, .id = buffer, .a = index, .b = value, .body = {}});
}

void IrBuilder::store_element(ArrayId array, ExprId index, ExprId value) {
  open_.back().body.push_back({.kind = StmtKind::kElement, .id = array, .a = index, .b = value, .body = {}});
}

void IrBuilder::tile(const Tile& tile, ExprId steps) {
  ir_.tiles.push_back(tile);
  const auto id = static_cast<std::uint32_t>(ir_.tiles.size() - 1);
  open_.back().body.push_back({.kind = StmtKind::kTile, .id = id, .a = steps, .body = {}});
}

void IrBuilder::transpose(const Transpose& transpose, ExprId steps) {
  ir_.transposes.push_back(transpose);
  const auto id = static_cast<std::uint32_t>(ir_.transposes.size() - 1);
  open_.back().body.push_back({.kind = StmtKind::kTranspose, .id = id, .a = steps, .body = {}});
}

void IrBuilder::prefetch(BufferId buffer, ExprId index) {
  open_.back().body.push_back({.kind = StmtKind::kPrefetch, .id = buffer, .a = index, .body = {}});
}

ExprId IrBuilder::open_for(ExprId begin, ExprId end, LoopMode mode) {
  const VariableId id = add_variable(DType::kI64, false);
  open_.push_back({.kind = StmtKind::kFor, .mode = mode, .id = id, .a = begin, .b = end, .body = {}});
  return variable(id);
}

void IrBuilder::open_if(ExprId condition) { open_.push_back({.kind = StmtKind::kIf, .a = condition, .body = {}}); }

ExprId IrBuilder::open_grid(LoopMode mode) {
  const VariableId id = add_variable(DType::kI64, false);
  open_.push_back({.kind = StmtKind::kGrid, .mode = mode, .id = id, .body = {}});
  return variable(id);
}

void IrBuilder::close() {
  Stmt block = std::move(open_.back());
  open_.pop_back();
  open_.back().body.push_back(std::move(block));
}

KernelIr IrBuilder::finish() {
  ir_.body = std::move(open_.front().body);
  return std::move(ir_);
}

}  // namespace crucible::kernel
