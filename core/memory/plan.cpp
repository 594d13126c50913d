// The planner: rounds sizes, compresses time to sections, finds the lower bound with its witness, and keeps the best of
// several ranked skyline passes. It stops as soon as the peak is the lower bound, which proves the plan optimal.
#include "core/memory/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "core/memory/skyline.hpp"

namespace crucible::memory {
namespace {

/// What the passes need to know: only buffers that occupy something, in compressed time.
struct Problem {
  std::vector<SkylineItem> items;       // sizes in units of the alignment
  std::vector<std::uint32_t> ids;       // per item: index of its buffer
  std::vector<std::uint32_t> times;     // per section: its first time; one more for the end
  std::vector<std::uint64_t> load;      // per section: units alive
  std::vector<std::uint64_t> max_load;  // per item: highest load during its life
  std::uint32_t sections() const { return times.empty() ? 0 : static_cast<std::uint32_t>(times.size() - 1); }
};

Result<void> check_input(std::span<const Buffer> buffers, std::uint64_t alignment) {
  if (!std::has_single_bit(alignment)) {
    return Error{ErrorCode::kBadInput, fmt::format("alignment {} is not a power of two", alignment)};
  }
  if (buffers.size() >= 0xffffffffu) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("{} buffers are more than the 4294967294 that can be numbered", buffers.size())};
  }
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = buffers[i];
    if (buffer.begin > buffer.end) {
      return Error{ErrorCode::kBadInput,
                   fmt::format("buffer {} ends at {} before it begins at {}", i, buffer.end, buffer.begin)};
    }
    std::uint64_t rounded = 0;
    if (__builtin_add_overflow(buffer.size_bytes, alignment - 1, &rounded) ||
        __builtin_add_overflow(sum, rounded & ~(alignment - 1), &sum)) {
      return Error{ErrorCode::kBadInput,
                   fmt::format("the sizes of buffers 0 to {} do not fit into 64 bits (buffer {} has {} bytes)", i, i,
                               buffer.size_bytes)};
    }
  }
  return {};
}

void compress(std::span<const Buffer> buffers, std::uint64_t alignment, Problem& problem) {
  for (std::uint32_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].size_bytes == 0 || buffers[i].begin == buffers[i].end) continue;
    problem.ids.push_back(i);
    problem.times.push_back(buffers[i].begin);
    problem.times.push_back(buffers[i].end);
  }
  std::ranges::sort(problem.times);
  problem.times.erase(std::unique(problem.times.begin(), problem.times.end()), problem.times.end());
  const auto section = [&](std::uint32_t time) {
    return static_cast<std::uint32_t>(std::ranges::lower_bound(problem.times, time) - problem.times.begin());
  };
  for (const std::uint32_t id : problem.ids) {
    const Buffer& buffer = buffers[id];
    problem.items.push_back(
        {(buffer.size_bytes + alignment - 1) / alignment, section(buffer.begin), section(buffer.end)});
  }
}

/// Units alive in each section, and the highest of them during each item's life (by a sparse table).
void measure_load(Problem& problem) {
  std::vector<std::uint64_t> change(problem.sections() + 1, 0);
  for (const SkylineItem& item : problem.items) {
    change[item.begin] += item.size;
    change[item.end] -= item.size;  // wraps; the running sum comes out right
  }
  problem.load.resize(problem.sections());
  std::partial_sum(change.begin(), change.end() - 1, problem.load.begin());
  std::vector<std::vector<std::uint64_t>> highest{problem.load};  // [k][s]: over the sections [s, s + 2^k)
  for (std::uint32_t half = 1; 2 * half <= problem.sections(); half *= 2) {
    const std::vector<std::uint64_t>& last = highest.back();
    std::vector<std::uint64_t> level(problem.sections() - 2 * half + 1);
    for (std::size_t s = 0; s < level.size(); ++s) level[s] = std::max(last[s], last[s + half]);
    highest.push_back(std::move(level));
  }
  for (const SkylineItem& item : problem.items) {
    const std::uint32_t level = static_cast<std::uint32_t>(std::bit_width(item.end - item.begin)) - 1;
    problem.max_load.push_back(std::max(highest[level][item.begin], highest[level][item.end - (1u << level)]));
  }
}

void find_lower_bound(const Problem& problem, std::uint64_t alignment, Plan& plan) {
  const auto highest = std::ranges::max_element(problem.load);
  if (highest == problem.load.end()) return;
  const std::uint32_t section = static_cast<std::uint32_t>(highest - problem.load.begin());
  plan.lower_bound_bytes = *highest * alignment;
  plan.lower_bound_time = problem.times[section];
  for (std::size_t i = 0; i < problem.items.size(); ++i) {
    if (problem.items[i].begin <= section && section < problem.items[i].end) plan.witness.push_back(problem.ids[i]);
  }
}

/// The ranks: items with larger keys come first; ties keep the order of the input.
constexpr int kRanks = 6;
std::array<std::uint64_t, 3> key(const Problem& problem, std::uint32_t item, int rank) {
  const std::uint64_t size = problem.items[item].size;
  const std::uint64_t length = problem.times[problem.items[item].end] - problem.times[problem.items[item].begin];
  const std::uint64_t load = problem.max_load[item];
  // Saturating: an area of more than 64 bits is as large as any other such area.
  const std::uint64_t area = size > ~std::uint64_t{0} / length ? ~std::uint64_t{0} : size * length;
  switch (rank) {
    case 0:
      return {load, length, size};
    case 1:
      return {length, size, load};
    case 2:
      return {area, size, load};
    case 3:
      return {load, area, size};
    case 4:
      return {load, size, length};
    default:
      return {size, length, load};
  }
}

SkylineResult best_of_ranks(const Problem& problem, std::uint64_t bound) {
  SkylineResult best;
  for (int rank = 0; rank < kRanks; ++rank) {
    std::vector<std::array<std::uint64_t, 3>> keys(problem.items.size());
    for (std::uint32_t i = 0; i < keys.size(); ++i) keys[i] = key(problem, i, rank);
    std::vector<std::uint32_t> order(problem.items.size());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::sort(order,
                      [&](std::uint32_t a, std::uint32_t b) { return keys[a] != keys[b] ? keys[a] > keys[b] : a < b; });
    SkylineResult result = skyline(problem.items, order, problem.sections());
    if (rank == 0 || result.peak < best.peak) best = std::move(result);
    if (best.peak == bound) break;
  }
  return best;
}

}  // namespace

Result<Plan> plan(std::span<const Buffer> buffers, std::uint64_t alignment) {
  CRUCIBLE_TRY_VOID(check_input(buffers, alignment));
  Plan plan;
  plan.offsets.assign(buffers.size(), 0);  // what occupies nothing stays at 0
  Problem problem;
  compress(buffers, alignment, problem);
  if (problem.items.empty()) return plan;
  measure_load(problem);
  find_lower_bound(problem, alignment, plan);
  const SkylineResult best = best_of_ranks(problem, plan.lower_bound_bytes / alignment);
  for (std::size_t i = 0; i < problem.items.size(); ++i) plan.offsets[problem.ids[i]] = best.offsets[i] * alignment;
  plan.peak_bytes = best.peak * alignment;
  return plan;
}

}  // namespace crucible::memory
