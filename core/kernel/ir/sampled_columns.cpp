#include "core/kernel/ir/sampled_columns.hpp"

#include <algorithm>

namespace crucible::kernel {

SampledColumns::SampledColumns(const KernelIr& kernel) : kernel_(kernel) {
  if (!kernel.tiles.empty() || !kernel.transposes.empty()) return;  // those have ways of their own
  cost_ = collect(kernel.body, nullptr);
  std::erase_if(loops_, [this](const Stmt* loop) {
    return std::ranges::find(arrays_, loop, &Access::loop) == arrays_.end();
  });  // by itself: sampled_loops.hpp
  while (drop_one()) {
  }
}

bool SampledColumns::is_at(ExprId index, const Stmt* loop) const {
  const Expr& e = kernel_.exprs[index];
  return loop != nullptr && e.operation == Operation::kVariable && e.id == loop->id;
}

/// Innermost vector loops of stores and definitions may be columns; what they may be together drop_one() says.
std::uint64_t SampledColumns::collect(const std::vector<Stmt>& body, const Stmt* loop) {
  std::uint64_t cost = 0;
  for (const Stmt& stmt : body) {
    if (stmt.kind == StmtKind::kFor) {
      const bool is_flat = std::ranges::all_of(stmt.body, [](const Stmt& inner) {
        return inner.kind == StmtKind::kLet || inner.kind == StmtKind::kStore || inner.kind == StmtKind::kElement ||
               inner.kind == StmtKind::kPrefetch;
      });
      if (is_flat && stmt.mode == LoopMode::kVector) loops_.insert(&stmt);
      const Expr &begin = kernel_.exprs[stmt.a], &end = kernel_.exprs[stmt.b];
      const bool is_known = begin.operation == Operation::kInteger && end.operation == Operation::kInteger;
      cost += static_cast<std::uint64_t>(is_known ? std::max<std::int64_t>(end.integer - begin.integer, 0) : 1) *
              collect(stmt.body, &stmt);
    } else {
      cost += 1 + collect(stmt.a, loop) + collect(stmt.b, loop) + collect(stmt.body, loop);
    }
    if (stmt.kind == StmtKind::kStore) buffers_.push_back({.loop = loop, .id = stmt.id, .is_write = true});
    if (stmt.kind == StmtKind::kElement)
      arrays_.push_back({.loop = loop, .id = stmt.id, .is_write = true, .is_column = is_at(stmt.a, loop)});
  }
  return cost;
}

std::uint64_t SampledColumns::collect(ExprId id, const Stmt* loop) {
  if (id == kNoId) return 0;
  const Expr& e = kernel_.exprs[id];
  if (e.operation == Operation::kElement)
    arrays_.push_back({.loop = loop, .id = e.id, .is_column = is_at(e.in[0], loop)});
  if (e.operation == Operation::kLoad) buffers_.push_back({.loop = loop, .id = e.id});
  const bool is_floating_one = is_floating(e.type) && e.in[0] != kNoId;
  std::uint64_t cost = is_floating_one || e.operation == Operation::kElement || e.operation == Operation::kLoad ? 1 : 0;
  for (const ExprId in : e.in) cost += collect(in, loop);
  return cost;
}

/// A loop that leaves something to others than columns like it, if there is one.
bool SampledColumns::drop_one() {
  const auto is_one = [this](const Stmt* loop) { return loop != nullptr && loops_.contains(loop); };
  for (const Access& write : arrays_) {
    if (!write.is_write || !is_one(write.loop)) continue;
    const bool all = std::ranges::all_of(arrays_, [&](const Access& other) {
      return other.id != write.id || (is_one(other.loop) && other.is_column && other.loop->a == write.loop->a &&
                                      other.loop->b == write.loop->b);
    });
    if (!all) return loops_.erase(write.loop) > 0;
  }
  // Operands that lie in one place may be one: what is stored is read by columns alone, at whatever rows.
  const auto is_same = [this](BufferId x, BufferId y) {
    return x == y || (kernel_.buffers[x].may_alias && kernel_.buffers[y].may_alias);
  };
  for (const Access& store : buffers_) {
    if (!store.is_write || !is_one(store.loop)) continue;
    const bool all = std::ranges::all_of(buffers_, [&](const Access& other) {
      return other.is_write || !is_same(other.id, store.id) ||
             (is_one(other.loop) && other.loop->a == store.loop->a && other.loop->b == store.loop->b);
    });
    if (!all) return loops_.erase(store.loop) > 0;
  }
  return false;
}

}  // namespace crucible::kernel
