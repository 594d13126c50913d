// The independent checker of placements: an interpreter of byte ranges. It runs the steps over a map that says which
// value was written last at each byte of the arena, so it finds any overlap, early reuse, lost state or skipped copy,
// however the placement was made. It does not know lifetimes, groups or the planner.
#include <fmt/format.h>

#include <map>
#include <set>
#include <tuple>

#include "runtime/plan/placement.hpp"

namespace crucible::runtime {
namespace {

using graph::kNone;
using graph::ValueId;

struct Bytes {
  std::uint64_t begin = 0, end = 0;
  bool meets(const Bytes& other) const { return begin < other.end && other.begin < end; }
  bool operator==(const Bytes&) const = default;
};

/// Which value each byte holds; kNone is unknown content.
class Contents {
 public:
  explicit Contents(std::uint64_t size) { owner_[0] = kNone, owner_[size] = kNone; }

  void set(const Bytes& bytes, ValueId value) {
    if (bytes.begin == bytes.end) return;
    cut(bytes.begin);
    cut(bytes.end);
    owner_.erase(owner_.find(bytes.begin), owner_.find(bytes.end));
    owner_[bytes.begin] = value;
  }

  /// True when all the bytes hold `value`; else `found` is what one of them holds instead.
  bool holds(const Bytes& bytes, ValueId value, ValueId& found) const {
    if (bytes.begin == bytes.end) return true;
    for (auto range = std::prev(owner_.upper_bound(bytes.begin)); range != owner_.end() && range->first < bytes.end;
         ++range) {
      if (range->second == value) continue;
      found = range->second;
      return false;
    }
    return true;
  }

  /// What the ranges of `bytes` hold, to be written elsewhere.
  std::map<std::uint64_t, ValueId> copy(const Bytes& bytes) {
    cut(bytes.begin);
    cut(bytes.end);
    return {owner_.find(bytes.begin), owner_.find(bytes.end)};
  }

 private:
  void cut(std::uint64_t at) {
    const auto after = owner_.upper_bound(at);
    const ValueId value = std::prev(after)->second;
    owner_.emplace_hint(after, at, value);
  }
  std::map<std::uint64_t, ValueId> owner_;  // first byte of a range to what it holds, up to the next entry
};

class Checker {
 public:
  /// Of the iterations that have their inputs in `place`.
  Checker(const graph::Program& program, const kernel::Schedule& schedule, const Placement& placement,
          std::uint32_t place)
      : program_(program),
        schedule_(schedule),
        placement_(placement),
        place_(place),
        contents_(placement.plan.peak_bytes),
        host_contents_(placement.host_plan.peak_bytes),
        written_(program.values.size(), false) {
    for (const kernel::InPlace& pair : schedule.in_place) in_place_.emplace(pair.step, pair.operand, pair.result);
  }

  Result<void> run() {
    CRUCIBLE_TRY_VOID(check_shapes());
    CRUCIBLE_TRY_VOID(load());
    for (std::uint32_t step = 0; step < schedule_.steps.size(); ++step) {
      CRUCIBLE_TRY_VOID(check_reads(step));
      CRUCIBLE_TRY_VOID(check_writes(step));
      contents_.set(scratch_of(step), kNone);  // whatever it held is gone
      for (const kernel::BufferArgument& argument : schedule_.steps[step].buffers) {
        if (argument.written) store(argument.value);
      }
    }
    return finish();
  }

 private:
  std::string value_name(ValueId value) const {
    if (value == kNone) return "no value";
    if (value >= program_.values.size())
      return value_name(value - static_cast<ValueId>(program_.values.size())) + " of the next iteration";
    const std::string& name = program_.values[value].name;
    return name.empty() ? fmt::format("%{}", value) : fmt::format("%{} ({})", value, name);
  }

