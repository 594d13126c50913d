// From a schedule to buffers with lifetimes and offsets: which values share one buffer, when each buffer is alive, and
// which end values must be copied home. Offsets come from core/memory; check_placement.cpp checks the result.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "runtime/plan/placement.hpp"

namespace crucible::runtime {
namespace {

using graph::kNone;
using graph::ValueId;
using graph::ValueKind;

/// When a value holds its content: from the step that first writes it to the step that last uses it, both included.
/// kBefore is the time at which the host writes states, constants and inputs.
constexpr std::int64_t kBefore = -1;
constexpr std::int64_t kNever = -2;
struct Span {
  std::int64_t first = kNever, last = kNever;
  bool used() const { return first != kNever; }
  void extend(std::int64_t time) {
    if (!used()) first = time;
    last = std::max(last, time);
  }
};

std::uint64_t bytes_of(const graph::Value& value) {
  return static_cast<std::uint64_t>(value.elements) * size_bytes(value.dtype);
}

/// The device's buffers in space 0, the host's in space 1.
memory::Problem problem_of(const Placement& placement) {
  memory::Problem problem;
  problem.spaces = {{.alignment = kAlignment}, {.alignment = kAlignment}};
  const std::size_t planned = std::min<std::size_t>(placement.first_kept, placement.buffers.size());
  problem.buffers.assign(placement.buffers.begin(), placement.buffers.begin() + static_cast<std::ptrdiff_t>(planned));
  for (memory::Buffer buffer : placement.host_buffers) {
    buffer.space = 1;
    problem.buffers.push_back(buffer);
  }
  return problem;
}

/// The part of a solution that is about one space, whose buffers are those from `first` to `end`.
memory::Plan plan_of(const memory::Solution& solution, std::size_t space_index, std::uint32_t first,
                     std::uint32_t end) {
  const memory::SpacePlan& space = solution.spaces[space_index];
  memory::Plan plan{.offsets = {solution.offsets.begin() + first, solution.offsets.begin() + end},
                    .peak_bytes = space.peak_bytes,
                    .lower_bound_bytes = space.lower_bound_bytes,
                    .lower_bound_time = space.lower_bound_time,
                    .witness = space.witness,
                    .optimal = space.optimal};
  for (std::uint32_t& id : plan.witness) id -= first;
  return plan;
}

memory::Solution solution_of(const Placement& placement) {
  memory::Solution solution;
  const std::uint32_t first_host =
      std::min(placement.first_kept, static_cast<std::uint32_t>(placement.buffers.size()));
  memory::Plan planned = placement.plan;  // without what was kept in front of it
  planned.offsets.resize(first_host);
  for (std::uint64_t& offset : planned.offsets) offset -= placement.kept_bytes;
  planned.peak_bytes -= placement.kept_bytes;
  planned.lower_bound_bytes -= placement.kept_bytes;
  for (const auto& [plan, first] :
       {std::pair(&std::as_const(planned), 0u), std::pair(&placement.host_plan, first_host)}) {
    memory::SpacePlan space{.peak_bytes = plan->peak_bytes,
                            .lower_bound_bytes = plan->lower_bound_bytes,
                            .lower_bound_time = plan->lower_bound_time,
                            .witness = plan->witness,
                            .optimal = plan->optimal,
                            .reason = ""};
    for (std::uint32_t& id : space.witness) id += first;
    solution.spaces.push_back(std::move(space));
    solution.offsets.insert(solution.offsets.end(), plan->offsets.begin(), plan->offsets.end());
  }
  return solution;
}

class Placer {
 public:
  Placer(const graph::Program& program, const kernel::Schedule& schedule, std::uint64_t red_zone_bytes,
         InputPlaces inputs, const KeptPlaces* kept)
      : program_(program),
        schedule_(schedule),
        red_zone_bytes_(red_zone_bytes),
        has_two_places_(inputs == InputPlaces::kTwo),
        kept_(kept),
        after_(static_cast<std::int64_t>(schedule.steps.size())),
        spans_(program.values.size()),
        group_of_(program.values.size()),
        members_(program.values.size()),
        place_(program.values.size()) {}

