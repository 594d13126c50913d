// The independent checker of memory plans. It shares no code with the planner: buffers come and go in an ordered map of
// occupied byte ranges, and a newcomer is compared with its two neighbours. Used by tests, and by every build of a
// session.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/memory/plan.hpp"

namespace crucible::memory {
namespace {

Error failed(std::string message) { return {ErrorCode::kCheckFailed, "memory plan: " + std::move(message)}; }

std::string describe(std::span<const Buffer> buffers, const Plan& plan, std::uint32_t id) {
  const Buffer& buffer = buffers[id];
  return fmt::format("buffer {} (steps [{}, {}), bytes [{}, {}))", id, buffer.begin, buffer.end, plan.offsets[id],
                     plan.offsets[id] + buffer.size_bytes);
}

bool occupies_nothing(const Buffer& buffer) { return buffer.size_bytes == 0 || buffer.begin >= buffer.end; }

/// Each buffer alone: position, end within the arena.
Result<void> check_each(std::span<const Buffer> buffers, std::uint64_t alignment, const Plan& plan) {
  if (plan.offsets.size() != buffers.size()) {
    return failed(fmt::format("{} offsets for {} buffers", plan.offsets.size(), buffers.size()));
  }
  if (alignment == 0) return failed("alignment 0");
  std::uint64_t highest = 0;
  for (std::uint32_t i = 0; i < buffers.size(); ++i) {
    const std::uint64_t offset = plan.offsets[i];
    if (offset % alignment != 0)
      return failed(fmt::format("buffer {} is at {}, not a multiple of {}", i, offset, alignment));
    if (occupies_nothing(buffers[i])) continue;
    std::uint64_t end = 0;
    if (__builtin_add_overflow(offset, buffers[i].size_bytes, &end) || end > plan.peak_bytes) {
      return failed(fmt::format("buffer {} of {} bytes at {} ends behind the arena of {} bytes", i,
                                buffers[i].size_bytes, offset, plan.peak_bytes));
    }
    highest = std::max(highest, end);
  }
  if (plan.peak_bytes % alignment != 0 || plan.peak_bytes - highest >= alignment) {
    return failed(fmt::format("the arena has {} bytes but the last buffer ends at {} (alignment {})", plan.peak_bytes,
                              highest, alignment));
  }
  return {};
}

/// Walks through time; `bytes_alive` is the sum of rounded sizes at each step of the walk.
Result<void> check_overlaps(std::span<const Buffer> buffers, std::uint64_t alignment, const Plan& plan,
                            std::uint64_t& most_alive) {
  std::multimap<std::uint32_t, std::uint32_t> arrivals, departures;  // time to buffer
  for (std::uint32_t i = 0; i < buffers.size(); ++i) {
    if (occupies_nothing(buffers[i])) continue;
    arrivals.emplace(buffers[i].begin, i);
    departures.emplace(buffers[i].end, i);
  }
  std::map<std::uint64_t, std::uint32_t> occupied;  // offset to buffer
  std::uint64_t alive = 0;
  auto leaving = departures.begin();
  for (const auto& [time, id] : arrivals) {
    const auto rounded = [&](std::uint32_t buffer) {
      const std::uint64_t rest = buffers[buffer].size_bytes % alignment;
      return buffers[buffer].size_bytes + (rest == 0 ? 0 : alignment - rest);
    };
    for (; leaving != departures.end() && leaving->first <= time; ++leaving) {
      occupied.erase(plan.offsets[leaving->second]);
      alive -= rounded(leaving->second);
    }
    const auto above = occupied.lower_bound(plan.offsets[id]);
    if (above != occupied.end() && above->first < plan.offsets[id] + buffers[id].size_bytes) {
      return failed(describe(buffers, plan, id) + " overlaps " + describe(buffers, plan, above->second));
    }
    if (above != occupied.begin()) {
      const std::uint32_t below = std::prev(above)->second;
      if (plan.offsets[below] + buffers[below].size_bytes > plan.offsets[id]) {
        return failed(describe(buffers, plan, id) + " overlaps " + describe(buffers, plan, below));
      }
    }
    occupied.emplace(plan.offsets[id], id);
    if (__builtin_add_overflow(alive, rounded(id), &alive)) return failed("the bytes alive at once overflow");
    most_alive = std::max(most_alive, alive);
  }
  return {};
}

/// The lower bound is what is alive at its time, its witness is exactly that, and nothing else is higher.
Result<void> check_bound(std::span<const Buffer> buffers, std::uint64_t alignment, const Plan& plan,
                         std::uint64_t most_alive) {
  if (plan.lower_bound_bytes != most_alive) {
    return failed(fmt::format("the lower bound is {} but at most {} bytes are alive at once", plan.lower_bound_bytes,
                              most_alive));
  }
  if (plan.peak_bytes < plan.lower_bound_bytes) {
    return failed(fmt::format("the peak {} is below the lower bound {}", plan.peak_bytes, plan.lower_bound_bytes));
  }
  std::uint64_t sum = 0;
  std::vector<bool> seen(buffers.size(), false);
  for (const std::uint32_t id : plan.witness) {
    if (id >= buffers.size() || seen[id] || buffers[id].begin > plan.lower_bound_time ||
        buffers[id].end <= plan.lower_bound_time) {
      return failed(
          fmt::format("witness {} is not a buffer alive at {}, or is named twice", id, plan.lower_bound_time));
    }
    seen[id] = true;
    sum += (buffers[id].size_bytes + alignment - 1) / alignment * alignment;
  }
  if (sum != plan.lower_bound_bytes) {
    return failed(fmt::format("the witness adds up to {} bytes, the lower bound is {}", sum, plan.lower_bound_bytes));
  }
  return {};
}

}  // namespace

Result<void> check(std::span<const Buffer> buffers, std::uint64_t alignment, const Plan& plan) {
  CRUCIBLE_TRY_VOID(check_each(buffers, alignment, plan));
  std::uint64_t most_alive = 0;
  CRUCIBLE_TRY_VOID(check_overlaps(buffers, alignment, plan, most_alive));
  return check_bound(buffers, alignment, plan, most_alive);
}

}  // namespace crucible::memory
