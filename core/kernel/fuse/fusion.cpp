// The choice of groups: see fusion.hpp. Greedy, in program order: first producers with consumers, then readers of one
// value with each other. Every joint is checked on the graph of units.
#include "core/kernel/fuse/fusion.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "core/base/progress.hpp"
#include "core/graph/queries.hpp"
#include "core/kernel/emit/group_plan.hpp"
#include "core/kernel/fuse/group_stamps.hpp"
#include "core/kernel/fuse/merge.hpp"
#include "core/kernel/fuse/unit_graph.hpp"

namespace crucible::kernel {
namespace {

using graph::kNone;
using graph::OpId;
using graph::Program;
using graph::ValueId;

constexpr std::size_t kMostMembers = 160;
constexpr std::size_t kMostBuffers = 32, kMostSingles = 128;  // the second where every operand is one element
// What a large group reads has to wait for the last of it: partial gradients of fifty steps in time would all be alive
// at once.
constexpr std::size_t kMostWaiting = 8;
constexpr std::int64_t kLargeElements = 2048;
constexpr std::int64_t kParallelElements = 32768;             // fewer are done by one thread anyway
constexpr std::int64_t kFewItems = 4;

/// A unit per op, without groups.
std::vector<Unit> single_units(const Program& program) {
  std::vector<Unit> units(program.ops.size());
  for (OpId op = 0; op < program.ops.size(); ++op) units[op].ops = {op};
  return units;
}

class Fuser : public UnitGraph {
 public:
  /// While groups are joined they are stamps (group_stamps.hpp); the units have no groups until name_groups().
  Fuser(const Program& program, Numerics numerics, GroupStamps& stamps)
      : UnitGraph(program, single_units(program)),
        stamps_(stamps),
        readers_(graph::readers(program)),
        groups_(units_.size()) {
    for (OpId op = 0; op < program.ops.size(); ++op) {
      note_op(op);
      if (const auto group = make_group(program, op, numerics)) groups_[op] = stamps_.describe(program, *group);
    }
  }

  /// First within the forward pass and within what follows it: the backward pass computes what it can from what it
  /// reads anyway. Joined in the order of the program, the forward pass would compute it, and write it to memory.
  void join() {
    for (const bool across : {false, true}) {
      across_passes_ = across;
      for (int round = 0; round < 4; ++round) {
        bool changed = join_producers();
        changed |= join_readers();
        if (!changed) break;
      }
    }
    join_singles();
  }

  void name_groups() {
    for (UnitId u = 0; u < units_.size(); ++u) {
      if (is_group(u)) units_[u].group = stamps_.group(program_, groups_[u].content, units_[u].ops);
    }
  }

  /// Of the units as they are now.
  std::vector<Neighbour> neighbours(const std::vector<OpId>& ops) {
    std::set<UnitId> own;
    for (const OpId op : ops) own.insert(unit_of_[op]);
    std::vector<Neighbour> found;
    for (const UnitId unit : own) {
      for (const auto& [other, value] : beside(unit)) {
        if (!own.contains(other))
          found.push_back({units_[unit].ops.front(), units_[other].ops, value, joint(unit, other).apart});
      }
    }
    std::ranges::stable_sort(found, {}, [](const Neighbour& neighbour) { return neighbour.ops.front(); });
    return found;
  }

 private:
  /// Units that share a value with this one, and the first such value that is found.
  std::map<UnitId, ValueId> beside(UnitId unit) const {
    std::map<UnitId, ValueId> found;
    const auto meet = [&](OpId other, ValueId value) {
      if (unit_of_[other] != unit) found.emplace(unit_of_[other], value);
    };
    for (const OpId member : units_[unit].ops) {
      for (const auto& input : program_.ops[member].inputs) {
        if (input.is_scalar()) continue;
        const OpId producer = program_.values[input.value].producer;
        if (producer != kNone) meet(producer, input.value);
        for (const OpId reader : readers_[input.value]) meet(reader, input.value);
      }
      for (const auto& output : program_.ops[member].outputs) {
        for (const OpId reader : readers_[output.value]) meet(reader, output.value);
      }
    }
    return found;
  }

