// What has to run again so that a tensor's content is there once more at some position: its producer, the producers of
// those operands that are gone by then, and so on.
#pragma once

#include <optional>

#include "core/budget/line.hpp"

namespace crucible::budget {

/// Nodes to repeat, in their order, and the tensors that later readers may take from the repetition.
struct Chain {
  std::vector<NodeId> nodes = {};
  std::vector<TensorId> loads = {};       // operands that the host gives again: inputs, or what it was given to keep
  double cost_ns = 0;
  std::vector<TensorId> replaced = {};    // what they write again for later readers, the tensor itself included
  std::uint64_t kept_longer = 0;     // bytes of operands that live longer for it
};

/// Answers for one line and its life; they must not change meanwhile.
class Chains {
 public:
  Chains(const Line& line, const Live& live);

  /// The cheapest way that is seen: an operand that is gone is kept instead where it is small beside the tensor.
  /// Nothing when something in the chain may not be repeated, or a state that it reads has been updated, or it gets too
  /// long.
  std::optional<Chain> of(TensorId tensor, std::uint32_t position) const;

  /// A tensor of that content that is alive at the position, the operand itself first; kNone when there is none.
  TensorId alive_twin(TensorId tensor, std::uint32_t position) const;
  /// The tensor on the host that has its content by then; kNone when there is none.
  TensorId host_twin(TensorId tensor, std::uint32_t position) const;

 private:
  bool add(TensorId tensor, std::uint32_t position, std::uint64_t small, Chain& chain, std::vector<NodeId>& open) const;
  bool is_overwritten(TensorId state, std::uint32_t position) const;
  bool may_load(TensorId tensor, std::uint32_t position) const;

  const Line& line_;
  const Live& live_;
  std::vector<std::vector<TensorId>> twins_;  // per value
  std::vector<TensorId> end_of_;              // per tensor: of a state's start
};

/// Puts the loads and the repetitions of a chain in front of `position` and gives their results to all later readers of
/// what they hold. The line must be the one that the chain was made for, and every load must have its tensor on the
/// host; `chains` speaks of the line as it was afterwards too.
void insert(Line& line, const Chains& chains, const Chain& chain, std::uint32_t position);

}  // namespace crucible::budget
