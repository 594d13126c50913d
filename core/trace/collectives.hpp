// Whether the ranks of one program called the same collectives in the same order: `crucible trace merge`. A collective
// is told by its operator's namespace; what it computes is not known here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/trace/trace.hpp"

namespace crucible::trace {

struct Collective {
  std::uint32_t op = 0;      // index in Trace::ops
  std::string group;         // as the argument says it, without the rank: "process group 'default_pg' of 2"
  std::string text;          // "allreduce_ f32[32], SUM": what must be the same on every rank
};

/// Every collective of the recording in order; sends and receives between two ranks are none.
std::vector<Collective> collectives(const Trace& trace);

/// "" when every group's collectives are the same on all its ranks, else the first disagreement in words. `traces` are
/// the ranks 0, 1, ... in order.
std::string collective_disagreement(std::span<const Trace> traces);

}  // namespace crucible::trace
