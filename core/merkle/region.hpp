// Programs as trees of regions that are known by what they compute. A region's content hash is the same wherever it
// stands, whatever its values, modules and files are called; its Merkle hash says how it is cut besides, so that two
// programs are compared from the top and equal trees are skipped. Equal neighbours become loops, and the programs of
// iterations that differ become branches with what they have in common before and after.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/hash.hpp"
#include "core/graph/branches.hpp"
#include "core/graph/program.hpp"
#include "core/graph/variants.hpp"
#include "core/merkle/cut.hpp"

namespace crucible::merkle {

using RegionId = std::uint32_t;

enum class RegionKind : std::uint8_t {
  kRun,        // all iterations: one child, an iteration or a branch
  kBranch,     // its children are iterations, of which one runs: one for each of `ways`
  kIteration,  // of one program
  kPhase,
  kModule,
  kOps,
  kLoop  // its children, the turns, are equal regions
};
/// "run", "branch", "iteration", "phase", "module", "ops", "loop".
std::string_view name(RegionKind kind);

/// Result `result` of a turn is operand `operand` of the next one. Both by place.
struct Carried {
  std::uint32_t result = 0, operand = 0;
  auto operator<=>(const Carried&) const = default;
};

/// What decides between the ways of a branch, and how.
struct Way {
  std::string when;           // "[8, 6]", "9 times": the guard's outcome
  std::uint32_t variant = 0;  // whose program it is
  std::uint32_t iterations = 0;
};

struct Region {
  RegionKind kind = RegionKind::kOps;
  std::string name;           // for people; in no hash. Of a loop the first turn's
  std::uint32_t program = 0;  // which of the tree's programs its ops and values are of
  ContentHash content, merkle;
  std::vector<graph::OpId> ops;                   // in canonical order; of loops, branches and runs none
  std::vector<graph::ValueId> operands, results;  // what it reads from outside and leaves, in canonical order
  std::vector<graph::SlotId> slots;
  std::vector<RegionId> children;        // definitions before uses, else by their hashes
  std::vector<Carried> carried;          // of a loop; empty: its turns do not wait for each other
  std::vector<Way> ways;                 // of a branch
  std::uint32_t prefix = 0, suffix = 0;  // of a branch: how many of the phases' children are the same in all ways,
                                         // from the first one on and up to the last one
  std::string asked;                     // of a branch: "the size of what aten::addmm takes as mat1"
};

/// The programs of a recording as regions. Owns the programs. Threads: any, once it is built.
struct RegionTree {
  std::vector<Region> regions;  // the root is the last one; children stand before their parents
  std::vector<std::shared_ptr<const graph::Program>> programs;
  const Region& root() const { return regions.back(); }
};

/// How bytes become a hash. Tests pass a short one, under which different regions have equal hashes: regions are equal
/// only where their canonical forms are, and of two that collide the one that is met later is hashed again with its
/// number.
using HashBytes = std::function<ContentHash(std::span<const std::byte>)>;

/// `constants`: as of program_hash(). Cost: ops times the depth of the tree, and one sort.
RegionTree regions_of(std::shared_ptr<const graph::Program> program, std::span<const ContentHash> constants,
                      const HashBytes& hash = sha256);

/// All variants of a recording. `branches`: what parts them (aten::find_branches); may be empty.
RegionTree regions_of(const graph::Variants& variants, const graph::Branches& branches,
                      std::span<const ContentHash> constants, const HashBytes& hash = sha256);

/// Regions of distinct content below a region, itself included: what has to be compiled once.
std::vector<RegionId> distinct(const RegionTree& tree);

/// The region whose content or Merkle hash begins with these hexadecimal digits. Errors: kUsage where there is none, or
/// where several differ, naming them.
Result<RegionId> find(const RegionTree& tree, std::string_view prefix);

}  // namespace crucible::merkle
