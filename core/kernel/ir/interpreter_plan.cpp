#include "core/kernel/ir/interpreter_plan.hpp"

#include <algorithm>
#include <unordered_map>

namespace crucible::kernel {
namespace {

class Planner {
 public:
  Planner(const KernelIr& kernel, const Stmt& loop) : kernel_(kernel), loop_(loop) {}

  std::unique_ptr<LanePlan> run() {
    plan_ = std::make_unique<LanePlan>();
    variables_[loop_.id] = 0;
    for (const Stmt& stmt : loop_.body) {
      if (!add(stmt)) return nullptr;
    }
    return is_orderless() ? std::move(plan_) : nullptr;
  }

  /// `loop_` is the outermost of the path. Memory that is read on the way stays as it is, so that all of it is read
  /// once.
  std::unique_ptr<LanePlan> run_leaf(const std::vector<const Stmt*>& path, const Stmt& store,
                                     const std::vector<ExprId>& definitions) {
    plan_ = std::make_unique<LanePlan>();
    plan_->slots = 0;
    reads_once_ = true;
    for (const Stmt* outer : path) {
      if (outer->kind == StmtKind::kFor) variables_[outer->id] = plan_->slots++;
    }
    find_lets(*path.front(), definitions);
    for (const Stmt* outer : path) {
      if (outer->kind == StmtKind::kIf && !add_condition(outer->a)) return nullptr;
    }
    const LanePlan::Slot index = value(store.a), number = value(store.b);
    if (index == LanePlan::kNone || number == LanePlan::kNone) return nullptr;
    plan_->instructions.push_back({.kind = LanePlan::Kind::kStore,
                                   .is_array = true,
                                   .type = kernel_.arrays[store.id].type,
                                   .place = store.id,
                                   .a = index,
                                   .b = number,
                                   .mask = mask_});
    for (const Where& read : loaded_) {
      if (read.is_array ? read.id == store.id : kernel_.buffers[read.id].written) return nullptr;
    }
    return std::move(plan_);
  }

 private:
  void find_lets(const Stmt& stmt, const std::vector<ExprId>& definitions) {
    if (stmt.kind == StmtKind::kLet) lets_[stmt.id] = definitions[stmt.id];
    for (const Stmt& inner : stmt.body) find_lets(inner, definitions);
  }

  /// Lanes of the mask in which a condition holds, or does not.
  LanePlan::Slot narrowed(LanePlan::Slot condition, bool is_not) {
    plan_->instructions.push_back({.kind = LanePlan::Kind::kMask,
                                   .is_not = is_not,
                                   .type = DType::kBool,
                                   .to = plan_->slots,
                                   .a = condition,
                                   .mask = mask_});
    return plan_->slots++;
  }

  bool add_condition(ExprId condition) {
    const LanePlan::Slot holds = value(condition);
    if (holds == LanePlan::kNone) return false;
    mask_ = narrowed(holds, false);
    return true;
  }

  bool add(const Stmt& stmt) {
    switch (stmt.kind) {
      case StmtKind::kLet: {
        const LanePlan::Slot slot = value(stmt.a);
        if (slot == LanePlan::kNone) return false;
        variables_[stmt.id] = slot;
        return true;
      }
      case StmtKind::kStore:
      case StmtKind::kElement: {
        const bool is_array = stmt.kind == StmtKind::kElement;
        const DType type = is_array ? kernel_.arrays[stmt.id].type : kernel_.buffers[stmt.id].type;
        const LanePlan::Slot index = value(stmt.a), number = value(stmt.b);
        if (index == LanePlan::kNone || number == LanePlan::kNone) return false;
        stored_.push_back({is_array, stmt.id});
        plan_->instructions.push_back({.kind = LanePlan::Kind::kStore,
                                       .is_array = is_array,
                                       .type = type,
                                       .place = stmt.id,
                                       .a = index,
                                       .b = number});
        return true;
      }
      case StmtKind::kSet:
        return gather(stmt);
      case StmtKind::kPrefetch:
        return true;
      default:
        return false;
    }
  }

