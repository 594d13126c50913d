#include "core/kernel/ir/sampled_loops.hpp"

#include <algorithm>

namespace crucible::kernel {

SampledLoops::SampledLoops(const KernelIr& kernel) : kernel_(kernel), all_(nothing()) {
  for (const Stmt& stmt : kernel.body) collect(stmt, all_);
}

SampledLoops::Contents SampledLoops::nothing() const {
  const std::size_t arrays = kernel_.arrays.size(), buffers = kernel_.buffers.size();
  return {.reads = Counts(arrays),
          .writes = Counts(arrays),
          .loads = Counts(buffers),
          .stores = Counts(buffers),
          .defined = {},
          .set = {},
          .has_store = false};
}

bool SampledLoops::may_sample(const Stmt& loop) {
  const auto [at, is_new] = known_.try_emplace(&loop, false);
  if (is_new) at->second = decide(loop);
  return at->second;
}

bool SampledLoops::decide(const Stmt& loop) const {
  Contents inside = nothing();
  for (const Stmt& stmt : loop.body) collect(stmt, inside);
  if (!inside.has_store) return false;
  const auto is_its_own = [&](VariableId id) { return std::ranges::find(inside.defined, id) != inside.defined.end(); };
  if (!std::ranges::all_of(inside.set, is_its_own)) return false;
  for (std::size_t i = 0; i < kernel_.arrays.size(); ++i) {
    if (inside.writes[i] > 0 && inside.reads[i] < all_.reads[i]) return false;
  }
  for (std::size_t i = 0; i < kernel_.buffers.size(); ++i) {
    const bool goes_on = all_.loads[i] > inside.loads[i] ||
                         (inside.loads[i] > 0 && (loop.mode != LoopMode::kVector || all_.stores[i] > inside.stores[i]));
    if (inside.stores[i] > 0 && goes_on) return false;
  }
  return true;
}

void SampledLoops::collect(const Stmt& stmt, Contents& contents) const {
  switch (stmt.kind) {
    case StmtKind::kLet:
      contents.defined.push_back(stmt.id);
      break;
    case StmtKind::kSet:
      contents.set.push_back(stmt.id);
      break;
    case StmtKind::kStore:
      contents.has_store = true;
      ++contents.stores[stmt.id];
      break;
    case StmtKind::kElement:
      ++contents.writes[stmt.id];
      break;
    case StmtKind::kTile: {
      const Tile& tile = kernel_.tiles[stmt.id];
      ++contents.writes[tile.sums];
      if (tile.start != TileStart::kZero) ++contents.reads[tile.sums];
      for (const TileOperand* operand : {&tile.left, &tile.right}) {
        if (operand->is_array) ++contents.reads[operand->id];
        collect(operand->base, contents);
      }
      collect(tile.base, contents);
      break;
    }
    case StmtKind::kTranspose: {
      const Transpose& copy = kernel_.transposes[stmt.id];
      ++contents.writes[copy.to];
      collect(copy.to_base, contents);
      collect(copy.from_base, contents);
      break;
    }
    default:
      break;
  }
  collect(stmt.a, contents);
  collect(stmt.b, contents);
  for (const Stmt& inner : stmt.body) collect(inner, contents);
}

void SampledLoops::collect(ExprId id, Contents& contents) const {
  if (id == kNoId) return;
  const Expr& e = kernel_.exprs[id];
  if (e.operation == Operation::kElement) ++contents.reads[e.id];
  if (e.operation == Operation::kLoad) ++contents.loads[e.id];
  for (const ExprId in : e.in) collect(in, contents);
}

}  // namespace crucible::kernel
