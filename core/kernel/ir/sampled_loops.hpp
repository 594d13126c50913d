// Which loops of a kernel may be sampled: done for some of their passes alone, so that what those store is still what
// the whole kernel would store there. They leave nothing to later passes or to what follows the loop: no variable, no
// array, no buffer that is read. Whether passes write to one place nobody can tell from the text; who compares a sample
// has to do the whole kernel before it calls a difference one.
#pragma once

#include <unordered_map>
#include <vector>

#include "plugins/kernel_ir/kernel_ir.hpp"

namespace crucible::kernel {

class SampledLoops {
 public:
  /// The kernel outlives this.
  explicit SampledLoops(const KernelIr& kernel);

  /// `loop` is a kFor of the kernel. Threads: one.
  bool may_sample(const Stmt& loop);

 private:
  using Counts = std::vector<std::uint32_t>;  // per array
  struct Contents {
    Counts reads, writes;
    std::vector<std::uint32_t> loads, stores;  // per buffer
    std::vector<VariableId> defined, set;
    bool has_store = false;
  };
  Contents nothing() const;
  void collect(const Stmt& stmt, Contents& contents) const;
  void collect(ExprId id, Contents& contents) const;
  bool decide(const Stmt& loop) const;

  const KernelIr& kernel_;
  Contents all_;
  std::unordered_map<const Stmt*, bool> known_;
};

}  // namespace crucible::kernel