  Result<Placement> run(const std::vector<std::uint64_t>& scratch_bytes) {
    CRUCIBLE_TRY_VOID(measure_spans());
    share_states();
    share_in_place();
    make_buffers();
    if (has_two_places_) add_second_places();
    CRUCIBLE_TRY_VOID(make_host_buffers());
    add_scratch(scratch_bytes);
    if (kept_ != nullptr) CRUCIBLE_TRY_VOID(add_kept());
    add_home_copies();
    placement_.red_zone_bytes = red_zone_bytes_;
    for (memory::Buffer& buffer : placement_.buffers) {
      if (buffer.size_bytes > 0) buffer.size_bytes += red_zone_bytes_;
    }
    const memory::Problem problem = problem_of(placement_);
    CRUCIBLE_TRY(const memory::Solution solution, memory::solve(problem));
    const auto device_buffers =
        std::min(placement_.first_kept, static_cast<std::uint32_t>(placement_.buffers.size()));
    placement_.plan = plan_of(solution, 0, 0, device_buffers);
    for (std::uint64_t& offset : placement_.plan.offsets) offset += placement_.kept_bytes;
    placement_.plan.peak_bytes += placement_.kept_bytes;
    placement_.plan.lower_bound_bytes += placement_.kept_bytes;
    placement_.plan.offsets.insert(placement_.plan.offsets.end(), kept_offsets_.begin(), kept_offsets_.end());
    placement_.host_plan = plan_of(solution, 1, device_buffers, static_cast<std::uint32_t>(problem.buffers.size()));
    placement_.certificate = memory::certify(problem, solution);
    if (!placement_.certificate.is_valid) {
      return Error{ErrorCode::kCheckFailed, "memory plan: " + placement_.certificate.verdict};
    }
    return std::move(placement_);
  }

 private:
  Result<void> measure_spans() {
    for (const graph::State& state : program_.states) spans_[state.start].extend(kBefore);
    for (const graph::Constant& constant : program_.constants) {
      spans_[constant.value].extend(kBefore);
      spans_[constant.value].extend(after_);
    }
    for (const graph::Input& input : program_.inputs) {
      if (!schedule_.on_host(input.value)) spans_[input.value].extend(kBefore);
    }
    for (std::size_t step = 0; step < schedule_.steps.size(); ++step) {
      for (const kernel::BufferArgument& argument : schedule_.steps[step].buffers) {
        if (argument.value >= spans_.size()) {
          return Error{ErrorCode::kInternal,
                       fmt::format("placement: step {} names value {} of {}", step, argument.value, spans_.size())};
        }
        const bool is_given =
            schedule_.on_host(argument.value) && program_.values[argument.value].kind == ValueKind::kInput;
        if (is_given) continue;
        if (!argument.written && !spans_[argument.value].used()) {
          return Error{
              ErrorCode::kInternal,
              fmt::format("placement: step {} reads value {}, which no earlier step writes", step, argument.value)};
        }
        spans_[argument.value].extend(static_cast<std::int64_t>(step));
      }
    }
    for (const graph::Input& input : program_.inputs) {  // the next iteration's may be written at any time
      if (has_two_places_ && spans_[input.value].last > kBefore) spans_[input.value].extend(after_);
    }
    for (const graph::Output& output : program_.outputs) {
      if (!output.operand.is_scalar())
        CRUCIBLE_TRY_VOID(keep_to_the_end(output.operand.value, "output " + output.name));
    }
    for (const graph::State& state : program_.states) {
      if (state.end != state.start && program_.values[state.end].kind != ValueKind::kTemporary) {
        return Error{ErrorCode::kInternal, fmt::format("placement: state {} ends as value {}, which is no temporary",
                                                       program_.values[state.start].name, state.end)};
      }
      CRUCIBLE_TRY_VOID(keep_to_the_end(state.end, "end of state " + program_.values[state.start].name));
    }
    for (ValueId value = 0; value < members_.size(); ++value) {
      group_of_[value] = value;
      members_[value] = {member(value)};
      place_[value] = value;
    }
    return {};
  }

  Result<void> keep_to_the_end(ValueId value, const std::string& what) {
    if (value >= spans_.size() || !spans_[value].used()) {
      return Error{ErrorCode::kInternal,
                   fmt::format("placement: the {} is value {}, which no step writes", what, value)};
    }
    spans_[value].extend(after_);
    return {};
  }

