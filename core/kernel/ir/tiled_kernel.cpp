#include "core/kernel/ir/tiled_kernel.hpp"

#include <algorithm>

namespace crucible::kernel {

TiledKernel::TiledKernel(const KernelIr& kernel)
    : kernel_(kernel),
      is_tiles_(kernel.arrays.size()),
      definitions_(kernel.variables.size(), kNoId),
      is_set_(kernel.variables.size()),
      reads_memory_(kernel.exprs.size()) {
  if (kernel.tiles.empty()) return;
  for (const Tile& tile : kernel.tiles) {
    is_tiles_[tile.sums] = true;
    for (const TileOperand* operand : {&tile.left, &tile.right}) {
      if (operand->is_array) is_tiles_[operand->id] = true;
    }
  }
  find_definitions(kernel.body);
  for (VariableId id = 0; id < is_set_.size(); ++id) {
    if (is_set_[id]) definitions_[id] = kNoId;
  }
  const auto grid = std::ranges::find(kernel.body, StmtKind::kGrid, &Stmt::kind);
  may_sample_ = grid != kernel.body.end() && decide(grid->body);
}

void TiledKernel::find_definitions(const std::vector<Stmt>& body) {
  for (const Stmt& stmt : body) {
    if (stmt.kind == StmtKind::kLet) definitions_[stmt.id] = stmt.a;
    if (stmt.kind == StmtKind::kSet) is_set_[stmt.id] = true;
    find_definitions(stmt.body);
  }
}

bool TiledKernel::reads_memory(ExprId id) const {
  if (id == kNoId) return false;
  std::optional<bool>& known = reads_memory_[id];
  if (known) return *known;
  const Expr& e = kernel_.exprs[id];
  bool reads = e.operation == Operation::kLoad || e.operation == Operation::kElement;
  if (e.operation == Operation::kVariable)
    reads = is_set_[e.id] || reads_memory(definitions_[e.id]);
  else if (!reads)
    reads = std::ranges::any_of(e.in, [this](ExprId in) { return reads_memory(in); });
  known = reads;
  return reads;
}

bool TiledKernel::reads_tiles(ExprId id) const {
  if (id == kNoId) return false;
  const Expr& e = kernel_.exprs[id];
  return (e.operation == Operation::kElement && is_tiles_[e.id]) ||
         std::ranges::any_of(e.in, [this](ExprId in) { return reads_tiles(in); });
}

bool TiledKernel::depends_on(ExprId id, VariableId variable) const {
  if (id == kNoId) return false;
  const Expr& e = kernel_.exprs[id];
  if (e.operation == Operation::kVariable) return e.id == variable || depends_on(definitions_[e.id], variable);
  return std::ranges::any_of(e.in, [&](ExprId in) { return depends_on(in, variable); });
}

void TiledKernel::collect(const Stmt& stmt, Contents& contents) const {
  contents.has_tile |= stmt.kind == StmtKind::kTile;
  contents.has_store |= stmt.kind == StmtKind::kStore;
  contents.has_set |= stmt.kind == StmtKind::kSet;
  contents.has_transpose |= stmt.kind == StmtKind::kTranspose;
  if (stmt.kind == StmtKind::kElement) (is_tiles_[stmt.id] ? contents.fills : contents.has_other_elements) = true;
  contents.reads_tiles |= reads_tiles(stmt.a) || reads_tiles(stmt.b);
  for (const Stmt& inner : stmt.body) collect(inner, contents);
}

/// Whether passes of a loop over `variable` have sums of their own in every tile of `stmt`.
bool TiledKernel::may_skip(const Stmt& stmt, VariableId variable) const {
  if (stmt.kind == StmtKind::kTile) {
    const Tile& tile = kernel_.tiles[stmt.id];
    return tile.start == TileStart::kZero || depends_on(tile.base, variable);
  }
  return std::ranges::all_of(stmt.body, [&](const Stmt& inner) { return may_skip(inner, variable); });
}

bool TiledKernel::decide(const std::vector<Stmt>& body) {
  return std::ranges::all_of(body, [this](const Stmt& stmt) {
    if (stmt.kind == StmtKind::kFor) return decide_loop(stmt, loops_[&stmt]);
    if (stmt.kind == StmtKind::kElement && is_tiles_[stmt.id]) return false;
    return !reads_tiles(stmt.a) && !reads_tiles(stmt.b) && decide(stmt.body);
  });
}

bool TiledKernel::decide_loop(const Stmt& loop, Loop& known) {
  Contents inside;
  for (const Stmt& stmt : loop.body) collect(stmt, inside);
  if (reads_tiles(loop.a) || reads_tiles(loop.b)) return false;
  known.has_tile = inside.has_tile;
  if (inside.has_tile) {
    const bool may =
        !inside.has_set && std::ranges::all_of(loop.body, [&](const Stmt& stmt) { return may_skip(stmt, loop.id); });
    known.role = may ? Role::kTiles : Role::kWhole;
    return decide(loop.body);
  }
  const bool writes = inside.fills || inside.has_other_elements || inside.has_transpose;
  if (inside.reads_tiles) {
    if (writes || inside.has_set || !inside.has_store) return false;
    const auto mark = [this](const auto& self, const Stmt& stmt) -> void {
      if (stmt.kind == StmtKind::kFor) loops_[&stmt].role = Role::kStores;
      for (const Stmt& inner : stmt.body) self(self, inner);
    };
    mark(mark, loop);
    return true;
  }
  if (!inside.fills) return decide(loop.body);
  if (inside.has_store || inside.has_set || inside.has_other_elements || inside.has_transpose) return false;
  known.role = Role::kFill;
  std::vector<const Stmt*> path;
  return find_leaves(loop, path, known.leaves);
}

bool TiledKernel::find_leaves(const Stmt& stmt, std::vector<const Stmt*>& path, std::vector<Leaf>& leaves) {
  if (stmt.kind == StmtKind::kElement) return add_leaf(stmt, path, leaves);
  if (stmt.kind == StmtKind::kLet || stmt.kind == StmtKind::kPrefetch) return true;
  if (stmt.kind != StmtKind::kFor && stmt.kind != StmtKind::kIf) return false;
  for (const Stmt* outer : path) {  // bounds that move are not followed
    if (outer->kind == StmtKind::kFor && stmt.kind == StmtKind::kFor &&
        (depends_on(stmt.a, outer->id) || depends_on(stmt.b, outer->id)))
      return false;
  }
  path.push_back(&stmt);
  const bool all = std::ranges::all_of(stmt.body, [&](const Stmt& inner) { return find_leaves(inner, path, leaves); });
  path.pop_back();
  return all;
}

bool TiledKernel::add_leaf(const Stmt& store, const std::vector<const Stmt*>& path, std::vector<Leaf>& leaves) {
  Leaf leaf{.store = &store, .path = {}, .factors = {}, .plan = plan_leaf(kernel_, path, store, definitions_)};
  if (leaf.plan == nullptr || reads_memory(store.a)) return false;
  for (const Stmt* outer : path) {
    if (outer->kind == StmtKind::kFor) {
      std::int64_t factor = 0;
      if (!has_factor(store.a, outer->id, factor)) return false;
      leaf.path.push_back(outer);
      leaf.factors.push_back(factor);
    }
    for (const Stmt& stmt : outer->body) {
      if (stmt.kind == StmtKind::kLet && !reads_memory(stmt.a)) leaf.path.push_back(&stmt);
    }
  }
  leaves.push_back(std::move(leaf));
  return true;
}

/// By how much an index moves with a variable, where that is the same everywhere.
bool TiledKernel::has_factor(ExprId id, VariableId variable, std::int64_t& factor) const {
  factor = 0;
  if (id == kNoId || !depends_on(id, variable)) return true;
  const Expr& e = kernel_.exprs[id];
  std::int64_t left = 0, right = 0;
  const auto constant = [this](ExprId in) { return kernel_.exprs[in].operation == Operation::kInteger; };
  switch (e.operation) {
    case Operation::kVariable:
      if (e.id != variable) return has_factor(definitions_[e.id], variable, factor);
      factor = 1;
      return true;
    case Operation::kAssume:
      return has_factor(e.in[0], variable, factor);
    case Operation::kAdd:
    case Operation::kSubtract:
      if (!has_factor(e.in[0], variable, left) || !has_factor(e.in[1], variable, right)) return false;
      factor = e.operation == Operation::kAdd ? left + right : left - right;
      return true;
    case Operation::kMultiply:
      if (!has_factor(e.in[0], variable, left) || !has_factor(e.in[1], variable, right)) return false;
      if (constant(e.in[1])) factor = left * kernel_.exprs[e.in[1]].integer;
      if (constant(e.in[0])) factor = right * kernel_.exprs[e.in[0]].integer;
      return constant(e.in[0]) || constant(e.in[1]);
    default:
      return false;
  }
}

}  // namespace crucible::kernel
