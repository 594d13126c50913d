// Which ops become one kernel: groups of nests joined while it is legal (no path leaves a group and returns to it) and
// worth it, and an order of execution. Ops that are no nests (contractions, pooling, scatter, ...) stand alone.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/kernel/fuse/nest.hpp"

namespace crucible::kernel {

class GroupStamps;

/// One unit of execution: a group of nests, or a single op of another kind (group without members). Or a product with
/// its epilogue (epilogue.hpp): then the group holds the product as a member that only writes, and those that take its
/// result.
struct Unit {
  std::vector<graph::OpId> ops;  // ascending
  Group group;
  // Products of an attention (attention.hpp): whose results the group reads, and that read what it makes. Empty for
  // others.
  std::vector<graph::OpId> inner = {}, outer = {};
  bool is_attention() const { return !inner.empty() || !outer.empty(); }
  graph::OpId anchor =
      graph::kNone;  // the product whose epilogue the group is, or without one the other ops (library_epilogue.hpp)
  std::uint32_t library_attention = graph::kNone;  // the call that it is (named_attention.hpp)
};

/// Why two units are not one kernel.
enum class Apart : std::uint8_t {
  kNot,          // nothing is in the way
  kOwnKind,      // one of them is a contraction, a scatter, ...: a kernel of its own kind
  kEmpty,        // one has no elements
  kShape,        // no correspondence of their dimensions holds for every value that they share
  kPath,         // a third unit needs a result of one and makes an operand of the other
  kMembers,      // more ops than one kernel takes
  kBuffers,      // more buffers than one kernel takes
  kWaiting,      // too many large tensors would have to wait for each other
  kParallelism,  // many independent rows would become few
  kScratch,      // attention: too few rows of scores fit into the scratch of a work item
  kNoGain,       // attention: reading keys and values again for each block of rows costs more than scores in memory
  kLibrary,      // attention: the library's products are faster than one step for all, the scores being few
  // of a product and what takes its result:
  kLibraryProduct,         // the product is a library call
  kNotElementwise,  // it sums or looks up
  kTaken,           // it is the epilogue of another product
  kAcross,          // its operands lie across the rows of the product
  kMemory,          // the step would need more memory
};
/// "a third step lies between them": for people.
std::string_view words(Apart apart);

/// Two units that exchange a value, or read the same one, and were not joined.
struct Neighbour {
  graph::OpId own = graph::kNone;       // the first op of the one
  std::vector<graph::OpId> ops = {};    // of the other, ascending
  graph::ValueId value = graph::kNone;  // that they share
  Apart apart = Apart::kNot;
};

/// A product that was not joined to a group though the two have the form of an attention.
struct NotFused {
  graph::OpId product = graph::kNone, group = graph::kNone;  // the second: an op of the group
  Apart apart = Apart::kNot;
};

/// The units beside those that have `ops`, in the order of their ops; once for each of those. The work of make_units()
/// is done again.
std::vector<Neighbour> neighbours(const graph::Program& program, const std::vector<graph::OpId>& ops,
                                  Numerics numerics);

/// By the phase of the op's source; ops without one are of the forward pass.
bool is_forward(const graph::Program& program, graph::OpId op);

/// Per op of the program: its unit, kNone where it has none.
std::vector<std::uint32_t> units_of_ops(const graph::Program& program, const std::vector<Unit>& units);

/// Units in an order that respects definitions before uses. With `fuse` false each op is a unit, in program order.
/// `stamps`: what was decided before, of the same numerics, and is not decided again; null: nothing. No unit depends on
/// it.
std::vector<Unit> make_units(const graph::Program& program, bool fuse, Numerics numerics,
                             GroupStamps* stamps = nullptr);

}  // namespace crucible::kernel
