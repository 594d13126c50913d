// Writes kernels of the kernel IR (plugins/kernel_ir/kernel_ir.hpp), expression by expression and statement by
// statement: what every emitter (core/kernel/emit) uses. Whether what was written makes sense is verify_kernel()'s
// question (read_ir.hpp).
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "plugins/kernel_ir/kernel_ir.hpp"

namespace crucible::kernel {

/// Writes a KernelIr statement by statement. Blocks nest: open_* starts one, close() ends it. Equal expressions are one
/// expression, and arithmetic on integer constants is folded.
class IrBuilder {
 public:
  IrBuilder();

  BufferId add_buffer(DType type, bool written);
  std::uint32_t add_scalar(DType type = DType::kF64) {
    ir_.scalars.push_back(type);
    return static_cast<std::uint32_t>(ir_.scalars.size() - 1);
  }
  ArrayId add_array(DType type, std::int64_t size);

  ExprId integer(std::int64_t value, DType type = DType::kI64);
  ExprId real(double value, DType type);
  ExprId scalar(std::uint32_t index, DType type);
  ExprId variable(VariableId id);
  ExprId load(BufferId buffer, ExprId index);
  ExprId element(ArrayId array, ExprId index);
  ExprId convert(ExprId a, DType type);
  /// `a`, which lies in [low, high] by arithmetic that intervals cannot follow (loop variables that move together).
  /// Never what comes from memory or from the launch: the verifier refuses that.
  ExprId assume(ExprId a, std::int64_t low, std::int64_t high);
  /// `a` where it lies in [low, high], else the nearer end: what every index that comes from data passes through before
  /// it reaches memory. Whether it lay inside is the program's own question (graph::Bound).
  ExprId guard(ExprId a, std::int64_t low, std::int64_t high);
  ExprId unary(Operation operation, ExprId a);
  ExprId from_order_key(ExprId a, DType type);
  ExprId binary(Operation operation, ExprId a, ExprId b);
  ExprId call(Function function, ExprId a, ExprId b = kNoId);
  ExprId fma(ExprId a, ExprId b, ExprId c);
  ExprId select(ExprId condition, ExprId if_true, ExprId if_false);
  ExprId add(ExprId a, ExprId b) { return binary(Operation::kAdd, a, b); }
  ExprId multiply(ExprId a, std::int64_t b) { return binary(Operation::kMultiply, a, integer(b)); }

  /// Defines a constant variable in block `depth` (0 is the kernel's outermost; default the innermost) and returns it.
  ExprId let(ExprId value) { return let_at(depth(), value); }
  ExprId let_at(std::size_t depth, ExprId value);
  VariableId declare(ExprId initial);  // a mutable variable
  void set(VariableId variable, ExprId value);
  void store(BufferId buffer, ExprId index, ExprId value);
  void store_element(ArrayId array, ExprId index, ExprId value);
  void tile(const Tile& tile, ExprId steps);
  void transpose(const Transpose& transpose, ExprId steps);
  void prefetch(BufferId buffer, ExprId index);
  ExprId open_for(ExprId begin, ExprId end, LoopMode mode);
  void open_if(ExprId condition);
  ExprId open_grid(LoopMode mode);
  void close();
  /// Number of open blocks besides the kernel's own.
  std::size_t depth() const { return open_.size() - 1; }

  const Expr& at(ExprId id) const { return ir_.exprs[id]; }
  DType type(ExprId id) const { return ir_.exprs[id].type; }
  KernelIr& ir() { return ir_; }
  /// The finished kernel; all blocks must be closed.
  KernelIr finish();

 private:
  ExprId intern(const Expr& expr);
  bool is_integer_constant(ExprId id, std::int64_t* value) const;
  VariableId add_variable(DType type, bool is_mutable);
  KernelIr ir_;
  std::vector<Stmt> open_;  // headers of open blocks with their bodies so far; [0] holds the kernel's body
  std::unordered_map<std::uint64_t, std::vector<ExprId>> interned_;
};

}  // namespace crucible::kernel
