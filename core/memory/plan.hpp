// The memory planner: intervals in, offsets out. It knows nothing of graphs or devices, and other compilers may use it
// as it stands (docs/memory-planner.md).
//
// A buffer lives on the half-open interval [begin, end); two buffers that are alive at once must not share a byte.
// plan() is the short form: one space, one alignment, a small effort. solve() takes everything that a Problem can say,
// and its answer keeps apart what was found, what is proved impossible, and what the budget did not suffice for. What
// either returns is judged by check(), which shares no code with them, and by certify() (certificate.hpp).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.hpp"

namespace crucible::memory {

inline constexpr std::uint64_t kUnpinned = ~std::uint64_t{0};
inline constexpr std::uint64_t kNoCapacity = ~std::uint64_t{0};
inline constexpr std::uint32_t kNoGroup = ~std::uint32_t{0};

struct Buffer {
  std::uint64_t size_bytes = 0;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  /// Of its offset, a power of two; the alignment of its space holds as well.
  std::uint64_t alignment = 1;
  /// Where it has to lie (what the caller owns); kUnpinned: anywhere. A multiple of both alignments.
  std::uint64_t pinned_offset = kUnpinned;
  /// Index of the memory that it lies in.
  std::uint32_t space = 0;
  /// Buffers of one group (views, in-place results) are one block: one offset, as large as the largest member, alive
  /// while any member is. The numbers are the caller's.
  std::uint32_t group = kNoGroup;
  /// Carried from one iteration to the next: alive from `begin` to the end of the iteration, and from the start of the
  /// next one up to `end`, which is at most `begin`.
  bool carried = false;
};

/// One memory. Sizes in it are rounded up to its alignment, a power of two.
struct Space {
  std::uint64_t alignment = 1;
  std::uint64_t capacity_bytes = kNoCapacity;
};

/// Two buffers that must not share a byte although they are never alive at once (double buffering).
struct Apart {
  std::uint32_t first = 0;
  std::uint32_t second = 0;
};

struct Problem {
  std::vector<Buffer> buffers;
  std::vector<Space> spaces{Space{}};
  std::vector<Apart> apart;
  /// Steps of an iteration, for carried buffers; 0: up to the latest time that a buffer names.
  std::uint32_t period = 0;
};

/// How much is tried. The effort is counted, not timed: the same options give the same plan on every machine and with
/// any number of threads.
struct Options {
  /// Passes over all buffers that may be spent on searching after the fixed tiers; kQuick and kThorough depend on the
  /// number of buffers (about a tenth of a second and a few seconds).
  std::uint64_t budget_passes = kQuick;
  std::uint32_t threads = 1;
  static constexpr std::uint64_t kQuick = ~std::uint64_t{0};
  static constexpr std::uint64_t kThorough = kQuick - 1;
};

enum class Outcome {
  kFound,       // a plan, within the capacity
  kImpossible,  // proved: there is no plan within the capacity
  kNotFound,    // none was found within the budget; there may be one
};

/// What is known of one space.
struct SpacePlan {
  Outcome outcome = Outcome::kFound;
  std::uint64_t peak_bytes = 0;         // of the best plan found, which is above the capacity when `outcome` says so
  std::uint64_t lower_bound_bytes = 0;  // most bytes alive at one time, or the end of a pinned buffer
  std::uint32_t lower_bound_time = 0;   // when
  std::vector<std::uint32_t> witness;   // the buffers alive then (of a group one), or the pinned one
  bool optimal = false;                 // no plan has a smaller peak: it is the bound, or the search has proved it
  std::string reason;                   // of an outcome that is not kFound, for people
};

struct Solution {
  Outcome outcome = Outcome::kFound;   // kImpossible if any space is, else kNotFound if any space is
  std::vector<SpacePlan> spaces;       // one per space
  std::vector<std::uint64_t> offsets;  // one per buffer if the outcome is kFound, else empty
  std::uint64_t passes = 0;            // spent on searching, over all spaces
};

/// Places every buffer. Deterministic in `problem` and `options.budget_passes`. Units: bytes.
/// Errors: kBadInput when the problem contradicts itself or sizes do not fit into 64 bits.
/// Threads: any; it starts and joins `options.threads` - 1 of its own.
Result<Solution> solve(const Problem& problem, const Options& options = {});

struct Plan {
  std::vector<std::uint64_t> offsets;   // one per buffer, multiples of the alignment
  std::uint64_t peak_bytes = 0;         // size of the arena
  std::uint64_t lower_bound_bytes = 0;  // most bytes alive at one time (sizes rounded up to the alignment)
  std::uint32_t lower_bound_time = 0;   // when
  std::vector<std::uint32_t> witness;   // the buffers alive then
  bool optimal = false;                 // proved: no plan has a smaller peak
};

/// solve() for one space without a capacity, with the quick budget. Units: bytes; alignment is a power of two.
/// Errors: kBadInput when an interval is reversed or the sum of sizes overflows.
Result<Plan> plan(std::span<const Buffer> buffers, std::uint64_t alignment);

/// The independent checker: a sweep over time that shares no code with solve(). Checks what a Problem can demand, the
/// peak and the lower bound of each space. Errors: kCheckFailed, naming the buffers, their intervals and their byte
/// ranges; also for a solution that is not kFound.
Result<void> check(const Problem& problem, const Solution& solution);

/// The same for a plan().
Result<void> check(std::span<const Buffer> buffers, std::uint64_t alignment, const Plan& plan);

}  // namespace crucible::memory
