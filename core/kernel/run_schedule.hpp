// Running the steps of a schedule on plain host buffers, one after the other, whoever does the launches: the
// interpreter of the kernel IR here, compiled kernels in tests (host_executor.hpp). No plan, no plugin; library calls
// are not for it.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "core/base/result.hpp"
#include "core/graph/program.hpp"
#include "core/graph/reference_numbers.hpp"
#include "plugins/kernel_ir/kernel_ir.hpp"
#include "core/kernel/schedule.hpp"

namespace crucible::kernel {

struct RunOptions {
  bool in_place = false;  // operands and results of Schedule::in_place share memory
  int pieces = 1;         // each grid is run in so many slices, last slice first
  bool poison = true;     // results start as garbage
};

/// One slice of a launch. `buffers` are those of the step, `roots` the values in whose memory they lie.
struct Launch {
  const Step& step;
  std::span<graph::Bytes* const> buffers;
  std::span<const graph::ValueId> roots;
  std::span<const std::uint64_t> scalars;  // eight bytes each, of a double or an i64 as the kernel says
  std::int64_t begin = 0, end = 0;
};

/// What a step hands its kernel: eight bytes each, as in Launch. `slots` has a number per slot of the program.
std::vector<std::uint64_t> scalars_of(const Step& step, std::span<const graph::Number> slots);

/// Runs one iteration. `values` as for graph::run_iteration. Returns all buffers; those of values that fusion did away
/// with are empty. Errors: those of `launch`; kInternal when a step is a library call.
Result<std::vector<graph::Bytes>> run_schedule(const graph::Program& program, const Schedule& schedule,
                                               std::vector<graph::Bytes> values, std::span<const graph::Number> slots,
                                               const RunOptions& options,
                                               const std::function<Result<void>(const Launch&)>& launch);

/// Runs schedules of one program by the interpreter (interpreter.hpp), straight from their kernels' serialised IR.
class ScheduleInterpreter {
 public:
  /// Errors: kInternal when a step is no launch, kBadInput for IR that cannot be read.
  static Result<ScheduleInterpreter> create(const graph::Program& program, const Schedule& schedule);
  /// `watch`: each access is checked (MemoryWatch). Errors: those of run_schedule() and interpret(), with the ops of
  /// the step.
  Result<std::vector<graph::Bytes>> run(const graph::Program& program, const Schedule& schedule,
                                        std::vector<graph::Bytes> values, std::span<const graph::Number> slots,
                                        const RunOptions& options, bool watch) const;

 private:
  ScheduleInterpreter() = default;
  std::vector<KernelIr> kernels_;  // as Schedule::kernels
};

}  // namespace crucible::kernel
