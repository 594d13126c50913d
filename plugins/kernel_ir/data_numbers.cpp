#include "plugins/kernel_ir/data_numbers.hpp"

#include <algorithm>

namespace crucible::kernel {

DataNumbers::DataNumbers(const KernelIr& kernel)
    : kernel_(kernel),
      exprs_(kernel.exprs.size(), false),
      variables_(kernel.variables.size(), false),
      arrays_(kernel.arrays.size(), false) {
  bool goes_on = true;
  while (goes_on) {  // ends: what is data stays data
    for (ExprId id = 0; id < exprs_.size(); ++id) exprs_[id] = compute(id);
    goes_on = visit(kernel.body);
  }
}

std::optional<ExprId> DataNumbers::assumption_about_data() const {
  for (ExprId id = 0; id < exprs_.size(); ++id) {
    if (kernel_.exprs[id].operation == Operation::kAssume && exprs_[id]) return id;
  }
  return std::nullopt;
}

bool DataNumbers::compute(ExprId id) const {
  const Expr& e = kernel_.exprs[id];
  switch (e.operation) {
    case Operation::kLoad:
    case Operation::kScalar:
      return true;
    case Operation::kVariable:
      return variables_[e.id];
    case Operation::kElement:
      return arrays_[e.id];
    case Operation::kSelect:
      return exprs_[e.in[1]] || exprs_[e.in[2]];
    default:
      return std::ranges::any_of(e.in, [&](ExprId in) { return in != kNoId && exprs_[in]; });
  }
}

bool DataNumbers::note(std::vector<bool>& known, std::uint32_t id, bool is_data) {
  if (!is_data || known[id]) return false;
  known[id] = true;
  return true;
}

bool DataNumbers::visit(const std::vector<Stmt>& body) {
  bool found = false;
  for (const Stmt& stmt : body) {
    switch (stmt.kind) {
      case StmtKind::kLet:
      case StmtKind::kSet:
        found |= note(variables_, stmt.id, exprs_[stmt.a]);
        break;
      case StmtKind::kFor:
        found |= note(variables_, stmt.id, exprs_[stmt.a] || exprs_[stmt.b]);
        break;
      case StmtKind::kElement:
        found |= note(arrays_, stmt.id, exprs_[stmt.b]);
        break;
      case StmtKind::kTile:
        found |= note(arrays_, kernel_.tiles[stmt.id].sums, true);
        break;
      case StmtKind::kTranspose:
        found |= note(arrays_, kernel_.transposes[stmt.id].to, true);
        break;
      default:
        break;
    }
    found |= visit(stmt.body);
  }
  return found;
}

}  // namespace crucible::kernel