  /// v = v + x, or another operation: the x of all lanes first, then one by one.
  bool gather(const Stmt& stmt) {
    if (variables_.contains(stmt.id) || gathered_.contains(stmt.id)) return false;  // one of the loop's own
    const Expr& e = kernel_.exprs[stmt.a];
    const bool is_fma = e.operation == Operation::kFma;
    const bool is_binary = e.operation == Operation::kAdd || e.operation == Operation::kMultiply ||
                           e.operation == Operation::kMaximum || e.operation == Operation::kMinimum;
    if (!is_fma && !is_binary) return false;
    const auto is_itself = [&](ExprId in) {
      return in != kNoId && kernel_.exprs[in].operation == Operation::kVariable && kernel_.exprs[in].id == stmt.id;
    };
    gathered_[stmt.id] = true;  // so that value() refuses to read it
    LanePlan::Instruction made{
        .kind = LanePlan::Kind::kGather, .type = e.type, .expr = &e, .id = stmt.a, .place = stmt.id};
    if (is_fma) {
      if (!is_itself(e.in[2])) return false;
      made.a = value(e.in[0]);
      made.b = value(e.in[1]);
      if (made.b == LanePlan::kNone) return false;
    } else {
      if (is_itself(e.in[0]) == is_itself(e.in[1])) return false;
      made.c = is_itself(e.in[0]) ? 0 : 1;  // on which side the variable stands
      made.a = value(e.in[is_itself(e.in[0]) ? 1 : 0]);
    }
    if (made.a == LanePlan::kNone) return false;
    plan_->instructions.push_back(made);
    return true;
  }

  /// The slot that gets the expression's value in all lanes; LanePlan::kNone where that cannot be.
  LanePlan::Slot value(ExprId id) {
    if (const auto known = known_.find(id); known != known_.end()) return known->second;
    const LanePlan::Slot slot = make(id);
    if (slot != LanePlan::kNone && (reads_once_ || !reads_memory(id))) known_[id] = slot;
    return slot;
  }

  LanePlan::Slot make(ExprId id) {
    const Expr& e = kernel_.exprs[id];
    if (e.operation == Operation::kVariable) {
      if (gathered_.contains(e.id) || is_set_later(e.id)) return LanePlan::kNone;
      if (const auto at = variables_.find(e.id); at != variables_.end()) return at->second;
      const auto let = lets_.find(e.id);
      if (let == lets_.end()) return uniform(id);
      return let->second == kNoId ? LanePlan::kNone : variables_[e.id] = value(let->second);
    }
    if (e.operation == Operation::kInteger || e.operation == Operation::kReal || e.operation == Operation::kScalar)
      return uniform(id);
    LanePlan::Instruction made{.expr = &e, .id = id};
    if (e.operation == Operation::kLoad || e.operation == Operation::kElement) {
      made.kind = LanePlan::Kind::kLoad;
      made.is_array = e.operation == Operation::kElement;
      made.type = e.type;
      made.place = e.id;
      loaded_.push_back({made.is_array, e.id});
    } else {
      made.kind = e.operation == Operation::kSelect   ? LanePlan::Kind::kSelect
                  : e.operation == Operation::kFma    ? LanePlan::Kind::kFma
                  : e.operation == Operation::kAssume ? LanePlan::Kind::kAssume
                                                      : LanePlan::Kind::kCompute;
      made.type = e.operation == Operation::kSelect ? e.type : kernel_.exprs[e.in[0]].type;
      const bool divides =
          (e.operation == Operation::kDivide || e.operation == Operation::kRemainder) && !is_floating(e.type);
      if (divides && mask_ != LanePlan::kNone && kernel_.exprs[e.in[1]].operation != Operation::kInteger)
        return LanePlan::kNone;
      // The interpreter looks at the chosen side alone: the other one might not be allowed.
      if (e.operation == Operation::kSelect && reads_once_) return select(e, made);
      if (e.operation == Operation::kSelect && (may_fail(e.in[1]) || may_fail(e.in[2]))) return LanePlan::kNone;
    }
    LanePlan::Slot* const operands[] = {&made.a, &made.b, &made.c};
    for (std::size_t i = 0; i < 3; ++i) {
      if (e.in[i] == kNoId) continue;
      *operands[i] = value(e.in[i]);
      if (*operands[i] == LanePlan::kNone) return LanePlan::kNone;
    }
    made.to = plan_->slots++;
    made.mask = mask_;
    plan_->instructions.push_back(made);
    return made.to;
  }