  /// A state's end value takes its start value's buffer where that is legal; where not, the buffer is kept for it.
  void share_states() {
    for (const kernel::InPlace& pair : schedule_.in_place) {
      if (is_legal_pair(pair)) pairs_.emplace(pair.step, pair.operand, pair.result);
    }
    for (const graph::State& state : program_.states) {
      if (state.end != state.start) merge(state.start, state.end);
      // Not at home: the start's buffer waits for the copy, so nothing else may use it.
      if (group_of_[state.end] == group_of_[state.start]) continue;
      Members& own = members_[group_of_[state.start]];
      own.erase(member(state.start));
      spans_[state.start].extend(after_);
      own.insert(member(state.start));
    }
  }

  void share_in_place() {
    for (const kernel::InPlace& pair : schedule_.in_place) {
      if (pairs_.contains({pair.step, pair.operand, pair.result})) merge(pair.operand, pair.result);
    }
  }

  /// What can be checked without knowing the kernel: the step reads the operand and writes the result, and elements of
  /// both lie at equal bytes. That it is the operand's last use and the result's first is for may_share() to see.
  bool is_legal_pair(const kernel::InPlace& pair) const {
    if (pair.step >= schedule_.steps.size() || pair.operand >= spans_.size() || pair.result >= spans_.size())
      return false;
    const graph::Value& operand = program_.values[pair.operand];
    const graph::Value& result = program_.values[pair.result];
    if (operand.kind == ValueKind::kConstant || result.kind != ValueKind::kTemporary) return false;
    if (has_two_places_ && operand.kind == ValueKind::kInput) return false;
    if (operand.elements != result.elements || size_bytes(operand.dtype) != size_bytes(result.dtype)) return false;
    bool reads = false, writes = false;
    for (const kernel::BufferArgument& argument : schedule_.steps[pair.step].buffers) {
      if (argument.value == pair.operand) {
        if (argument.written) return false;
        reads = true;
      }
      writes |= argument.value == pair.result && argument.written;
    }
    return reads && writes;
  }

  bool may_share(ValueId a, ValueId b) const {
    if (spans_[a].first > spans_[b].first) std::swap(a, b);
    if (spans_[a].last < spans_[b].first) return true;
    return spans_[a].last == spans_[b].first && spans_[a].last >= 0 &&
           pairs_.contains({static_cast<std::uint32_t>(spans_[a].last), a, b});
  }

  /// Joins the groups of two values if no two of their members are in each other's way. Members of one group follow
  /// each other in time, so those of the smaller group are looked up among those of the larger one: a buffer of many
  /// values in turn costs no more than many buffers.
  void merge(ValueId a, ValueId b) {
    std::uint32_t into = group_of_[a], from = group_of_[b];
    if (into == from) return;
    const std::uint32_t place =
        place_[into];  // buffers stand in the order of the first of the two, whichever is the larger
    if (members_[into].size() < members_[from].size()) std::swap(into, from);
    for (const Member& newcomer : members_[from]) {
      if (!fits(newcomer, members_[into])) return;
    }
    for (const Member& newcomer : members_[from]) {
      group_of_[std::get<2>(newcomer)] = into;
      members_[into].insert(newcomer);
    }
    members_[from].clear();
    place_[into] = place;
  }

  using Member = std::tuple<std::int64_t, std::int64_t, ValueId>;  // its span and the value: in the order of time
  using Members = std::set<Member>;
  Member member(ValueId value) const { return {spans_[value].first, spans_[value].last, value}; }
  /// Groups that have members, in the order of their places.
  std::vector<const Members*> groups() const {
    std::vector<const Members*> by_place(members_.size(), nullptr);
    for (std::size_t group = 0; group < members_.size(); ++group) {
      if (!members_[group].empty()) by_place[place_[group]] = &members_[group];
    }
    std::erase(by_place, nullptr);
    return by_place;
  }
  bool fits(const Member& newcomer, const Members& others) const {
    const auto& [first, last, value] = newcomer;
    auto other = others.upper_bound({last, after_ + 1, kNone});  // the first that begins later
    while (other != others.begin()) {
      --other;
      if (std::get<1>(*other) < first) return true;  // and so do all before it
      if (!may_share(value, std::get<2>(*other))) return false;
    }
    return true;
  }

