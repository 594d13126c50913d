// Runs kernels straight from their IR, without printer and compiler: the yardstick for both. One item after the other,
// every loop one pass after the other, each expression with the types that it names, so that a strict kernel has the
// bits here that it has everywhere. Slow: some 20 ns for every operation.
//
// Every index is checked against its buffer or array. With a MemoryWatch on each buffer two more rules are: nothing is
// read that nothing wrote, and items, like passes of a loop that may be vectorised, do not touch what another one of
// them writes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/result.hpp"
#include "plugins/kernel_ir/kernel_ir.hpp"
#include "core/kernel/ir/touched_memory.hpp"

namespace crucible::kernel {

/// Who touched each element of a piece of memory. Buffers that share memory share one, and a buffer keeps it from
/// kernel to kernel.
class MemoryWatch {
 public:
  /// `is_defined`: it holds numbers already.
  MemoryWatch(std::int64_t elements, bool is_defined)
      : cells_(static_cast<std::size_t>(elements), Cell{.is_defined = is_defined}) {}

 private:
  friend class InterpreterRun;
  /// Passes are numbered through: an item, or a pass of a vectorisable loop, in the order in which they run.
  struct Cell {
    bool is_defined = false;
    std::uint64_t writer = 0, reader = 0, reader_before = 0;
  };
  std::vector<Cell> cells_;
};

struct InterpretedBuffer {
  std::byte* data = nullptr;  // aligned for its elements; outlives the call
  std::int64_t elements = 0;  // of the kernel's type
  MemoryWatch* watch = nullptr;
  TouchedMemory* touched = nullptr;  // whose memory `data` is; null: all of it is there
};

/// What was done, counted one by one: elements, not bytes.
struct InterpretedWork {
  std::uint64_t items = 0, loads = 0, stores = 0;
  std::uint64_t multiply_adds = 0;  // of tiles, each two flops
  std::uint64_t arithmetic = 0;     // operations on floats outside of them
  bool is_sampled = false;          // passes were left out

  /// In units that each take the interpreter some 20 ns.
  std::uint64_t cost() const { return loads + stores + arithmetic + multiply_adds / 16; }
};

/// How passes are numbered on through a sequence of launches, so that watches tell them apart.
struct PassNumbers {
  std::uint64_t before = 0;  // the number that the launch began with; its slices, if it is done in several, all have it
  std::uint64_t* present = nullptr;  // counted up; 0 before the first launch of all
};

/// Does the items [begin, end) of a kernel that verify_kernel() took. Not for several threads on the same buffers.
/// `budget`: an item that costs more than this is sampled, where its text allows that (sampled_loops.hpp,
/// sampled_columns.hpp, tiled_kernel.hpp): what is stored then is what the whole item would store there; 0: none is.
/// Errors: kInternal for an index outside, a number read before it was written, a race, an assumption that does not
/// hold and an integer divided by 0, naming buffer or array, index and item.
Result<InterpretedWork> interpret(const KernelIr& kernel, std::span<const InterpretedBuffer> buffers,
                                  std::span<const std::uint64_t> scalars, std::int64_t begin, std::int64_t end,
                                  const PassNumbers& passes, std::uint64_t budget = 0);

}  // namespace crucible::kernel