  bool join_producers() {
    bool changed = false;
    for (OpId op = 0; op < program_.ops.size(); ++op) {
      report_progress("joining ops with what they read", op, program_.ops.size());
      for (std::uint32_t i = first_producer_[op]; i < first_producer_[op + 1]; ++i)
        changed |= try_join(unit_of_[producers_[i]], unit_of_[op]);
        }
        return changed;
  }

  /// The program is large and lies all over memory, and is gone through in each round.
  void note_op(OpId op) {
    const auto first = static_cast<std::ptrdiff_t>(producers_.size());
    for (const auto& input : program_.ops[op].inputs) {
      if (!input.is_scalar() && program_.values[input.value].producer != kNone)
        producers_.push_back(program_.values[input.value].producer);
    }
    std::sort(producers_.begin() + first, producers_.end(), std::greater<>());
    first_producer_.push_back(static_cast<std::uint32_t>(producers_.size()));
    is_forward_.push_back(kernel::is_forward(program_, op));
  }

  bool join_readers() {
    bool changed = false;
    for (ValueId value = 0; value < readers_.size(); ++value) {
      report_progress("joining ops that read the same", value, readers_.size());
      const auto readers = readers_[value];
      for (std::size_t i = 1; i < readers.size(); ++i) {
        for (std::size_t j = i; j-- > 0 && i - j <= 8;) changed |= try_join(unit_of_[readers[j]], unit_of_[readers[i]]);
      }
    }
    return changed;
  }

  /// Counters and other single numbers that have nothing to do with each other become one launch.
  void join_singles() {
    UnitId first = kNone;
    for (UnitId u = 0; u < units_.size(); ++u) {
      if (!is_group(u) || !stamps_.content(groups_[u].content).sizes.empty()) continue;
      if (first == kNone || !try_join(first, u)) first = u;
    }
  }

  bool is_group(UnitId unit) const { return groups_[unit].content != kNone; }

  bool try_join(UnitId a, UnitId b) {
    if (a == b || !is_group(a) || !is_group(b)) return false;
    // While no unit reaches across, each is of the pass of the op whose number it has.
    if (!across_passes_ && is_forward_[a] != is_forward_[b]) return false;
    const std::uint64_t key = (static_cast<std::uint64_t>(std::min(a, b)) << 32) | std::max(a, b);
    const std::uint64_t state = (static_cast<std::uint64_t>(joints_[std::min(a, b)]) << 32) | joints_[std::max(a, b)];
    if (const auto found = refused_.find(key); found != refused_.end() && found->second == state) return false;
    const Joint found = joint(a, b);
    if (found.apart == Apart::kNot) {
      std::vector<ValueId> values = GroupStamps::values_of(*found.group, pair_of(a, b));
      groups_[a] = {found.group->content, std::move(values)};
      groups_[b] = {};
      replace(a, b, {});
      ++joints_[a];
      return true;
    }
    if (found.apart != Apart::kPath) refused_[key] = state;  // a path may go when units on it are joined
    return false;
  }

  struct Joint {
    Apart apart = Apart::kNot;
    const StampedJoint* group = nullptr;  // until the next one
  };
  StampPair pair_of(UnitId a, UnitId b) const { return {groups_[a], units_[a].ops, groups_[b], units_[b].ops}; }

  Joint joint(UnitId a, UnitId b) {
    if (!is_group(a) || !is_group(b)) return {Apart::kOwnKind};
    const StampPair pair = pair_of(a, b);
    const StampedJoint* known = stamps_.find(pair);
    if (known == nullptr) {
      Group first = stamps_.group(program_, groups_[a].content, units_[a].ops),
            second = stamps_.group(program_, groups_[b].content, units_[b].ops);
      Decision decision = decide(first, second);
      if (decision.apart == Apart::kNot && !decision.group)
        decision.group = put_together(std::move(first), std::move(second));
      known = &stamps_.keep(program_, pair, decision.apart, decision.group ? &*decision.group : nullptr);
    }
    if (known->apart == Apart::kNot && connected_outside(a, b)) return {Apart::kPath};
    return {known->apart, known};
  }

