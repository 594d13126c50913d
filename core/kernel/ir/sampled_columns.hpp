// Which loops of a kernel run over columns that have nothing to do with each other: each pass touches element i of the
// arrays and nothing else of them, in this loop and in all others that touch them, and all of these have the same
// bounds. So columns may be left out of all of them together, and the others end as they would. Who compares a sample
// has to do the whole kernel before it calls a difference one.
#pragma once

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "plugins/kernel_ir/kernel_ir.hpp"

namespace crucible::kernel {

class SampledColumns {
 public:
  /// The kernel outlives this.
  explicit SampledColumns(const KernelIr& kernel);

  bool may_sample(const Stmt& loop) const { return loops_.contains(&loop); }
  bool empty() const { return loops_.empty(); }
  /// Roughly what an item costs, in operations; loops whose bounds are no constants count once.
  std::uint64_t cost() const { return cost_; }

 private:
  struct Access {
    const Stmt* loop = nullptr;  // innermost; null: none
    std::uint32_t id = 0;        // array or buffer
    bool is_write = false, is_column = false;  // is_column: at the loop's variable
  };
  std::uint64_t collect(const std::vector<Stmt>& body, const Stmt* loop);
  std::uint64_t collect(ExprId id, const Stmt* loop);
  bool is_at(ExprId index, const Stmt* loop) const;
  bool drop_one();

  const KernelIr& kernel_;
  std::vector<Access> arrays_, buffers_;
  std::unordered_set<const Stmt*> loops_;
  std::uint64_t cost_ = 0;
};

}  // namespace crucible::kernel
