// The independent checker of memory plans. It shares no code with the planner: buffers come and go in an ordered map of
// occupied byte ranges, and a newcomer is compared with its two neighbours. Used by tests, by every build of a session
// and by every certificate.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "core/memory/plan.hpp"

namespace crucible::memory {
namespace {

Error failed(std::string message) { return {ErrorCode::kCheckFailed, "memory plan: " + std::move(message)}; }

/// Of one space: what the sweep found, to be compared with what the plan says.
struct Swept {
  std::uint64_t most_alive = 0;   // bytes, sizes rounded up
  std::uint64_t highest_end = 0;  // of a buffer, its size rounded up
  std::uint64_t highest_pin = 0;  // end of a pinned unit, its size rounded up
};

/// A buffer or a group of buffers: one range of bytes.
struct Unit {
  std::uint32_t first = 0;       // a buffer that occupies something
  std::uint64_t size_bytes = 0;  // the largest of its buffers that occupy something
  std::uint32_t alive = 0;       // buffers, at this moment of the sweep
  bool is_pinned = false;        // one of its buffers is, were it one that occupies nothing
};

class Checker {
 public:
  Checker(const Problem& problem, std::span<const std::uint64_t> offsets) : problem_(problem), offsets_(offsets) {}

  Result<void> run() {
    if (offsets_.size() != problem_.buffers.size()) {
      return failed(fmt::format("{} offsets for {} buffers", offsets_.size(), problem_.buffers.size()));
    }
    swept_.resize(problem_.spaces.size());
    find_period();
    for (std::uint32_t i = 0; i < offsets_.size(); ++i) CRUCIBLE_TRY_VOID(check_alone(i));
    CRUCIBLE_TRY_VOID(find_units());
    for (std::uint32_t space = 0; space < problem_.spaces.size(); ++space) CRUCIBLE_TRY_VOID(sweep(space));
    return check_apart();
  }

  const std::vector<Swept>& swept() const { return swept_; }

  bool is_alive_at(std::uint32_t i, std::uint32_t time) const {
    const Buffer& buffer = problem_.buffers[i];
    if (buffer.size_bytes == 0 || time >= period_) return false;
    if (buffer.carried) return time >= buffer.begin || time < buffer.end;
    return time >= buffer.begin && time < buffer.end;
  }

  /// Bytes of the unit that a buffer belongs to, rounded up.
  std::uint64_t unit_bytes(std::uint32_t i) const { return rounded(units_[unit_of_[i]].size_bytes, i); }
  std::uint32_t unit_of(std::uint32_t i) const { return unit_of_[i]; }
  /// Where the unit that a buffer belongs to is pinned to, or kUnpinned.
  std::uint64_t pin_of(std::uint32_t i) const { return units_[unit_of_[i]].is_pinned ? offsets_[i] : kUnpinned; }

 private:
  void find_period() {
    period_ = problem_.period;
    if (period_ != 0) return;
    for (const Buffer& buffer : problem_.buffers) {
      period_ = std::max({period_, buffer.end, buffer.carried && ~buffer.begin != 0 ? buffer.begin + 1 : buffer.begin});
    }
  }

  bool occupies_nothing(const Buffer& buffer) const {
    if (buffer.size_bytes == 0) return true;
    return buffer.carried ? buffer.end == 0 && buffer.begin >= period_ : buffer.begin >= buffer.end;
  }

  std::uint64_t rounded(std::uint64_t size, std::uint32_t i) const {
    const std::uint64_t alignment = problem_.spaces[problem_.buffers[i].space].alignment;
    return size % alignment == 0 ? size : size - size % alignment + alignment;
  }

  std::string describe(std::uint32_t i) const {
    const Buffer& buffer = problem_.buffers[i];
    return fmt::format("buffer {} (steps [{}, {}){}, bytes [{}, {}))", i, buffer.begin, buffer.end,
                       buffer.carried ? " of the next iteration" : "", offsets_[i], offsets_[i] + buffer.size_bytes);
  }

