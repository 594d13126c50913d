// Which numbers of a kernel come from memory or from the launch: nobody may state where they lie. They are guarded
// (IrBuilder::guard) before they index anything; bounds are then a matter of intervals (check.hpp). Nobody knows how
// large they are: arithmetic on them wraps in a printed text, while that on sizes and turns of loops cannot.
#pragma once

#include <optional>
#include <vector>

#include "plugins/kernel_ir/kernel_ir.hpp"

namespace crucible::kernel {

class DataNumbers {
 public:
  /// The kernel outlives this; its ids are sound (check_types() looks at them first).
  explicit DataNumbers(const KernelIr& kernel);

  /// Whether the expression's value is made of a load, a scalar of the launch, or a variable or array that holds such a
  /// one. The condition of a choice says which value, not what it is.
  bool is_data(ExprId id) const { return exprs_[id]; }

  /// A kAssume about data; nothing when there is none.
  std::optional<ExprId> assumption_about_data() const;

 private:
  bool compute(ExprId id) const;
  bool visit(const std::vector<Stmt>& body);  // true when something was found that was not known
  bool note(std::vector<bool>& known, std::uint32_t id, bool is_data);

  const KernelIr& kernel_;
  std::vector<bool> exprs_, variables_, arrays_;
};

}  // namespace crucible::kernel
