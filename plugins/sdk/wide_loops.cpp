// What a lane does at once: see wide_loops.hpp.
#include "plugins/sdk/wide_loops.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "plugins/sdk/kernel_index.hpp"

namespace crucible::sdk {
namespace {

constexpr std::int64_t kMostTurns = 16;       // of a thread at once, side by side
constexpr std::int64_t kMostWords = 64;       // of four bytes, that accesses of one group of turns keep in registers
constexpr std::int64_t kWordsInFlight = 32;   // the same where several groups are loaded before one is computed
constexpr std::int64_t kMostWork = 256;       // statements that a text grows to, function calls counted as several
constexpr std::int64_t kWorkOfAll = 1024;     // the same for a loop that is written out from end to end
constexpr std::int64_t kMostElements = 32;    // of an array, that a lane keeps
constexpr std::int64_t kMostArrayWords = 96;  // of four bytes, that all such arrays take of a lane

template <class Visit>
void for_each_expr(const Kernel& kernel, std::uint32_t root, const Visit& visit) {
  if (root == kNoId) return;
  visit(root, kernel.exprs[root]);
  for (const std::uint32_t in : kernel.exprs[root].in) for_each_expr(kernel, in, visit);
}

/// Calls visit(stmt, is_nested) for all statements of a body.
template <class Visit>
void for_each_stmt(const std::vector<Stmt>& body, const Visit& visit, bool is_nested = false) {
  for (const Stmt& stmt : body) {
    visit(stmt, is_nested);
    for_each_stmt(stmt.body, visit, true);
  }
}

/// A function is as long as several statements.
std::int64_t work_of(const Kernel& kernel, const std::vector<Stmt>& body) {
  std::int64_t work = 0;
  for_each_stmt(body, [&](const Stmt& stmt, bool) {
    ++work;
    for (const std::uint32_t root : {stmt.a, stmt.b}) {
      for_each_expr(kernel, root, [&](std::uint32_t, const Expr& e) {
        const bool is_function = (e.operation >= Op::kExp && e.operation <= Op::kSigmoid) || e.operation == Op::kSin ||
                                 e.operation == Op::kCos || e.operation == Op::kPower;
        work += e.operation == Op::kCall ? 24 : is_function ? 12 : 0;
      });
    }
  });
  return work;
}

/// One loop, and what stands in the way of doing several of its turns at once.
class Loop {
 public:
  Loop(const Kernel& kernel, const Indices& indices, const std::vector<bool>& contested, const Stmt& stmt,
       std::int64_t lanes)
      : kernel_(kernel),
        indices_(indices),
        contested_(contested),
        stmt_(stmt),
        lanes_(lanes),
        turns_(indices.turns(stmt)),
        work_(work_of(kernel, stmt.body)) {
    can_mix_ = stmt.kind == StmtKind::kGrid || (stmt.mode == LoopMode::kVector && turns_);
    if (can_mix_) find_accesses();
  }

  const Stmt& stmt() const { return stmt_; }
  std::optional<std::int64_t> turns() const { return turns_; }
  std::int64_t work() const { return work_; }
  std::int64_t width() const { return width_; }
  void set_width(std::int64_t width) { width_ = width; }

  /// The width that accesses of 16 bytes want, as far as everything is a multiple of it. A loop without any, over
  /// arrays, takes what others want.
  void choose_width() {
    width_ = 1;
    if (!can_mix_ || (accesses_.empty() && !turns_)) return;
    std::int64_t least = 0;
    for (const Access& access : accesses_) {
      if (access.bytes > 1) least = least == 0 ? access.bytes : std::min(least, access.bytes);
    }
    for (std::int64_t width = kWideBytes / std::max<std::int64_t>(least, 1); width > 1; width /= 2) {
      if (!fits(width)) continue;
      width_ = width;
      return;
    }
  }