  void make_buffers() {
    placement_.buffer_of.assign(program_.values.size(), kNone);
    std::vector<bool> carried(program_.values.size(), false);
    for (const graph::State& state : program_.states) carried[state.start] = true;
    for (const graph::Constant& constant : program_.constants) carried[constant.value] = true;
    for (const Members* members : groups()) {
      if (kept_ != nullptr && std::ranges::any_of(*members, [&](const Member& m) { return carried[std::get<2>(m)]; }))
        continue;  // add_kept() has them
      memory::Buffer buffer{.size_bytes = 0, .begin = 0xffffffffu, .end = 0};
      bool needed = false;
      for (const auto& [first, last, value] : *members) {
        if (schedule_.on_host(value)) continue;
        const Span& span = spans_[value];
        // An input that nothing uses is not even copied in.
        if (!span.used() || (span.last == kBefore && !carried[value])) continue;
        needed = true;
        buffer.size_bytes = std::max(buffer.size_bytes, bytes_of(program_.values[value]));
        buffer.begin = std::min(buffer.begin, static_cast<std::uint32_t>(std::max<std::int64_t>(span.first, 0)));
        buffer.end = std::max(buffer.end, static_cast<std::uint32_t>(span.last + 1));
      }
      if (!needed) continue;
      for (const auto& [first, last, value] : *members)
        placement_.buffer_of[value] = static_cast<std::uint32_t>(placement_.buffers.size());
      placement_.buffers.push_back(buffer);
    }
  }

  /// Buffers of states and constants, each with all that shares it, behind all others.
  Result<void> add_kept() {
    placement_.first_kept = static_cast<std::uint32_t>(placement_.buffers.size());
    placement_.kept_bytes = kept_->size_bytes;
    const auto add = [&](ValueId value, std::uint64_t offset) {
      memory::Buffer buffer{.size_bytes = bytes_of(program_.values[value]),
                            .begin = 0,
                            .end = static_cast<std::uint32_t>(after_) + 1};
      for (const auto& [first, last, member] : members_[group_of_[value]])
        placement_.buffer_of[member] = static_cast<std::uint32_t>(placement_.buffers.size());
      placement_.buffers.push_back(buffer);
      kept_offsets_.push_back(offset);
    };
    if (kept_->states.size() != program_.states.size()) {
      return Error{ErrorCode::kInternal, fmt::format("placement: places for {} states, the program has {}",
                                                     kept_->states.size(), program_.states.size())};
    }
    for (std::size_t k = 0; k < program_.states.size(); ++k) add(program_.states[k].start, kept_->states[k]);
    std::map<std::uint32_t, std::size_t> seen;
    for (const graph::Constant& constant : program_.constants) {
      const auto found = kept_->constants.find({constant.blob, seen[constant.blob]++});
      if (found == kept_->constants.end())
        return Error{ErrorCode::kInternal, fmt::format("placement: no place for the constant {}", constant.value)};
      add(constant.value, found->second);
    }
    return {};
  }

  /// As large as the first ones, and as long there: always.
  void add_second_places() {
    placement_.second_of.assign(program_.values.size(), kNone);
    for (const graph::Input& input : program_.inputs) {
      const std::uint32_t first = placement_.buffer_of[input.value];
      if (first == kNone || schedule_.on_host(input.value) || placement_.second_of[input.value] != kNone) continue;
      memory::Buffer second = placement_.buffers[first];
      second.begin = 0;
      placement_.second_of[input.value] = static_cast<std::uint32_t>(placement_.buffers.size());
      placement_.buffers.push_back(second);
    }
    if (std::ranges::all_of(placement_.second_of, [](std::uint32_t buffer) { return buffer == kNone; }))
      placement_.second_of.clear();
  }

  /// Transfers alone touch what is on the host: it is alive from the first to the last of them, or all the time. The
  /// two ends of a state share a buffer, nothing else does.
  Result<void> make_host_buffers() {
    placement_.host_of.assign(program_.values.size(), kNone);
    for (const Members* members : groups()) {
      memory::Buffer buffer{.size_bytes = 0, .begin = 0xffffffffu, .end = 0};
      for (const auto& [first, last, value] : *members) {
        if (!schedule_.on_host(value) || !spans_[value].used()) continue;
        placement_.host_of[value] = static_cast<std::uint32_t>(placement_.host_buffers.size());
        buffer.size_bytes = std::max(buffer.size_bytes, bytes_of(program_.values[value]));
        buffer.begin =
            std::min(buffer.begin, static_cast<std::uint32_t>(std::max<std::int64_t>(spans_[value].first, 0)));
        buffer.end = std::max(buffer.end, static_cast<std::uint32_t>(spans_[value].last + 1));
      }
      if (buffer.end > 0) placement_.host_buffers.push_back(buffer);
    }
    for (const graph::State& state : program_.states) {
      if (!schedule_.on_host(state.start) && !schedule_.on_host(state.end)) continue;
      if (placement_.host_of[state.start] != placement_.host_of[state.end]) {
        return Error{ErrorCode::kInternal,
                     fmt::format("placement: state {} lives on the host and does not end in its place there",
                                 program_.values[state.start].name)};
      }
    }
    return {};
  }