  // ---- decisions: all that they look at is in a stamp, or in the question that is asked of two ----

  struct Decision {
    Apart apart = Apart::kNot;
    std::optional<Group> group = {};  // none where the two are put together as they are
  };
  /// The groups that a joint is made of: two that stay as they are, or what became of them.
  using Parts = std::vector<const Group*>;

  Decision decide(const Group& first, const Group& second) const {
    if (first.elements() == 0 || second.elements() == 0) return {Apart::kEmpty};
    if (first.members.size() + second.members.size() > kMostMembers) return {Apart::kMembers};
    std::optional<Group> merged;
    Parts parts = {&first, &second};
    if (!fit_as_they_are(first, second)) {
      merged = merge_groups(first, second);
      if (!merged) return {Apart::kShape};
      parts = {&*merged};
    }
    const std::int64_t elements = parts[0]->elements();
    if (reads_scores_across(parts)) return {Apart::kShape};
    if (buffer_count(parts) > (parts[0]->sizes.empty() ? kMostSingles : kMostBuffers)) return {Apart::kBuffers};
    if (elements >= kLargeElements && temporaries_read(parts) > kMostWaiting) return {Apart::kWaiting};
    // A large parallel loop must not become one of few items.
    const auto is_wide = [](const Group& part) {
      return part.elements() >= kParallelElements && work_items(part) >= kFewItems;
    };
    if ((is_wide(first) || is_wide(second)) && work_items(merged ? *merged : put_together(first, second)) < kFewItems)
      return {Apart::kParallelism};
    return {Apart::kNot, std::move(merged)};
  }

  /// Of the large values that they read: those that another unit makes.
  std::size_t temporaries_read(const Parts& parts) const {
    std::vector<ValueId> read, made;
    for (const Group* part : parts) {
      for (const Member& member : part->members) {
        made.push_back(member.output.value);
        for (const Access& input : member.inputs) {
          if (input.value == kNone || program_.values[input.value].elements < kLargeElements) continue;
          if (program_.values[input.value].producer != kNone) read.push_back(input.value);
        }
      }
    }
    sort_each_once(read);
    sort_each_once(made);
    return static_cast<std::size_t>(
        std::ranges::count_if(read, [&](ValueId value) { return !std::ranges::binary_search(made, value); }));
  }

  /// Of two large products of many matrices one along and one across: a kernel that walks one of them badly, and that
  /// neither product could be joined to (attention.hpp).
  bool reads_scores_across(const Parts& parts) const {
    const std::int64_t elements = parts[0]->elements();
    const std::size_t rank = parts[0]->sizes.size();
    if (elements < kLargeElements) return false;
    std::size_t along = rank;
    for (const Group* part : parts) {
      for (const Member& member : part->members) {
        for (const Access& input : member.inputs) {
          if (input.value == kNone || program_.values[input.value].producer == kNone) continue;
          const graph::Op& op = program_.ops[program_.values[input.value].producer];
          if (op.kind != graph::OpKind::kMatMul || op.outputs[0].view.sizes.size() < 3) continue;
          if (program_.values[input.value].elements != elements) continue;
          const auto d = static_cast<std::size_t>(std::ranges::find(input.strides, 1) - input.strides.begin());
          if (d < rank && along < rank && d != along) return true;
          along = std::min(d, along);
        }
      }
    }
    return false;
  }

  static std::size_t buffer_count(const Parts& parts) {
    std::vector<ValueId> values;
    std::size_t members = 0;
    for (const Group* part : parts) {
      members += part->members.size();
      for (const Member& member : part->members) {
        values.push_back(member.output.value);
        for (const Access& input : member.inputs) values.push_back(input.value);
      }
    }
    sort_each_once(values);
    return values.size() > members ? values.size() - members : 0;
  }

