// The edge of the program: which values that enter from outside are states, inputs and constants, what the states hold
// at the end, and which losses are watched. Runs once, when all ops are lowered.
#pragma once

#include <vector>

#include "frontends/aten/algebra/emitter.hpp"
#include "core/graph/variants.hpp"
#include "frontends/aten/recording/align.hpp"
#include "frontends/aten/recording/history.hpp"
#include "frontends/aten/recording/storage_map.hpp"

namespace crucible::aten {

/// Losses are read where backward begins: later in-place writes do not matter.
class Losses {
 public:
  Losses(const trace::Trace& trace, const Alignment& alignment) : trace_(trace), alignment_(alignment) {}
  /// Reads every loss that exists by now and was not read yet.
  void read_present(StorageMap& storages);
  /// One output per loss. Errors: kBadInput when a loss is no result of the recorded ops, or when iterations differ.
  Result<void> finish(StorageMap& storages, graph::Program& program);

 private:
  const trace::Trace& trace_;
  const Alignment& alignment_;
  std::vector<Term> terms_;  // per loss of iteration 0; a number where it has not been read
};

/// Sorts every value from outside into states, inputs and constants, the same states in all groups and in one order:
/// a group that does not touch one has it all the same. Returns the iterations in their order, with the groups as
/// variants. Errors: kBadInput when bytes are missing, or when what is read was not left by anybody.
Result<std::vector<graph::Turn>> classify(const trace::Trace& trace, const std::vector<LoweredGroup>& groups);

}  // namespace crucible::aten