  std::string step_name(std::uint32_t step) const {
    const auto& ops = schedule_.steps[step].ops;
    if (ops.empty() || ops[0] >= program_.ops.size()) return fmt::format("step {}", step);
    const graph::Op& op = program_.ops[ops[0]];
    if (op.source >= program_.sources.size()) return fmt::format("step {} ({})", step, graph::name(op.kind));
    const graph::Source& source = program_.sources[op.source];
    return fmt::format("step {} ({} of {} {})", step, graph::name(op.kind), source.op, source.site);
  }

  Error failed(const std::string& message) const { return {ErrorCode::kCheckFailed, "placement: " + message}; }

  Result<void> check_shapes() const {
    if (placement_.buffer_of.size() != program_.values.size() ||
        placement_.scratch_of.size() != schedule_.steps.size() ||
        placement_.plan.offsets.size() != placement_.buffers.size() ||
        (placement_.has_two_places() && placement_.second_of.size() != program_.values.size()) ||
        (!schedule_.is_on_host.empty() && placement_.host_of.size() != program_.values.size()) ||
        placement_.host_plan.offsets.size() != placement_.host_buffers.size()) {
      return failed(fmt::format("made for {} values, {} steps and {} buffers; there are {}, {} and {}",
                                placement_.buffer_of.size(), placement_.scratch_of.size(),
                                placement_.plan.offsets.size(), program_.values.size(), schedule_.steps.size(),
                                placement_.buffers.size()));
    }
    for (std::uint32_t buffer = 0; buffer < placement_.buffers.size(); ++buffer) {
      std::uint64_t end = 0;
      if (__builtin_add_overflow(placement_.plan.offsets[buffer], placement_.buffers[buffer].size_bytes, &end) ||
          end > placement_.plan.peak_bytes) {
        return failed(fmt::format("buffer {} ends behind the arena of {} bytes", buffer, placement_.plan.peak_bytes));
      }
    }
    for (std::uint32_t buffer = 0; buffer < placement_.host_buffers.size(); ++buffer) {
      std::uint64_t end = 0;
      if (__builtin_add_overflow(placement_.host_plan.offsets[buffer], placement_.host_buffers[buffer].size_bytes,
                                 &end) ||
          end > placement_.host_plan.peak_bytes) {
        return failed(fmt::format("buffer {} of the host ends behind its arena of {} bytes", buffer,
                                  placement_.host_plan.peak_bytes));
      }
    }
    for (const std::uint32_t second : placement_.second_of) {
      if (second != kNone && second >= placement_.buffers.size())
        return failed(fmt::format("an input's second place is buffer {} of {}", second, placement_.buffers.size()));
    }
    for (const std::uint32_t scratch : placement_.scratch_of) {
      if (scratch != kNone && scratch >= placement_.buffers.size()) {
        return failed(fmt::format("a step's scratch is buffer {} of {}", scratch, placement_.buffers.size()));
      }
    }
    for (const HomeCopy& copy : placement_.home_copies) {
      if (copy.from >= placement_.buffers.size() || copy.to >= placement_.buffers.size()) {
        return failed(
            fmt::format("a home copy names buffers {} and {} of {}", copy.from, copy.to, placement_.buffers.size()));
      }
    }
    return {};
  }

  /// What the host gives anew whenever it is asked; it has no place of its own.
  bool is_given(ValueId value) const {
    return schedule_.on_host(value) && program_.values[value].kind == graph::ValueKind::kInput;
  }

  const Contents& contents_of(ValueId value) const { return schedule_.on_host(value) ? host_contents_ : contents_; }

