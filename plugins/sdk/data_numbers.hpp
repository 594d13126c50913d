// Which numbers of a kernel come from memory or from the launch. Nobody knows how large they are: arithmetic on them wraps,
// while that on sizes and turns of loops cannot.
#pragma once

#include <vector>

#include "plugins/sdk/kernel_ir.hpp"

namespace crucible::sdk {

class DataNumbers {
 public:
  /// The kernel, as read_kernel gave it, outlives this.
  explicit DataNumbers(const Kernel& kernel);

  /// Whether the expression's value is made of a load, a scalar of the launch, or a variable or array that holds such a one. The
  /// condition of a choice says which value, not what it is.
  bool is_data(std::uint32_t id) const { return exprs_[id]; }

 private:
  bool compute(std::uint32_t id) const;
  bool visit(const std::vector<Stmt>& body);  // true when something was found that was not known

  const Kernel& kernel_;
  std::vector<bool> exprs_, variables_, arrays_;
};

}  // namespace crucible::sdk
