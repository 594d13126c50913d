// Where a program is cut into regions: by phase, by the path of the module whose call an op belongs to, and where a
// module is called again after others. The cut says what belongs together and how it is called; hashes of what was cut
// (region.hpp) contain neither names nor the order in which independent ops stand in the program.
#pragma once

#include <string>
#include <vector>

#include "core/graph/program.hpp"

namespace crucible::merkle {

enum class PartKind : std::uint8_t {
  kIteration,  // everything
  kPhase,      // forward, backward, optimizer; what runs after the backward pass without one of its own is one, too
  kModule,     // one call of a module, or its part of a phase
  kOps         // ops of a module that belong to none inside of it
};

/// Ops that belong together. No path between them leaves the part and comes back, so that a part is one computation
/// with operands and results.
struct Part {
  PartKind kind = PartKind::kIteration;
  std::string name;              // "forward"; "blocks.0.norm1"; of kOps the module whose they are, "" of none
  std::vector<graph::OpId> ops;  // all of them, ascending
  std::vector<Part> parts;       // each op in exactly one of them; none: not cut further. In no order that means
                                 // anything
};

/// Ops of the backward pass and of optimizers have no module of their own: they belong to that whose parameters they
/// change or read, or whose results they read; then to that of the gradient they take.
/// Ops that read nothing from outside the program (masks, tables of positions) stand beside their readers, wherever
/// the first of them called for them.
/// Cost: ops times the depth of the modules' tree, but for modules whose calls interlace.
Part cut_by_modules(const graph::Program& program);

}  // namespace crucible::merkle