  /// The plan for the chosen width; its steps as registers leave.
  WideLoop plan() const {
    WideLoop plan;
    plan.width = static_cast<std::uint32_t>(width_);
    if (!can_mix_ || accesses_.empty()) return plan;
    if (turns_) {
      for (const std::int64_t steps : {4, 2}) {
        if (*turns_ % (width_ * lanes_ * steps) != 0 || words(width_) * steps > kWordsInFlight ||
            work_ * width_ * steps > kMostWork || !has_load_)
          continue;
        plan.steps = static_cast<std::uint32_t>(steps);
        break;
      }
    }
    if (plan.width * plan.steps == 1) return plan;
    for (const Access& access : accesses_) {
      const auto elements = static_cast<std::uint32_t>(elements_of(access, width_));
      if (access.store != nullptr)
        plan.stores.emplace(access.store, elements);
      else
        plan.loads.emplace(access.load, elements);
    }
    return plan;
  }

 private:
  struct Access {
    std::uint32_t load = kNoId;  // the expression
    const Stmt* store = nullptr;
    std::uint32_t index = kNoId;
    std::int64_t bytes = 0;  // of an element
  };

  static std::int64_t elements_of(const Access& access, std::int64_t width) {
    return std::min<std::int64_t>(width, kWideBytes / access.bytes);
  }

  std::int64_t words(std::int64_t width) const {
    std::int64_t bytes = 0;
    for (const Access& access : accesses_) bytes += access.bytes * width;
    return (bytes + 3) / 4;
  }

  bool fits(std::int64_t width) const {
    if (width > kMostTurns || words(width) > kMostWords || work_ * width > kMostWork) return false;
    if (turns_ && (*turns_ % width != 0 || *turns_ / width < lanes_)) return false;
    return std::ranges::all_of(accesses_, [&](const Access& access) {
      return indices_.step(access.index, stmt_, width) == 1 &&
             indices_.divisor(access.index, stmt_, width) >= elements_of(access, width);
    });
  }

  /// Loads and stores of neighbouring elements by neighbouring turns. Loads go before everything and stores behind it,
  /// so none may be made of what is loaded on the way, and nothing that is stored may be loaded again by its turn.
  void find_accesses() {
    std::set<std::uint32_t> wide_stores, narrow_stores;
    bool has_stored = false;
    for_each_stmt(stmt_.body, [&](const Stmt& stmt, bool is_nested) {
      if (stmt.kind == StmtKind::kTile || stmt.kind == StmtKind::kTranspose || stmt.kind == StmtKind::kPrefetch)
        can_mix_ = false;
      for (const std::uint32_t root : {stmt.a, stmt.b}) {
        for_each_expr(kernel_, root, [&](std::uint32_t id, const Expr& e) {
          if (e.operation == Op::kLoad) find_load(id, e, is_nested, has_stored);
        });
      }
      if (stmt.kind != StmtKind::kStore) return;
      has_stored |= contested_[stmt.id];
      can_mix_ &= !is_nested;
      const bool is_wide = steps_by_one(stmt.a);
      can_mix_ &= !is_wide || indices_.is_known_before(stmt.a, stmt_);
      (is_wide ? wide_stores : narrow_stores).insert(stmt.id);
      if (is_wide)
        accesses_.push_back({.store = &stmt, .index = stmt.a, .bytes = size_bytes(kernel_.buffers[stmt.id].type)});
    });
    for (const std::uint32_t buffer : wide_stores) can_mix_ &= !narrow_stores.contains(buffer);
  }

  void find_load(std::uint32_t id, const Expr& e, bool is_nested, bool has_stored) {
    if (contested_[e.id] && has_stored) can_mix_ = false;
    if (is_nested) {
      can_mix_ &= indices_.step(e.in[0], stmt_, 1) == 0;
      return;
    }
    if (!steps_by_one(e.in[0])) return;
    can_mix_ &= indices_.is_known_before(e.in[0], stmt_);
    has_load_ = true;
    accesses_.push_back({.load = id, .index = e.in[0], .bytes = size_bytes(kernel_.buffers[e.id].type)});
  }

