// The op list of a backend plan: steps, then (poisoned) fills of what has died, then the copies that bring states home.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "runtime/run/session.hpp"

namespace crucible::runtime {

inline constexpr std::uint8_t kPoisonByte = 0xff;  // 0xffffffff is a NaN as f32, 0xff..ff as f64, -1 as an integer

/// Finds the loaded kernel of a name.
using FindKernel = std::function<Result<crucible_kernel*>(std::string_view)>;

/// Which part of a schedule becomes one list: the steps [begin, end), and the home copies behind them or not.
struct StepRange {
  std::uint32_t begin = 0, end = graph::kNone;  // kNone: to the last step
  bool homes = true;
  std::uint32_t place = 0;  // of the inputs: Placement::buffer_at
  bool has_sizes = false;  // launches say how large their buffers are: the device asks (wants_buffer_bytes)
  /// Device addresses of the buffers from Placement::first_kept on, where they lie outside of the arena, which has what
  /// stands behind them alone. Empty: they lie in it.
  std::span<const std::uint64_t> outside = {};
};

/// crucible_op entries and the arrays that they point into.
class PlanOps {
 public:
  /// Units: `arena_address` is the device address of the arena's byte 0. With `poison`, every buffer is overwritten
  /// with kPoisonByte right after the last step of its life. Errors: kInternal for an integer scalar that a double
  /// cannot hold, and for a kernel that is not in the module.
  static Result<PlanOps> build(const graph::Program& program, const kernel::Schedule& schedule,
                               const Placement& placement, std::uint64_t arena_address, const FindKernel& find_kernel,
                               bool poison, const StepRange& range = {});

  std::span<const crucible_op> ops() const { return ops_; }
  /// Per op: the buffer of the placement at each of its addresses; of poison's fills nothing.
  const std::vector<std::vector<std::uint32_t>>& buffers() const { return buffers_; }
  /// Per step of the range: the index of its op in ops().
  const std::vector<std::uint32_t>& op_of_step() const { return op_of_step_; }

 private:
  PlanOps() = default;
  using AddressOf = std::function<std::uint64_t(std::uint32_t buffer)>;
  Result<void> add_step(const kernel::Schedule& schedule, const Placement& placement, std::uint32_t step,
                        std::uint32_t place, const AddressOf& address_of, const FindKernel& find_kernel);
  void add_sizes(const graph::Program& program, const kernel::Step& step);
  void add_fill(std::uint64_t address, std::uint64_t size);
  void add_copy(std::uint64_t to, std::uint64_t from, std::uint64_t size);
  void link();

  std::vector<crucible_op> ops_;
  std::vector<std::uint32_t> op_of_step_;
  std::vector<std::vector<std::uint64_t>> addresses_;  // per op
  std::vector<std::vector<std::uint32_t>> buffers_;    // per op
  std::vector<std::vector<crucible_scalar>> scalars_;  // per op
  std::vector<crucible_library_desc> descriptions_;
  std::vector<std::uint32_t> description_of_;  // per op
};

}  // namespace crucible::runtime
