// Which tensors of a recording are compound, and what each consists of: found at once, however many there are.
#pragma once

#include <unordered_map>

#include "core/trace/trace.hpp"

namespace crucible::trace {

/// The trace must outlive it, and its compounds may not change. Threads: any number.
class Compounds {
 public:
  explicit Compounds(const Trace& trace) : trace_(trace) {
    for (const CompoundTensor& compound : trace.compounds) by_tensor_.try_emplace(compound.tensor, &compound);
  }
  /// What that tensor consists of; nullptr for one that is not compound.
  const CompoundTensor* find(TensorId tensor) const {
    const auto found = by_tensor_.find(tensor);
    return found == by_tensor_.end() ? nullptr : found->second;
  }
  const Trace& trace() const { return trace_; }

 private:
  const Trace& trace_;
  std::unordered_map<TensorId, const CompoundTensor*> by_tensor_;
};

}  // namespace crucible::trace
