// Whether and how a team does a kernel's items: see team_kernel.hpp.
#include "plugins/sdk/team_kernel.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "plugins/sdk/kernel_index.hpp"
#include "plugins/sdk/wide_loops.hpp"

namespace crucible::sdk {
namespace {

// Turns of a loop outside of the dealt ones that every lane may as well do itself.
constexpr std::int64_t kFewTurns = 16;

// Turns of a lane from which an item is work enough for a block: that its groups of lanes meet for each sum takes about
// as long as some of these.
constexpr std::int64_t kManyTurns = 64;
// Of a lane of such a block, so that it has several accesses of four elements on the way.
constexpr std::int64_t kLeastTurns = 8;
constexpr std::uint32_t kMostWarps = 8;

class Planner {
 public:
  /// `shuffles`: lanes join without memory, and arrays that are among the registers are none.
  Planner(const Kernel& kernel, std::uint32_t lanes, bool shuffles, std::map<std::uint32_t, LaneArray> registers,
          std::uint32_t warps = 1)
      : kernel_(kernel), contested_(contested_buffers(kernel)), has_shuffles_(shuffles) {
    team_.lanes = lanes * warps;
    team_.warps = warps;
    team_.registers = std::move(registers);
  }

  /// Where arrays lie is left open.
  Team run_without_memory() {
    plan_items();
    return is_possible_ && is_worthwhile_ ? std::move(team_) : Team{};
  }

  Team run() {
    plan_items();
    if (!is_possible_ || !is_worthwhile_ || !fits()) return {};
    return std::move(team_);
  }

 private:
  void plan_items() {
    for (const Stmt& stmt : kernel_.body) {
      if (stmt.kind == StmtKind::kGrid) plan_block(stmt.body);
    }
  }

  /// Calls visit(e) for each expression that `root` is made of.
  template <class Visit>
  void for_each(std::uint32_t root, const Visit& visit) const {
    if (root == kNoId) return;
    const Expr& e = kernel_.exprs[root];
    visit(e);
    for (const std::uint32_t in : e.in) for_each(in, visit);
  }

  bool is_memory(std::uint32_t array) const { return !team_.registers.contains(array); }

  bool is_shared(std::uint32_t root) const {
    bool found = false;
    for_each(root, [&](const Expr& e) {
      found |= e.operation == Op::kElement ? is_memory(e.id) : e.operation == Op::kLoad && contested_[e.id];
    });
    return found;
  }

  std::optional<std::int64_t> constant(std::uint32_t id) const {
    const Expr& e = kernel_.exprs[id];
    return e.operation == Op::kInteger ? std::optional(e.integer) : std::nullopt;
  }

  std::optional<std::int64_t> turns(const Stmt& loop) const {
    const auto begin = constant(loop.a), end = constant(loop.b);
    return begin && end ? std::optional(*end - *begin) : std::nullopt;
  }

  static bool has_vector_loop(const std::vector<Stmt>& body) {
    return std::ranges::any_of(body, [](const Stmt& stmt) {
      return (stmt.kind == StmtKind::kFor && stmt.mode == LoopMode::kVector) || has_vector_loop(stmt.body);
    });
  }

  /// Statements that every lane executes.
  void plan_block(const std::vector<Stmt>& body) {
    for (const Stmt& stmt : body) plan_stmt(stmt);
  }