  static void sort_each_once(std::vector<ValueId>& values) {
    std::ranges::sort(values);
    values.erase(std::ranges::unique(values).begin(), values.end());
  }

  GroupStamps& stamps_;
  graph::IdLists readers_;  // per value, ascending
  std::vector<GroupStamp> groups_;  // per unit
  std::vector<OpId> producers_;     // of each op, last ones first
  std::vector<std::uint32_t> first_producer_ = {0};
  std::vector<bool> is_forward_;  // per op
  bool across_passes_ = true;
  std::vector<std::uint32_t> joints_ =
      std::vector<std::uint32_t>(units_.size(), 0);           // per unit: how often it became another one
  std::unordered_map<std::uint64_t, std::uint64_t> refused_;  // pairs whose nests do not fit, as the two were then
};

}  // namespace

bool is_forward(const Program& program, OpId op) {
  const std::uint32_t source = program.ops[op].source;
  return source >= program.sources.size() || program.sources[source].phase == graph::Phase::kForward;
}

std::vector<std::uint32_t> units_of_ops(const Program& program, const std::vector<Unit>& units) {
  std::vector<std::uint32_t> unit_of(program.ops.size(), kNone);
  for (std::uint32_t u = 0; u < units.size(); ++u) {
    for (const OpId op : units[u].ops) unit_of[op] = u;
  }
  return unit_of;
}

std::vector<Unit> make_units(const Program& program, bool fuse, Numerics numerics, GroupStamps* stamps) {
  if (!fuse) {
    std::vector<Unit> units = single_units(program);
    for (Unit& unit : units) {
      if (auto group = make_group(program, unit.ops[0], numerics)) unit.group = std::move(*group);
    }
    UnitGraph graph(program, std::move(units));
    return graph.ordered(graph.last_ops());
  }
  GroupStamps own;
  Fuser fuser(program, numerics, stamps != nullptr ? *stamps : own);
  fuser.join();
  fuser.name_groups();
  return fuser.ordered(fuser.last_ops());
}

std::vector<Neighbour> neighbours(const Program& program, const std::vector<OpId>& ops, Numerics numerics) {
  GroupStamps stamps;
  Fuser fuser(program, numerics, stamps);
  fuser.join();
  return fuser.neighbours(ops);
}

std::string_view words(Apart apart) {
  switch (apart) {
    case Apart::kNot:
      return "nothing is in the way now: what was, was joined with others after this had been tried";
    case Apart::kOwnKind:
      return "one of the two is a kernel of its own kind";
    case Apart::kEmpty:
      return "one of the two has no elements";
    case Apart::kShape:
      return "their loops do not match: a value would be read elsewhere than where it is written";
    case Apart::kPath:
      return "a third step lies between them";
    case Apart::kMembers:
      return "it would have more ops than one kernel takes";
    case Apart::kBuffers:
      return "it would have more buffers than one kernel takes";
    case Apart::kWaiting:
      return "too many large tensors would wait for each other";
    case Apart::kParallelism:
      return "many independent rows would become few";
    case Apart::kScratch:
      return "an attention whose rows of scores are too long for the scratch of a work item";
    case Apart::kNoGain:
      return "an attention that would read keys and values more often than scores in memory cost";
    case Apart::kLibrary:
      return "an attention of few scores, whose products the library does faster";
    case Apart::kLibraryProduct:
      return "the product is a call of a library, which has no epilogue";
    case Apart::kNotElementwise:
      return "it sums, or looks up: an epilogue of a product is element-wise";
    case Apart::kTaken:
      return "it is the epilogue of another product";
    case Apart::kAcross:
      return "its operands lie across the rows in which the product is made";
    case Apart::kMemory:
      return "what it waits for would make the step need more memory";
  }
  return "";
}

}  // namespace crucible::kernel
