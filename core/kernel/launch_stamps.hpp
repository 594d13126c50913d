// Launches that are written once for all units that are equal. A unit (fuse/fusion.hpp) is written out as words without
// the names of its values, slots and ops; what has the same words has the same kernel, launched on other values.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/program.hpp"
#include "core/kernel/fuse/content_words.hpp"
#include "core/kernel/fuse/fusion.hpp"
#include "core/kernel/schedule.hpp"

namespace crucible::kernel {

/// A launch but for the names of what it is launched on.
struct StampedLaunch {
  struct Buffer {
    std::uint32_t value = 0;  // its place among the values of the unit
    bool written = false;
  };
  Kernel kernel;
  std::string hash = {};  // of its text, in full
  std::vector<Buffer> buffers = {};
  std::vector<std::uint32_t> scalars = {};                            // places among the slots of the unit
  std::vector<std::pair<std::uint32_t, std::uint32_t>> aliases = {};  // values: operand, result
  std::int64_t grid = 1, grain = 1;
  std::uint64_t flops = 0;
  std::vector<ProductCut> cuts = {};
};

/// What was written so far. Of programs that may differ.
/// Threads: one at a time.
class LaunchStamps {
 public:
  /// With `reuse` false each unit is written anew: for tests, which compare.
  explicit LaunchStamps(bool reuse = true) : reuse_(reuse) {}

  struct Counts {
    std::uint64_t asked = 0, written = 0;  // units; those that no equal one was written for before
  };
  Counts counts() const { return {asked_, written_}; }

  /// The names of a unit.
  struct Names {
    std::vector<graph::ValueId> values;
    std::vector<graph::Scalar> slots;
  };
  /// Everything that the text and the launch of a unit depend on is written down, with what comes from the outside:
  /// `stored`, its values that others need, and the device, with the cut of its product. Units that depend on more
  /// (whose emitters look at other units) must not be asked for.
  static bool can_stamp(const graph::Program& program, const Unit& unit);

  /// The launch that was written for an equal unit; null where there was none. names() are then the unit's.
  const StampedLaunch* find(const graph::Program& program, const Unit& unit, const std::vector<graph::ValueId>& stored,
                            Numerics numerics, const DeviceShape& device);
  const Names& names() const { return names_; }
  /// Keeps what find() was asked for last, written on names().
  void keep(StampedLaunch launch);

 private:
  void write_op(WordWriter& write, const graph::Op& op);
  std::uint32_t slot(const graph::Scalar& scalar);

  bool reuse_;
  std::uint64_t asked_ = 0, written_ = 0;
  ByWords<StampedLaunch> launches_;
  Words words_;
  Numbering values_, ops_;
  Names names_;
};

}  // namespace crucible::kernel
