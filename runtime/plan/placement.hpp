// From a schedule to buffers with lifetimes and offsets: which values share one buffer, when each buffer is alive,
// where it lies, and which end values must be copied home. The output of planning, before any device is touched.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/base/result.hpp"
#include "core/graph/program.hpp"
#include "core/kernel/schedule.hpp"
#include "core/memory/certificate.hpp"
#include "core/memory/plan.hpp"

namespace crucible::runtime {

/// Every offset is a multiple of this: a cache line, a vector, and what GPUs want for coalesced access. Units: bytes.
inline constexpr std::uint64_t kAlignment = 256;

/// A copy after the last step that brings the end value of a state into the buffer of its start value.
struct HomeCopy {
  std::uint32_t from = graph::kNone, to = graph::kNone;  // indices in Placement::buffers
  std::uint64_t size_bytes = 0;
};

/// Where states and constants lie that several programs have in common, one of them running at a time: at the beginning
/// of the arena, in the same places for all. Units: bytes from there.
struct KeptPlaces {
  std::vector<std::uint64_t> states;  // by Program::states
  /// By blob, and how many constants of the program before it have the same.
  std::map<std::pair<std::uint32_t, std::size_t>, std::uint64_t> constants;
  std::uint64_t size_bytes = 0;  // a multiple of kAlignment

  /// For programs over the same states, whose buffers have red zones of this size.
  static KeptPlaces of(std::span<const std::shared_ptr<const graph::Program>> programs, std::uint64_t red_zone_bytes);
};

/// A schedule with an address range for every buffer: the output of planning, before any device is touched.
/// Time in `buffers` counts steps; the home copies run at the time after the last step.
struct Placement {
  std::vector<memory::Buffer> buffers;    // planner input, one per group of values that share memory
  std::vector<std::uint32_t> buffer_of;   // per value of the program; graph::kNone when it has none
  /// Where inputs have two places: per value, the second one; graph::kNone when it has none. Iterations use the two in
  /// turn, so that the next one's inputs can be written while one runs. Empty: inputs have one place.
  std::vector<std::uint32_t> second_of;
  std::vector<std::uint32_t> scratch_of;  // per step; graph::kNone when it needs none
  std::vector<HomeCopy> home_copies;      // independent of each other; mostly none
  memory::Plan plan;
  /// Buffers from this one on have given places (KeptPlaces) in front of what was planned.
  std::uint32_t first_kept = graph::kNone;
  std::uint64_t kept_bytes = 0;
  // What waits on the host, in an arena of its own. Inputs on the host are not in it: they come from where inputs come.
  std::vector<memory::Buffer> host_buffers;
  std::vector<std::uint32_t> host_of;  // per value: index in host_buffers, or graph::kNone
  memory::Plan host_plan;
  std::uint64_t red_zone_bytes = 0;  // at the end of each buffer, in its size: nothing may be written there
  memory::Certificate certificate;   // of both plans: a placement without a valid one does not run

  bool has_two_places() const { return !second_of.empty(); }
  /// The buffer of a value in iterations of `place`, 0 or 1.
  std::uint32_t buffer_at(graph::ValueId value, std::uint32_t place) const {
    const bool is_second = place != 0 && value < second_of.size() && second_of[value] != graph::kNone;
    return is_second ? second_of[value] : buffer_of[value];
  }
};

/// How many places inputs have: with two nothing else may ever lie there, for one of them is read and the other one
/// written at any time.
enum class InputPlaces : std::uint8_t { kOne, kTwo };

/// Lifetimes from the schedule (states, inputs and constants included), in-place reuse, offsets, and the independent
/// check of the result. `scratch_bytes` has one entry per step; behind each buffer of the device lies a red zone.
/// `kept`: states and constants lie there and the rest behind; null: they are planned like all else.
/// Errors: kCheckFailed when a checker refuses the plan.
Result<Placement> place(const graph::Program& program, const kernel::Schedule& schedule,
                        const std::vector<std::uint64_t>& scratch_bytes, std::uint64_t red_zone_bytes = 0,
                        InputPlaces inputs = InputPlaces::kOne, const KeptPlaces* kept = nullptr);

/// The independent checker of a placement: walks through the steps with a map from byte ranges to the value that was
/// last written there, and requires that every read finds its value whole and that states come home. Shares no code
/// with place(). Where inputs have two places it walks once for each, and the other one must not have been touched.
/// Errors: kCheckFailed, naming the step, the value and the bytes.
Result<void> check_placement(const graph::Program& program, const kernel::Schedule& schedule,
                             const Placement& placement);

/// Refuses a placement whose certificate is not valid, or was made for other buffers or other offsets; the sweep over
/// time is made anew. Errors: kCheckFailed, with the reason.
Result<void> check_certificate(const Placement& placement);

}  // namespace crucible::runtime
