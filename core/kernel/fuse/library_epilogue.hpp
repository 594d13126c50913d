// Which ops after a matrix product a library does in the same call: a bias, and an activation of what that makes
// (CRUCIBLE_EPILOGUE_*). They leave the groups that they are in, whatever else those do; epilogue.hpp is the same for
// products by generated kernels.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "core/kernel/fuse/fusion.hpp"
#include "core/kernel/schedule.hpp"

namespace crucible::kernel {

/// A product with an epilogue.
struct ProductCall {
  LibraryCall call;
  std::vector<graph::OpId> ops;  // that it does, ascending
  graph::ValueId bias = graph::kNone, result = graph::kNone;
};

/// Gives products that a library does the epilogues that it claims; such a unit has the product as anchor and no group.
/// By product. `units` are in an order of execution, which they stay in. `by_library`: whether the library does this
/// product.
std::map<graph::OpId, ProductCall> take_epilogues(const graph::Program& program, std::vector<Unit>& units,
                                                  const std::function<bool(graph::OpId)>& by_library,
                                                  const std::function<bool(const LibraryCall&)>& claims);

}  // namespace crucible::kernel