  /// As far as the narrowest group goes: what a wider one would divide may still be in the way.
  bool steps_by_one(std::uint32_t index) const {
    return indices_.step(index, stmt_, 1) == 1 || indices_.step(index, stmt_, 2) == 1;
  }

  const Kernel& kernel_;
  const Indices& indices_;
  const std::vector<bool>& contested_;
  const Stmt& stmt_;
  const std::int64_t lanes_;
  const std::optional<std::int64_t> turns_;
  const std::int64_t work_;
  bool can_mix_ = false, has_load_ = false;
  std::vector<Access> accesses_;
  std::int64_t width_ = 1;
};

/// Where the accesses to one array stand.
struct ArrayUse {
  std::set<const Stmt*> loops;  // dealt ones that touch it
  bool has_memory = false;      // other places than those a lane can have or ask for
  bool is_asked_for = false;    // a turn reads an element of another one
  bool is_read_outside = false;
};

class Widener {
 public:
  Widener(const Kernel& kernel, const Team& team)
      : kernel_(kernel),
        team_(team),
        indices_(kernel),
        contested_(contested_buffers(kernel)),
        uses_(kernel.arrays.size()) {}

  WideLoops run() {
    for (const Stmt& stmt : kernel_.body) {
      if (stmt.kind != StmtKind::kGrid) continue;
      if (team_.lanes == 1) add_loop(stmt);
      visit(stmt.body, nullptr);
    }
    if (team_.lanes == 1) {
      // An array of a thread has room for one item.
      if (!kernel_.arrays.empty()) return {};
    } else {
      while (settle()) {
      }
    }
    WideLoops result;
    for (const auto& [stmt, loop] : loops_) {
      WideLoop plan = loop.plan();
      if (plan.width * plan.steps > 1) result.loops.emplace(stmt, std::move(plan));
    }
    for (std::uint32_t i = 0; team_.lanes > 1 && i < uses_.size(); ++i) {
      if (!uses_[i].has_memory)
        result.registers.emplace(
            i, LaneArray{static_cast<std::uint32_t>(elements(i)), static_cast<std::uint32_t>(width_of(i))});
    }
    return result;
  }

 private:
  void add_loop(const Stmt& stmt) {
    Loop& loop = loops_.emplace(&stmt, Loop(kernel_, indices_, contested_, stmt, team_.lanes)).first->second;
    loop.choose_width();
  }

  /// `dealt` is the loop whose turns lanes do here, or null where all lanes do the same.
  void visit(const std::vector<Stmt>& body, const Stmt* dealt) {
    for (const Stmt& stmt : body) {
      const bool begins = dealt == nullptr && team_.dealt.contains(&stmt);
      if (begins) add_loop(stmt);
      if (stmt.kind == StmtKind::kElement) touch(stmt.id, stmt.a, dealt, true, stmt);
      for (const std::uint32_t root : {stmt.a, stmt.b}) {
        for_each_expr(kernel_, root, [&](std::uint32_t, const Expr& e) {
          if (e.operation == Op::kElement) touch(e.id, e.in[0], dealt, false, stmt);
        });
      }
      visit(stmt.body, begins ? &stmt : dealt);
    }
  }

  void touch(std::uint32_t array, std::uint32_t index, const Stmt* dealt, bool is_store, const Stmt& stmt) {
    ArrayUse& use = uses_[array];
    if (dealt == nullptr) {
      // All lanes have to be there when one tells the others.
      const bool all_are_here = stmt.kind == StmtKind::kLet || stmt.kind == StmtKind::kSet;
      const auto at = indices_.constant(index);
      use.has_memory |= is_store || !all_are_here || !at || *at < 0 || *at >= kernel_.arrays[array].size;
      use.is_read_outside = true;
      return;
    }
    use.loops.insert(dealt);
    const auto turns = indices_.turns(*dealt);
    use.has_memory |= !turns || *turns > kernel_.arrays[array].size;
    if (use.has_memory || is_turn(index, *dealt)) return;
    const auto apart = distance(index, *dealt);
    const bool is_of_body = std::ranges::any_of(dealt->body, [&](const Stmt& each) { return &each == &stmt; });
    use.has_memory |= is_store || !apart || *apart < 0 || *turns + *apart > kernel_.arrays[array].size ||
                      *turns > team_.lanes || !is_of_body;
    use.is_asked_for = true;
  }