  Result<Bytes> bytes_of(ValueId value, const std::string& who) const {
    if (value >= program_.values.size())
      return failed(fmt::format("{} names value {}, which does not exist", who, value));
    const bool on_host = schedule_.on_host(value);
    const std::vector<memory::Buffer>& buffers = on_host ? placement_.host_buffers : placement_.buffers;
    const std::uint32_t buffer = on_host ? placement_.host_of[value] : placement_.buffer_at(value, place_);
    if (buffer >= buffers.size())
      return failed(fmt::format("{} needs {}, which has no buffer", who, value_name(value)));
    const std::uint64_t size =
        static_cast<std::uint64_t>(program_.values[value].elements) * size_bytes(program_.values[value].dtype);
    if (size > buffers[buffer].size_bytes) {
      return failed(
          fmt::format("{} has {} bytes, its buffer {}", value_name(value), size, buffers[buffer].size_bytes));
    }
    const std::uint64_t offset = (on_host ? placement_.host_plan : placement_.plan).offsets[buffer];
    return Bytes{offset, offset + size};
  }

  Bytes scratch_of(std::uint32_t step) const {
    const std::uint32_t buffer = placement_.scratch_of[step];
    if (buffer == kNone) return {};
    return {placement_.plan.offsets[buffer], placement_.plan.offsets[buffer] + placement_.buffers[buffer].size_bytes};
  }

  /// Only after bytes_of() has succeeded for it.
  void store(ValueId value) {
    (schedule_.on_host(value) ? host_contents_ : contents_).set(*bytes_of(value, ""), value);
    written_[value] = true;
  }

  Result<void> expect(ValueId value, const std::string& who) const {
    CRUCIBLE_TRY(const Bytes bytes, bytes_of(value, who));
    ValueId found = kNone;
    if (contents_of(value).holds(bytes, value, found)) return {};
    return failed(fmt::format("{} reads {} at bytes [{}, {}), which hold {}", who, value_name(value), bytes.begin,
                              bytes.end, value_name(found)));
  }

  Result<void> load() {
    std::vector<ValueId> loaded;
    for (const graph::State& state : program_.states) loaded.push_back(state.start);
    for (const graph::Constant& constant : program_.constants) loaded.push_back(constant.value);
    for (const graph::Input& input : program_.inputs) {
      if (placement_.buffer_of[input.value] != kNone) loaded.push_back(input.value);
    }
    for (const ValueId value : loaded) {
      CRUCIBLE_TRY_VOID(bytes_of(value, "the start of the iteration"));
      store(value);
    }
    for (const auto& [next, bytes] : next_inputs()) contents_.set(bytes, next);
    for (const ValueId value : loaded) CRUCIBLE_TRY_VOID(expect(value, "the start of the iteration"));
    return {};
  }

  /// The other places of inputs, into which the host writes what the next iteration reads: under numbers that no value
  /// has.
  std::vector<std::pair<ValueId, Bytes>> next_inputs() const {
    std::vector<std::pair<ValueId, Bytes>> next;
    for (ValueId value = 0; value < placement_.second_of.size(); ++value) {
      if (placement_.second_of[value] == kNone) continue;
      const std::uint32_t buffer = placement_.buffer_at(value, 1 - place_);
      const std::uint64_t begin = placement_.plan.offsets[buffer];
      const std::uint64_t size =
          static_cast<std::uint64_t>(program_.values[value].elements) * size_bytes(program_.values[value].dtype);
      next.emplace_back(static_cast<ValueId>(program_.values.size()) + value, Bytes{begin, begin + size});
    }
    return next;
  }

  /// What the step reads must be there. A value that several steps write must not have been damaged between them.
  Result<void> check_reads(std::uint32_t step) const {
    const std::string name = step_name(step);
    for (const kernel::BufferArgument& argument : schedule_.steps[step].buffers) {
      if (!argument.written && is_given(argument.value)) continue;
      CRUCIBLE_TRY_VOID(bytes_of(argument.value, name));
      if (!argument.written || written_[argument.value]) CRUCIBLE_TRY_VOID(expect(argument.value, name));
    }
    return {};
  }

  bool may_be_in_place(std::uint32_t step, ValueId operand, ValueId result) const {
    return in_place_.contains({step, operand, result});
  }