  void plan_stmt(const Stmt& stmt) {
    switch (stmt.kind) {
      case StmtKind::kTile:
      case StmtKind::kTranspose:
      case StmtKind::kGrid:
        is_possible_ = false;
        return;
      case StmtKind::kPrefetch:
        return;
      case StmtKind::kFor:
        is_possible_ &= !is_shared(stmt.a) && !is_shared(stmt.b);
        if (stmt.mode == LoopMode::kVector) return deal(stmt);
        if (!has_vector_loop(stmt.body)) is_possible_ &= turns(stmt).value_or(kFewTurns + 1) <= kFewTurns;
        return plan_block(stmt.body);
      case StmtKind::kIf:
        is_possible_ &= !is_shared(stmt.a);
        return plan_block(stmt.body);
      case StmtKind::kLet:
      case StmtKind::kSet:
        if (is_shared(stmt.a)) team_.meets.insert(&stmt);
        return;
      case StmtKind::kStore:
        if (contested_[stmt.id] || is_shared(stmt.a) || is_shared(stmt.b)) team_.meets.insert(&stmt);
        return;
      case StmtKind::kElement:
        team_.meets.insert(&stmt);
        return;
    }
  }

  /// What the body of one dealt loop does to what it shares with others.
  struct Body {
    std::set<std::uint32_t> own;  // variables that it defines
    struct Update {
      Op op = Op::kAdd;
      int count = 0;
    };
    std::map<std::uint32_t, Update> updates;  // of variables from outside
    bool meets = false;
  };

  void deal(const Stmt& loop) {
    Body body;
    body.own.insert(loop.id);
    body.meets =
        constant(loop.a) != 0;  // elements of arrays belong to the lane of their index where every loop begins at 0
    const bool has_arrays = reads_body(loop, loop.body, body);
    body.meets = (body.meets && has_arrays) || touches_contested(loop.body);
    std::vector<TeamReduction> reductions;
    for (const auto& [variable, update] : body.updates) {
      is_possible_ &= update.count == uses(loop.body, variable);
      reductions.push_back({variable, update.op});
      team_.joined.insert(kernel_.variables[variable].type);
    }
    if (body.meets) team_.meets.insert(&loop);
    is_worthwhile_ |= turns(loop).value_or(team_.lanes) >= team_.lanes / 2;
    team_.dealt[&loop] = std::move(reductions);
  }

  /// Whether it touches arrays; sets `meets` when at other places than the turn's own.
  bool reads_body(const Stmt& loop, const std::vector<Stmt>& stmts, Body& body) {
    bool touches = false;
    const auto index = [&](std::uint32_t id) {
      touches = true;
      const Expr& e = kernel_.exprs[id];
      body.meets |= e.operation != Op::kVariable || e.id != loop.id;
    };
    for (const Stmt& stmt : stmts) {
      if (stmt.kind == StmtKind::kTile || stmt.kind == StmtKind::kTranspose) is_possible_ = false;
      if (stmt.kind == StmtKind::kLet || stmt.kind == StmtKind::kFor) body.own.insert(stmt.id);
      if (stmt.kind == StmtKind::kElement && is_memory(stmt.id)) index(stmt.a);
      if (stmt.kind == StmtKind::kSet && !body.own.contains(stmt.id)) update(stmt, body);
      for (const std::uint32_t root : {stmt.a, stmt.b}) {
        for_each(root, [&](const Expr& e) {
          if (e.operation == Op::kElement && is_memory(e.id)) index(e.in[0]);
        });
      }
      touches |= reads_body(loop, stmt.body, body);
    }
    return touches;
  }

  bool touches_contested(const std::vector<Stmt>& stmts) const {
    return std::ranges::any_of(stmts, [&](const Stmt& stmt) {
      bool found = stmt.kind == StmtKind::kStore && contested_[stmt.id];
      for (const std::uint32_t root : {stmt.a, stmt.b})
        for_each(root, [&](const Expr& e) { found |= e.operation == Op::kLoad && contested_[e.id]; });
      return found || touches_contested(stmt.body);
    });
  }

  /// v = v op x, with one operation for all updates of v.
  void update(const Stmt& stmt, Body& body) {
    const Expr& e = kernel_.exprs[stmt.a];
    const bool combines = e.operation == Op::kAdd || e.operation == Op::kMultiply || e.operation == Op::kMaximum ||
                          e.operation == Op::kMinimum;
    const auto is_old = [&](std::uint32_t id) {
      return kernel_.exprs[id].operation == Op::kVariable && kernel_.exprs[id].id == stmt.id;
    };
    if (!combines || !is_old(e.in[0]) ||
        size_bytes(e.type) == 2) {  // f16 has no arithmetic in every language; i16 is never summed so
      is_possible_ = false;
      return;
    }
    Body::Update& known = body.updates.try_emplace(stmt.id, Body::Update{e.operation}).first->second;
    is_possible_ &= known.op == e.operation;
    ++known.count;
  }

