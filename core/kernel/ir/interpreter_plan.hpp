// How the interpreter does many passes of a loop at a time: its body as a list of instructions on slots, each of which
// holds a number per pass (interpreter_lanes.hpp). Only loops that end as they would pass after pass have a plan.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "plugins/kernel_ir/kernel_ir.hpp"

namespace crucible::kernel {

struct LanePlan {
  using Slot = std::uint32_t;
  static constexpr Slot kNone = 0xffffffffu;

  /// An expression that is the same in all passes, to be had when the loop begins.
  struct Uniform {
    ExprId expr = kNoId;
    Slot to = kNone;
  };
  enum class Kind : std::uint8_t { kLoad, kAssume, kSelect, kFma, kFunction, kCompute, kStore, kGather, kMask };
  struct Instruction {
    Kind kind = Kind::kCompute;
    bool is_array = false;             // kLoad, kStore
    bool is_not = false;               // kMask: lanes in which `a` does not hold
    DType type = DType::kI64;          // of the operands; of what is loaded or stored
    const Expr* expr = nullptr;        // all but kStore
    ExprId id = kNoId;                 // of `expr`
    std::uint32_t place = 0;           // kLoad, kStore: buffer or array; kGather: variable
    Slot to = kNone, a = kNone, b = kNone, c = kNone;
    Slot mask = kNone;                 // lanes in which it is done; none: all
  };
  std::vector<Uniform> uniforms;
  std::vector<Instruction> instructions;
  Slot slots = 1;  // slot 0: the loop's variable
};

/// What a store to an array does that stands within loops and conditions (`path`, outermost first) which leave each
/// other alone, in the passes that the lanes' slots 0 and on name, one slot for each loop; null where it has no plan.
/// `definitions`: per variable, of those that the path defines at least.
std::unique_ptr<LanePlan> plan_leaf(const KernelIr& kernel, const std::vector<const Stmt*>& path, const Stmt& store,
                                    const std::vector<ExprId>& definitions);

/// The plan of an innermost loop; null where its passes have to be done one after the other.
std::unique_ptr<LanePlan> plan_lanes(const KernelIr& kernel, const Stmt& loop);

}  // namespace crucible::kernel