  void add_scratch(const std::vector<std::uint64_t>& scratch_bytes) {
    placement_.scratch_of.assign(schedule_.steps.size(), kNone);
    for (std::uint32_t step = 0; step < schedule_.steps.size() && step < scratch_bytes.size(); ++step) {
      if (scratch_bytes[step] == 0) continue;
      placement_.scratch_of[step] = static_cast<std::uint32_t>(placement_.buffers.size());
      placement_.buffers.push_back({scratch_bytes[step], step, step + 1});
    }
  }

  /// End values are temporaries, and a start value that waits for its copy shares its buffer with nothing: no copy
  /// overwrites what another one reads, so their order does not matter.
  void add_home_copies() {
    for (const graph::State& state : program_.states) {
      const HomeCopy copy{placement_.buffer_of[state.end], placement_.buffer_of[state.start],
                          bytes_of(program_.values[state.start])};
      if (copy.from != copy.to) placement_.home_copies.push_back(copy);
    }
  }

  const graph::Program& program_;
  const kernel::Schedule& schedule_;
  const std::uint64_t red_zone_bytes_;
  const bool has_two_places_;                                    // inputs
  const KeptPlaces* kept_;                                       // null: nothing has a given place
  std::vector<std::uint64_t> kept_offsets_;                      // of the buffers from first_kept on
  const std::int64_t after_;                                     // the time of the home copies
  std::vector<Span> spans_;                                      // per value
  std::vector<std::uint32_t> group_of_;                          // per value
  std::vector<Members> members_;                                 // per group
  std::vector<std::uint32_t> place_;                             // per group, among the buffers
  std::set<std::tuple<std::uint32_t, ValueId, ValueId>> pairs_;  // the legal in-place pairs
  Placement placement_;
};

}  // namespace

Result<Placement> place(const graph::Program& program, const kernel::Schedule& schedule,
                        const std::vector<std::uint64_t>& scratch_bytes, std::uint64_t red_zone_bytes,
                        InputPlaces inputs, const KeptPlaces* kept) {
  if (scratch_bytes.size() != schedule.steps.size()) {
    return Error{ErrorCode::kInternal,
                 fmt::format("placement: {} scratch sizes for {} steps", scratch_bytes.size(), schedule.steps.size())};
  }
  if (schedule.steps.size() >= 0xfffffff0u) {
    return Error{ErrorCode::kInternal, fmt::format("placement: {} steps are too many", schedule.steps.size())};
  }
  CRUCIBLE_TRY(Placement placement, Placer(program, schedule, red_zone_bytes, inputs, kept).run(scratch_bytes));
  CRUCIBLE_TRY_VOID(check_placement(program, schedule, placement));
  return placement;
}

KeptPlaces KeptPlaces::of(std::span<const std::shared_ptr<const graph::Program>> programs,
                          std::uint64_t red_zone_bytes) {
  KeptPlaces places;
  const auto next = [&](const graph::Value& value) {
    const std::uint64_t offset = places.size_bytes;
    const std::uint64_t bytes = bytes_of(value) == 0 ? 0 : bytes_of(value) + red_zone_bytes;
    places.size_bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return offset;
  };
  for (const graph::State& state : programs[0]->states)
    places.states.push_back(next(programs[0]->values[state.start]));
  for (const auto& program : programs) {
    std::map<std::uint32_t, std::size_t> seen;
    for (const graph::Constant& constant : program->constants) {
      const std::pair key(constant.blob, seen[constant.blob]++);
      if (!places.constants.contains(key)) places.constants.emplace(key, next(program->values[constant.value]));
    }
  }
  return places;
}

Result<void> check_certificate(const Placement& placement) {
  return memory::check_certificate(problem_of(placement), solution_of(placement), placement.certificate);
}

}  // namespace crucible::runtime