  bool is_turn(std::uint32_t index, const Stmt& loop) const {
    return kernel_.exprs[index].operation == Op::kVariable && kernel_.exprs[index].id == loop.id;
  }

  /// k in an index that is the turn plus k.
  std::optional<std::int64_t> distance(std::uint32_t index, const Stmt& loop) const {
    const Expr& e = kernel_.exprs[index];
    if (e.operation != Op::kAdd || !is_turn(e.in[0], loop)) return {};
    return indices_.constant(e.in[1]);
  }

  std::int64_t width_of(std::uint32_t array) const {
    std::int64_t width = kMostTurns;
    for (const Stmt* const loop : uses_[array].loops) width = std::min(width, loops_.at(loop).width());
    return uses_[array].loops.empty() ? 1 : width;
  }

  /// Of a lane's registers.
  std::int64_t elements(std::uint32_t array) const {
    const std::int64_t width = width_of(array), at_once = width * team_.lanes;
    return std::max<std::int64_t>((kernel_.arrays[array].size + at_once - 1) / at_once, 1) * width;
  }

  /// Loops that touch one array do equally many turns at once, one where it lies in memory. True when something was
  /// changed.
  bool settle() {
    bool has_changed = false;
    const auto put_in_memory = [&](std::uint32_t array) {
      has_changed |= !uses_[array].has_memory;
      uses_[array].has_memory = true;
    };
    std::int64_t words = 0;
    for (std::uint32_t i = 0; i < uses_.size(); ++i) {
      ArrayUse& use = uses_[i];
      if (use.has_memory || use.loops.empty()) {
        put_in_memory(i);
        for (const Stmt* const loop : use.loops) narrow_to(1, *loop, has_changed);
        continue;
      }
      // Lanes that do not run in step cannot ask each other.
      if (team_.warps > 1 && (use.is_asked_for || use.is_read_outside)) put_in_memory(i);
      // What lanes ask each other for is one element of each.
      if (use.is_asked_for && kernel_.arrays[i].size > team_.lanes) put_in_memory(i);
      const std::int64_t width = use.is_asked_for ? 1 : width_of(i);
      for (const Stmt* const loop : use.loops) narrow_to(width, *loop, has_changed);
      words += elements(i) * std::max<std::int64_t>(size_bytes(kernel_.arrays[i].type), 4) / 4;
      const bool is_long = std::ranges::any_of(use.loops, [&](const Stmt* loop) {
        const std::int64_t at_once = team_.lanes;
        return loops_.at(loop).work() * ((*loops_.at(loop).turns() + at_once - 1) / at_once) > kWorkOfAll;
      });
      if (elements(i) > kMostElements || words > kMostArrayWords || is_long) put_in_memory(i);
    }
    return has_changed;
  }

  void narrow_to(std::int64_t width, const Stmt& stmt, bool& has_changed) {
    Loop& loop = loops_.at(&stmt);
    has_changed |= loop.width() > width;
    loop.set_width(std::min(loop.width(), width));
  }

  const Kernel& kernel_;
  const Team& team_;
  const Indices indices_;
  const std::vector<bool> contested_;
  std::map<const Stmt*, Loop> loops_;
  std::vector<ArrayUse> uses_;
};

}  // namespace

std::vector<bool> contested_buffers(const Kernel& kernel) {
  std::vector<bool> contested(kernel.buffers.size());
  for (const Expr& e : kernel.exprs) {
    if (e.operation == Op::kLoad && kernel.buffers[e.id].written) contested[e.id] = true;
  }
  for (std::size_t i = 0; i < contested.size(); ++i) contested[i] = contested[i] || kernel.buffers[i].may_alias;
  return contested;
}

WideLoops widen(const Kernel& kernel, const Team& team) { return Widener(kernel, team).run(); }

}  // namespace crucible::sdk