  /// How often the statements read a variable.
  int uses(const std::vector<Stmt>& stmts, std::uint32_t variable) const {
    int count = 0;
    for (const Stmt& stmt : stmts) {
      for (const std::uint32_t root : {stmt.a, stmt.b})
        for_each(root, [&](const Expr& e) { count += e.operation == Op::kVariable && e.id == variable; });
      count += uses(stmt.body, variable);
    }
    return count;
  }

  bool fits() {
    std::int64_t bytes = 0;
    for (std::uint32_t i = 0; i < kernel_.arrays.size(); ++i) {
      if (is_memory(i)) bytes += kernel_.arrays[i].size * size_bytes(kernel_.arrays[i].type);
    }
    // What is joined by shuffles needs room where there are several groups of lanes alone: an element for each.
    for (const Type type : team_.joined) bytes += has_shuffles_ && team_.warps > 1 ? team_.warps * size_bytes(type) : 0;
    for (const Type type : has_shuffles_ ? std::set<Type>() : team_.joined)
      bytes += std::int64_t{team_.lanes} * size_bytes(type);
    team_.most = team_.warps > 1 ? 1 : kMostBlockThreads / team_.lanes;  // all threads of a block meet then
    if (bytes > 0)
      team_.most = static_cast<std::uint32_t>(std::min<std::int64_t>(team_.most, kTeamSharedBytes / bytes));
    return team_.most > 0;
  }

  const Kernel& kernel_;
  const std::vector<bool> contested_;
  const bool has_shuffles_;
  Team team_;
  bool is_possible_ = true, is_worthwhile_ = false;
};

}  // namespace

Team plan_team(const Kernel& kernel, std::uint32_t lanes, bool shuffles) {
  if (lanes <= 1) return {};
  return Planner(kernel, lanes, shuffles, {}).run();
}

namespace {

/// Groups of lanes for an item whose shortest loop has so many turns.
std::uint32_t warps_for(std::int64_t turns, std::uint32_t lanes) {
  std::uint32_t warps = 1;
  if (turns < kManyTurns * lanes) return warps;
  while (warps < kMostWarps && lanes * warps * 2 <= kMostBlockThreads && kLeastTurns * lanes * warps * 2 <= turns)
    warps *= 2;
  return warps;
}

Team team_of(const Kernel& kernel, std::uint32_t lanes, std::uint32_t warps) {
  const Team dealt = Planner(kernel, lanes, true, {}, warps).run_without_memory();
  if (dealt.lanes == 1) return {};
  WideLoops wide = widen(kernel, dealt);
  Team team = Planner(kernel, lanes, true, std::move(wide.registers), warps).run();
  if (team.lanes > 1) team.wide = std::move(wide.loops);
  return team;
}

}  // namespace

Team plan_threads(const Kernel& kernel, std::uint32_t lanes) {
  if (lanes > 1) {
    Team team = team_of(kernel, lanes, 1);
    const Indices indices(kernel);
    std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
    for (const auto& [loop, reductions] : team.dealt) shortest = std::min(shortest, indices.turns(*loop).value_or(0));
    const std::uint32_t warps = team.lanes > 1 ? warps_for(shortest, lanes) : 1;
    if (Team block = warps > 1 ? team_of(kernel, lanes, warps) : Team(); block.lanes > 1) return block;
    if (team.lanes > 1) return team;
  }
  Team alone;
  alone.wide = widen(kernel, alone).loops;
  return alone;
}

}  // namespace crucible::sdk