  /// Each side in the lanes that choose it; what is known of it then is known of those lanes alone.
  LanePlan::Slot select(const Expr& e, LanePlan::Instruction made) {
    made.a = value(e.in[0]);
    if (made.a == LanePlan::kNone) return LanePlan::kNone;
    const LanePlan::Slot mask = mask_;
    for (const bool side : {true, false}) {
      const auto known = known_;
      const auto variables = variables_;
      mask_ = narrowed(made.a, !side);
      (side ? made.b : made.c) = value(e.in[side ? 1 : 2]);
      mask_ = mask;
      known_ = known;
      variables_ = variables;
    }
    if (made.b == LanePlan::kNone || made.c == LanePlan::kNone) return LanePlan::kNone;
    made.to = plan_->slots++;
    plan_->instructions.push_back(made);
    return made.to;
  }

  LanePlan::Slot uniform(ExprId id) {
    plan_->uniforms.push_back({id, plan_->slots});
    return plan_->slots++;
  }

  bool is_set_later(VariableId id) const {
    return std::ranges::any_of(loop_.body,
                               [id](const Stmt& stmt) { return stmt.kind == StmtKind::kSet && stmt.id == id; });
  }

  template <class Holds>
  bool any_below(ExprId id, const Holds& holds) const {
    if (id == kNoId) return false;
    const Expr& e = kernel_.exprs[id];
    return holds(e) || any_below(e.in[0], holds) || any_below(e.in[1], holds) || any_below(e.in[2], holds);
  }
  static bool is_read(const Expr& e) { return e.operation == Operation::kLoad || e.operation == Operation::kElement; }
  bool reads_memory(ExprId id) const { return any_below(id, is_read); }
  bool may_fail(ExprId id) const {
    return any_below(id, [](const Expr& e) {
      const bool divides =
          (e.operation == Operation::kDivide || e.operation == Operation::kRemainder) && !is_floating(e.type);
      return is_read(e) || e.operation == Operation::kAssume || divides;
    });
  }

  /// No pass reads what another one writes: of vectorisable loops that is promised, of others what is written is not
  /// read, and by one statement alone.
  bool is_orderless() const {
    if (loop_.mode == LoopMode::kVector) return true;
    const auto may_be_one = [&](const Where& x, const Where& y) {
      if (x.is_array != y.is_array) return false;
      if (x.id == y.id) return true;
      return !x.is_array && kernel_.buffers[x.id].may_alias && kernel_.buffers[y.id].may_alias;
    };
    for (std::size_t i = 0; i < stored_.size(); ++i) {
      for (const Where& read : loaded_) {
        if (may_be_one(stored_[i], read)) return false;
      }
      for (std::size_t j = 0; j < i; ++j) {
        if (may_be_one(stored_[i], stored_[j])) return false;
      }
    }
    return true;
  }

  struct Where {
    bool is_array = false;
    std::uint32_t id = 0;
  };
  const KernelIr& kernel_;
  const Stmt& loop_;
  std::unique_ptr<LanePlan> plan_;
  std::unordered_map<VariableId, LanePlan::Slot> variables_;  // of the loop and of its body
  std::unordered_map<VariableId, bool> gathered_;
  std::unordered_map<ExprId, LanePlan::Slot> known_;
  std::vector<Where> stored_, loaded_;
  // Of a leaf alone: variables that the path defines, and the lanes of the conditions so far.
  std::unordered_map<VariableId, ExprId> lets_;
  LanePlan::Slot mask_ = LanePlan::kNone;
  bool reads_once_ = false;
};

}  // namespace

std::unique_ptr<LanePlan> plan_lanes(const KernelIr& kernel, const Stmt& loop) { return Planner(kernel, loop).run(); }

std::unique_ptr<LanePlan> plan_leaf(const KernelIr& kernel, const std::vector<const Stmt*>& path, const Stmt& store,
                                    const std::vector<ExprId>& definitions) {
  return Planner(kernel, *path.front()).run_leaf(path, store, definitions);
}

}  // namespace crucible::kernel
