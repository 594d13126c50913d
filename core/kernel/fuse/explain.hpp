// Why a step is what it is: what was fused in it and what that saves, and what stands beside it and was not, for which
// reason.
#pragma once

#include <vector>

#include "core/kernel/fuse/fusion.hpp"
#include "core/kernel/fuse/named_attention.hpp"
#include "core/kernel/schedule.hpp"

namespace crucible::kernel {

struct Explanation {
  std::vector<graph::ValueId> inside;  // made and read in the step, and nowhere else: they have no buffer
  std::uint64_t bytes_saved = 0;       // of writing these once, and reading them once per op that does
  std::size_t launches_saved = 0;
  struct Beside {
    std::uint32_t step = graph::kNone;
    graph::ValueId value = graph::kNone;  // that the two share
    Apart apart = Apart::kNot;
  };
  std::vector<Beside> apart;  // in the order of the steps
  NotCalled not_called = NotCalled::kNoAttention;  // of a step of an attention: why the library does not do it whole
};

/// `schedule` is what schedule() made of `program` with fusion; `step` one of its steps. Its fusion is done again for
/// the answer.
Explanation explain(const graph::Program& program, const Schedule& schedule, std::uint32_t step);

}  // namespace crucible::kernel