  /// Space, alignment, pin.
  Result<void> check_alone(std::uint32_t i) {
    const Buffer& buffer = problem_.buffers[i];
    if (buffer.space >= problem_.spaces.size()) return failed(fmt::format("buffer {} is in no space", i));
    const std::uint64_t alignments[] = {problem_.spaces[buffer.space].alignment, buffer.alignment};
    for (const std::uint64_t alignment : alignments) {
      if (alignment == 0) return failed("alignment 0");
      if (offsets_[i] % alignment != 0) {
        return failed(fmt::format("buffer {} is at {}, not a multiple of {}", i, offsets_[i], alignment));
      }
    }
    if (buffer.pinned_offset != kUnpinned && offsets_[i] != buffer.pinned_offset) {
      return failed(fmt::format("buffer {} is at {} but pinned to {}", i, offsets_[i], buffer.pinned_offset));
    }
    return {};
  }

  /// Who belongs together, and that groups lie at one offset.
  Result<void> find_units() {
    std::unordered_map<std::uint32_t, std::uint32_t> first_of_group, unit_of_group;
    std::unordered_set<std::uint32_t> pinned_groups;
    unit_of_.assign(offsets_.size(), 0);
    for (std::uint32_t i = 0; i < offsets_.size(); ++i) {
      const Buffer& buffer = problem_.buffers[i];
      const bool is_grouped = buffer.group != kNoGroup, is_pinned = buffer.pinned_offset != kUnpinned;
      if (is_grouped && is_pinned) pinned_groups.insert(buffer.group);
      if (is_grouped) {
        const std::uint32_t first = first_of_group.emplace(buffer.group, i).first->second;
        if (offsets_[first] != offsets_[i] || problem_.buffers[first].space != buffer.space) {
          return failed(fmt::format("buffers {} and {} are of group {} but at {} and {} (spaces {} and {})", first, i,
                                    buffer.group, offsets_[first], offsets_[i], problem_.buffers[first].space,
                                    buffer.space));
        }
      }
      if (occupies_nothing(buffer)) continue;
      const auto fresh = static_cast<std::uint32_t>(units_.size());
      const std::uint32_t unit = is_grouped ? unit_of_group.emplace(buffer.group, fresh).first->second : fresh;
      if (unit == fresh) units_.push_back({.first = i, .is_pinned = is_pinned});
      unit_of_[i] = unit;
      units_[unit].size_bytes = std::max(units_[unit].size_bytes, buffer.size_bytes);
      CRUCIBLE_TRY_VOID(note_end(i));
    }
    for (Unit& unit : units_) {
      unit.is_pinned = unit.is_pinned || pinned_groups.contains(problem_.buffers[unit.first].group);
      if (!unit.is_pinned) continue;
      std::uint64_t& highest = swept_[problem_.buffers[unit.first].space].highest_pin;
      highest =
          std::max(highest, offsets_[unit.first] + unit_bytes(unit.first));  // fits: note_end() has seen its largest
    }
    return {};
  }

  Result<void> note_end(std::uint32_t i) {
    const Buffer& buffer = problem_.buffers[i];
    Swept& swept = swept_[buffer.space];
    std::uint64_t end = 0;
    if (__builtin_add_overflow(offsets_[i], rounded(buffer.size_bytes, i), &end)) {
      return failed(fmt::format("buffer {} of {} bytes at {} ends behind the arena: no arena is that large", i,
                                buffer.size_bytes, offsets_[i]));
    }
    swept.highest_end = std::max(swept.highest_end, end);
    return {};
  }

  struct Event {
    std::uint32_t time = 0;
    bool arrives = false;  // departures first: end == begin is no conflict
    std::uint32_t buffer = 0;
    auto operator<=>(const Event&) const = default;
  };

