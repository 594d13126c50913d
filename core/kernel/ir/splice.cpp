// Statement by statement: see splice.hpp.
#include "core/kernel/ir/splice.hpp"

#include <utility>

namespace crucible::kernel {

Splicer::Splicer(const KernelIr& from, IrBuilder& to, SpliceHooks hooks)
    : from_(from), to_(to), hooks_(std::move(hooks)) {
  for (const IrArray& array : from.arrays) arrays_.push_back(to.add_array(array.type, array.size));
}

void Splicer::write(ExprId first, std::int64_t count) {
  first_ = first;
  count_ = count;
  variables_.assign(from_.variables.size(), kNoId);
  mutables_.assign(from_.variables.size(), kNoId);
  exprs_.assign(from_.exprs.size(), kNoId);
  block(from_.body);
}

void Splicer::block(const std::vector<Stmt>& body) {
  for (const Stmt& stmt : body) statement(stmt);
}

void Splicer::statement(const Stmt& stmt) {
  switch (stmt.kind) {
    case StmtKind::kLet:
      if (from_.variables[stmt.id].is_mutable) {
        mutables_[stmt.id] = to_.declare(expr(stmt.a));
      } else {
        variables_[stmt.id] = to_.let(expr(stmt.a));
      }
      return;
    case StmtKind::kSet:
      return to_.set(mutables_[stmt.id], expr(stmt.a));
    case StmtKind::kStore:
      return hooks_.store(stmt.id, expr(stmt.a), expr(stmt.b));
    case StmtKind::kElement:
      return to_.store_element(arrays_[stmt.id], expr(stmt.a), expr(stmt.b));
    case StmtKind::kFor:
    case StmtKind::kGrid:
      return loop(stmt);
    case StmtKind::kIf:
      to_.open_if(expr(stmt.a));
      block(stmt.body);
      return to_.close();
    case StmtKind::kTile:
    case StmtKind::kTranspose:
    case StmtKind::kPrefetch:
      return;  // a group has none of the first two, and the third computes nothing
  }
}

void Splicer::loop(const Stmt& stmt) {
  if (stmt.kind == StmtKind::kGrid) {
    const ExprId item = to_.open_for(to_.integer(0), to_.integer(count_), stmt.mode);
    variables_[stmt.id] = to_.let(to_.add(first_, item));
  } else {
    const ExprId begin = expr(stmt.a), end = expr(stmt.b);
    variables_[stmt.id] = to_.open_for(begin, end, stmt.mode);
  }
  block(stmt.body);
  to_.close();
}

ExprId Splicer::expr(ExprId id) {
  if (exprs_[id] != kNoId) return exprs_[id];
  const ExprId result = translated(from_.exprs[id]);
  exprs_[id] = result;
  return result;
}

ExprId Splicer::translated(const Expr& e) {
  const auto in = [&](std::size_t i) { return expr(e.in[i]); };
  switch (e.operation) {
    case Operation::kInteger:
      return to_.integer(e.integer, e.type);
    case Operation::kReal:
      return to_.real(e.real, e.type);
    case Operation::kScalar:
      return hooks_.scalar(e.id, e.type);
    case Operation::kVariable:
      return from_.variables[e.id].is_mutable ? to_.variable(mutables_[e.id]) : variables_[e.id];
    case Operation::kLoad:
      return hooks_.load(e.id, in(0));
    case Operation::kElement:
      return to_.element(arrays_[e.id], in(0));
    case Operation::kConvert:
      return to_.convert(in(0), e.type);
    case Operation::kAssume:
      return to_.assume(in(0), e.integer, e.high);
    case Operation::kFromOrderKey:
      return to_.from_order_key(in(0), e.type);
    case Operation::kSelect: {
      const ExprId condition = in(0), if_true = in(1);
      return to_.select(condition, if_true, in(2));
    }
    case Operation::kFma: {
      const ExprId a = in(0), b = in(1);
      return to_.fma(a, b, in(2));
    }
    case Operation::kCall: {
      const ExprId a = in(0);
      return to_.call(static_cast<Function>(e.id), a, e.in[1] == kNoId ? kNoId : in(1));
    }
    default:
      break;
  }
  const ExprId a = in(0);
  return e.operation < Operation::kAdd ? to_.unary(e.operation, a) : to_.binary(e.operation, a, in(1));
}

}  // namespace crucible::kernel
