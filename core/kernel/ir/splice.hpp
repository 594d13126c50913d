// A finished kernel written into another one: its statements again, with other names, for a range of its work items.
// What its buffers and scalars become is the caller's: a buffer may turn into scratch of the larger kernel.
// emit_attention.cpp writes fused groups (emit_group.cpp) into its work items so. It changes no operation and no order.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/kernel/ir/ir_builder.hpp"

namespace crucible::kernel {

/// What stands in the larger kernel for what the smaller one reads and writes.
struct SpliceHooks {
  std::function<ExprId(BufferId buffer, ExprId index)> load;  // of the buffer's type
  std::function<void(BufferId buffer, ExprId index, ExprId value)> store;
  std::function<ExprId(std::uint32_t scalar, DType type)> scalar;
};

class Splicer {
 public:
  /// `from` has one grid loop and neither tiles nor copies (kTile, kTranspose). Both must outlive the splicer.
  Splicer(const KernelIr& from, IrBuilder& to, SpliceHooks hooks);

  /// Writes its work items [first, first + count) as a loop, at the place where `to` is. May be called again for
  /// others: scratch of an item is shared by all.
  void write(ExprId first, std::int64_t count);

 private:
  void block(const std::vector<Stmt>& body);
  void statement(const Stmt& stmt);
  void loop(const Stmt& stmt);
  ExprId expr(ExprId id);
  ExprId translated(const Expr& e);

  const KernelIr& from_;
  IrBuilder& to_;
  const SpliceHooks hooks_;
  std::vector<ArrayId> arrays_;
  std::vector<ExprId> variables_;     // per variable that is never set again: what stands for it
  std::vector<VariableId> mutables_;  // per variable that is
  std::vector<ExprId> exprs_;         // per expression, once it is needed
  ExprId first_ = kNoId;
  std::int64_t count_ = 0;
};

}  // namespace crucible::kernel