  std::vector<Event> events_of(std::uint32_t space) const {
    std::vector<Event> events;
    const auto stay = [&](std::uint32_t begin, std::uint32_t end, std::uint32_t buffer) {
      if (begin >= end) return;
      events.push_back({begin, true, buffer});
      events.push_back({end, false, buffer});
    };
    for (std::uint32_t i = 0; i < offsets_.size(); ++i) {
      const Buffer& buffer = problem_.buffers[i];
      if (buffer.space != space || buffer.size_bytes == 0) continue;
      if (buffer.carried) {
        stay(0, buffer.end, i);
        stay(buffer.begin, period_, i);
      } else {
        stay(buffer.begin, buffer.end, i);
      }
    }
    std::ranges::sort(events);
    return events;
  }

  /// Walks through time with what is occupied.
  Result<void> sweep(std::uint32_t space) {
    std::map<std::uint64_t, std::uint32_t> occupied;  // offset to unit
    std::uint64_t alive = 0;
    for (const Event& event : events_of(space)) {
      Unit& unit = units_[unit_of_[event.buffer]];
      const std::uint64_t bytes = rounded(unit.size_bytes, event.buffer);
      if (!event.arrives) {
        if (--unit.alive > 0) continue;
        occupied.erase(offsets_[event.buffer]);
        alive -= bytes;
        continue;
      }
      if (unit.alive++ > 0) continue;
      CRUCIBLE_TRY_VOID(check_neighbours(occupied, unit));
      occupied.emplace(offsets_[event.buffer], unit_of_[event.buffer]);
      if (__builtin_add_overflow(alive, bytes, &alive)) return failed("the bytes alive at once overflow");
      swept_[space].most_alive = std::max(swept_[space].most_alive, alive);
    }
    return {};
  }

  Result<void> check_neighbours(const std::map<std::uint64_t, std::uint32_t>& occupied, const Unit& unit) const {
    const std::uint64_t offset = offsets_[unit.first];
    const auto above = occupied.lower_bound(offset);
    if (above != occupied.end() && above->first - offset < unit.size_bytes) {
      return failed(describe(unit.first) + " overlaps " + describe(units_[above->second].first));
    }
    if (above == occupied.begin()) return {};
    const auto below = std::prev(above);
    if (offset - below->first < units_[below->second].size_bytes) {
      return failed(describe(unit.first) + " overlaps " + describe(units_[below->second].first));
    }
    return {};
  }

  Result<void> check_apart() const {
    for (const Apart& pair : problem_.apart) {
      const std::uint32_t a = pair.first, b = pair.second;
      if (a >= offsets_.size() || b >= offsets_.size()) return failed("a pair kept apart names no buffer");
      if (occupies_nothing(problem_.buffers[a]) || occupies_nothing(problem_.buffers[b])) continue;
      if (problem_.buffers[a].space != problem_.buffers[b].space) continue;
      const bool disjoint = offsets_[a] < offsets_[b] ? offsets_[b] - offsets_[a] >= units_[unit_of_[a]].size_bytes
                                                      : offsets_[a] - offsets_[b] >= units_[unit_of_[b]].size_bytes;
      if (!disjoint) return failed(describe(a) + " shares bytes with " + describe(b) + ", to be kept apart");
    }
    return {};
  }

