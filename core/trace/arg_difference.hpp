// Two arguments of two recordings compared, in words. It remembers which storage of the one recording stands for which
// of the other, so that sharing is compared and numbers are not.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/trace/compounds.hpp"
#include "core/trace/trace.hpp"

namespace crucible::trace {

/// Threads: one caller at a time. The traces must outlive it.
class ArgComparison {
 public:
  /// report(PLACE, WHAT): PLACE is "" for the argument itself, "[3]" or "[3].indices" inside it.
  using Report = std::function<void(const std::string& place, const std::string& what)>;

  ArgComparison(const Trace& a, const Trace& b);
  void compare(const Arg& a, const Arg& b, const Report& report);
  void compare_tensors(TensorId a, TensorId b, const Report& report);
  /// The second recording's storage that stands for `storage` of the first, or kNone.
  StorageId partner(StorageId storage) const { return to_b_[storage]; }
  /// "weight", or "the one that op 12 of iteration 0, aten::mul.Tensor, made", of the first (or second) recording.
  std::string storage_text(StorageId storage, bool of_second) const;

 private:
  struct Side {
    const Trace* trace = nullptr;
    Compounds compounds;
  };
  void compare_at(const Arg& a, const Arg& b, const std::string& place, int depth, const Report& report);
  void compare_tensors_at(TensorId a, TensorId b, const std::string& place, int depth, const Report& report);
  void compare_compounds(TensorId a, TensorId b, const std::string& place, int depth, const Report& report);
  /// "" or how the storages differ, in size too if `with_size`. Binds them to each other when neither has a partner.
  std::string compare_storages(StorageId a, StorageId b, bool with_size);

  Side a_, b_;
  std::vector<StorageId> to_b_, to_a_;
  std::set<std::pair<StorageId, StorageId>> told_;  // pairs that do not belong together, each told once
};

}  // namespace crucible::trace
