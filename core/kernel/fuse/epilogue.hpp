// Which element-wise groups become the epilogue of a product: done on each element of the result while the work item
// that made it still has it in registers, instead of by a launch that reads it from memory again. After fusion
// (fusion.hpp); the kernel is epilogue_emitter.hpp's.
//
// A product is a matrix product, or a convolution or a gradient of one that is done by tiles.
#pragma once

#include <functional>
#include <vector>

#include "core/kernel/fuse/fusion.hpp"

namespace crucible::kernel {

/// True when a kernel is generated for this product, false when a library does it.
using IsGenerated = std::function<bool(graph::OpId product)>;

/// The units with groups joined to products wherever that is legal (no path leaves the unit and returns to it, every
/// value is read where it is written, at most 24 buffers) and worth it, in an order of execution that needs no more
/// memory. `units` are in such an order and have no epilogues. `is_generated` is asked once at most per product, and
/// only about those that have a candidate.
std::vector<Unit> join_epilogues(const graph::Program& program, std::vector<Unit> units,
                                 const IsGenerated& is_generated);

/// Why the unit of op `group` is not part of the epilogue of the unit of op `product`; both are ops of `units`, which
/// join_epilogues() returned.
Apart epilogue_apart(const graph::Program& program, const std::vector<Unit>& units, const IsGenerated& is_generated,
                     graph::OpId product, graph::OpId group);

/// True for ops that take an epilogue.
bool takes_epilogue(const graph::Program& program, graph::OpId op);

/// The product as a nest that writes its result and reads nothing. Its `inputs` are counters, values of kNone whose
/// accesses give one coordinate each: of a matrix product one per dimension of the result; of a convolution the group
/// of channels, and the channel in it. They stay right through every change of the dimensions.
Group product_nest(const graph::Program& program, graph::OpId op);

/// Lanes of a row that lie within one stretch of what they are cut into, from each multiple of it; a product's kernel
/// does as many at a time, or a part.
inline constexpr std::int64_t kEpilogueLanes = 32;

/// Whether vectors run along the rows (true) or the columns of a matrix product's result: along the longer side, or
/// along which it lies in memory.
bool runs_along_rows(const graph::View& result);

}  // namespace crucible::kernel