  const Problem& problem_;
  std::span<const std::uint64_t> offsets_;
  std::uint32_t period_ = 0;
  std::vector<std::uint32_t> unit_of_;  // per buffer; meaningless for one that occupies nothing
  std::vector<Unit> units_;
  std::vector<Swept> swept_;  // per space
};

/// The arena ends where its highest buffer does, and within the capacity.
Result<void> check_peak(const Space& space, const SpacePlan& plan, const Swept& swept) {
  if (plan.peak_bytes != swept.highest_end) {
    const std::string_view fault = plan.peak_bytes < swept.highest_end ? "a buffer ends behind the arena: " : "";
    return failed(fmt::format("{}the arena has {} bytes but the last buffer ends at {} (alignment {})", fault,
                              plan.peak_bytes, swept.highest_end, space.alignment));
  }
  if (plan.peak_bytes > space.capacity_bytes) {
    return failed(
        fmt::format("the arena of {} bytes is above the capacity of {}", plan.peak_bytes, space.capacity_bytes));
  }
  return {};
}

/// The lower bound is what is alive at its time or the end of a pinned buffer, and its witness is exactly that.
Result<void> check_bound(const Problem& problem, std::uint32_t space, const SpacePlan& plan, const Checker& checker) {
  const Swept& swept = checker.swept()[space];
  if (plan.lower_bound_bytes != std::max(swept.most_alive, swept.highest_pin)) {
    return failed(
        fmt::format("the lower bound is {} but at most {} bytes are alive at once and pinned buffers end at {}",
                    plan.lower_bound_bytes, swept.most_alive, swept.highest_pin));
  }
  if (plan.peak_bytes < plan.lower_bound_bytes) {
    return failed(fmt::format("the peak {} is below the lower bound {}", plan.peak_bytes, plan.lower_bound_bytes));
  }
  std::uint64_t sum = 0;
  std::vector<std::uint32_t> seen;
  for (const std::uint32_t id : plan.witness) {
    const bool is_alive = id < problem.buffers.size() && problem.buffers[id].space == space &&
                          checker.is_alive_at(id, plan.lower_bound_time);
    if (!is_alive) {
      return failed(
          fmt::format("witness {} is not a buffer alive at {}, or is named twice", id, plan.lower_bound_time));
    }
    seen.push_back(checker.unit_of(id));
    sum += checker.unit_bytes(id);
  }
  std::ranges::sort(seen);
  if (std::ranges::adjacent_find(seen) != seen.end())
    return failed("a witness is not a buffer alive, or is named twice");
  const std::uint64_t pin = plan.witness.size() == 1 ? checker.pin_of(plan.witness[0]) : kUnpinned;
  const bool is_pin = pin != kUnpinned && pin + sum == plan.lower_bound_bytes;
  if (sum != plan.lower_bound_bytes && !is_pin) {
    return failed(fmt::format("the witness adds up to {} bytes, the lower bound is {}", sum, plan.lower_bound_bytes));
  }
  return {};
}

}  // namespace

Result<void> check(const Problem& problem, const Solution& solution) {
  if (solution.outcome != Outcome::kFound) return failed("there is none: the solution says that none was found");
  if (solution.spaces.size() != problem.spaces.size()) {
    return failed(fmt::format("{} plans for {} spaces", solution.spaces.size(), problem.spaces.size()));
  }
  Checker checker(problem, solution.offsets);
  CRUCIBLE_TRY_VOID(checker.run());
  for (std::uint32_t space = 0; space < problem.spaces.size(); ++space) {
    const SpacePlan& plan = solution.spaces[space];
    CRUCIBLE_TRY_VOID(check_peak(problem.spaces[space], plan, checker.swept()[space]));
    CRUCIBLE_TRY_VOID(check_bound(problem, space, plan, checker));
    if (plan.outcome != Outcome::kFound || (!plan.optimal && plan.peak_bytes == plan.lower_bound_bytes)) {
      return failed(fmt::format("space {} contradicts itself about what was found", space));
    }
  }
  return {};
}

Result<void> check(std::span<const Buffer> buffers, std::uint64_t alignment, const Plan& plan) {
  Problem problem;
  problem.buffers.assign(buffers.begin(), buffers.end());
  problem.spaces[0].alignment = alignment;
  Solution solution;
  solution.offsets = plan.offsets;
  solution.spaces.resize(1);
  solution.spaces[0].peak_bytes = plan.peak_bytes;
  solution.spaces[0].lower_bound_bytes = plan.lower_bound_bytes;
  solution.spaces[0].lower_bound_time = plan.lower_bound_time;
  solution.spaces[0].witness = plan.witness;
  solution.spaces[0].optimal = plan.optimal || plan.peak_bytes == plan.lower_bound_bytes;
  return check(problem, solution);
}

}  // namespace crucible::memory