  /// What the step writes may not touch what it reads, other results or its scratch; only an in-place pair may
  /// coincide.
  Result<void> check_writes(std::uint32_t step) const {
    const auto& arguments = schedule_.steps[step].buffers;
    if (schedule_.steps[step].kind == kernel::StepKind::kTransfer) return {};  // from one arena to the other
    const Bytes scratch = scratch_of(step);
    for (const kernel::BufferArgument& a : arguments) {
      const Bytes range = *bytes_of(a.value, "");
      if (range.meets(scratch))
        return failed(fmt::format("the scratch of {} overlaps {}", step_name(step), value_name(a.value)));
      for (const kernel::BufferArgument& b : arguments) {
        if (!b.written || a.value == b.value || !range.meets(*bytes_of(b.value, ""))) continue;
        if (!a.written && range == *bytes_of(b.value, "") && may_be_in_place(step, a.value, b.value)) continue;
        return failed(fmt::format("{} writes {} over {}", step_name(step), value_name(b.value), value_name(a.value)));
      }
    }
    return {};
  }

  /// The home copies; then everything must be where the host and the next iteration look for it.
  Result<void> finish() {
    for (const HomeCopy& copy : placement_.home_copies) {
      const std::uint64_t from = placement_.plan.offsets[copy.from], to = placement_.plan.offsets[copy.to];
      if (copy.size_bytes > placement_.buffers[copy.from].size_bytes ||
          copy.size_bytes > placement_.buffers[copy.to].size_bytes) {
        return failed(fmt::format("a home copy of {} bytes is larger than its buffers", copy.size_bytes));
      }
      const Bytes target{to, to + copy.size_bytes};
      if (target.meets({from, from + copy.size_bytes})) return failed("a home copy overlaps itself");
      const auto ranges = contents_.copy({from, from + copy.size_bytes});
      for (auto range = ranges.begin(); range != ranges.end(); ++range) {
        const std::uint64_t end = std::next(range) == ranges.end() ? from + copy.size_bytes : std::next(range)->first;
        contents_.set({range->first - from + to, end - from + to}, range->second);
      }
    }
    for (const graph::State& state : program_.states) {
      CRUCIBLE_TRY(const Bytes home, bytes_of(state.start, "the end of the iteration"));
      ValueId found = kNone;
      if (!contents_of(state.start).holds(home, state.end, found)) {
        return failed(fmt::format("state {} should come home as {} at bytes [{}, {}), which hold {}",
                                  value_name(state.start), value_name(state.end), home.begin, home.end,
                                  value_name(found)));
      }
    }
    for (const graph::Constant& constant : program_.constants)
      CRUCIBLE_TRY_VOID(expect(constant.value, "the next iteration"));
    for (const auto& [next, bytes] : next_inputs()) {
      ValueId found = kNone;
      if (contents_.holds(bytes, next, found)) continue;
      return failed(fmt::format("the next iteration's {} at bytes [{}, {}) is written over by {}",
                                value_name(next - static_cast<ValueId>(program_.values.size())), bytes.begin, bytes.end,
                                value_name(found)));
    }
    for (const graph::Output& output : program_.outputs) {
      if (!output.operand.is_scalar()) CRUCIBLE_TRY_VOID(expect(output.operand.value, "output " + output.name));
    }
    return {};
  }

  const graph::Program& program_;
  const kernel::Schedule& schedule_;
  const Placement& placement_;
  const std::uint32_t place_;
  Contents contents_, host_contents_;  // of the arena, of the host's
  std::vector<bool> written_;  // per value: already in the arena
  std::set<std::tuple<std::uint32_t, ValueId, ValueId>>
      in_place_;  // pairs that the schedule allows: step, operand, result
};

}  // namespace

Result<void> check_placement(const graph::Program& program, const kernel::Schedule& schedule,
                             const Placement& placement) {
  CRUCIBLE_TRY_VOID(Checker(program, schedule, placement, 0).run());
  return placement.has_two_places() ? Checker(program, schedule, placement, 1).run() : Result<void>();
}

}  // namespace crucible::runtime
