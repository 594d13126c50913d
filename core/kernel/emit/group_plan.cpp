// Loop forms, passes and scratch rows of groups: see group_plan.hpp.
#include "core/kernel/emit/group_plan.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace crucible::kernel {
namespace {

using graph::OpKind;
using graph::ValueId;

constexpr std::int64_t kLongSum = 8192;        // float sums longer than this are cut into blocks, for accuracy
constexpr std::int64_t kScratchBytes = 16384;  // a row scratch array stays well inside the first-level cache
constexpr double kRecomputeLimit = 6;          // cycles above which an inner value is kept instead of computed again
constexpr double kLoadCycles = 2;

/// The dimension along which most accesses move by one element; only among the kept ones where a sum by rows has to
/// stay one.
std::size_t best_vector_dimension(const Group& group) {
  const bool only_kept = group.order() != nullptr;
  const std::size_t rank = group.sizes.size();
  std::vector<double> votes(rank, 0);
  for (const Member& member : group.members) {
    if (member.over_rows) continue;
    const auto vote = [&](const Access& access, double weight) {
      for (std::size_t d = 0; d < rank; ++d) {
        if (access.value != graph::kNone && access.strides[d] == 1) votes[d] += weight;
        if (access.strides[d] > 1) votes[d] -= 0.01 * weight;
      }
    };
    for (const Access& input : member.inputs) vote(input, group.producer(input.value) == nullptr ? 2 : 1);
    vote(member.output, 2);
  }
  for (std::size_t d = 0; d < rank; ++d) {
    if (group.sizes[d] < 8) votes[d] *= 0.1 * static_cast<double>(group.sizes[d]);
  }
  std::size_t best = rank;
  for (std::size_t d = rank; d-- > 0;) {
    if (only_kept && group.reduced[d]) continue;
    if (best == rank || votes[d] > votes[best]) best = d;
  }
  return best;
}

/// Those reduced dimensions that count blocks, or places in them, in the order in which a sum takes its terms.
std::vector<std::size_t> in_order(const Group& group, const Access& counted) {
  std::vector<std::size_t> dims;
  for (std::size_t d = 0; d < group.sizes.size(); ++d) {
    if (counted.strides[d] != 0) dims.push_back(d);
  }
  std::ranges::sort(dims, std::greater(), [&](std::size_t d) { return counted.strides[d]; });
  return dims;
}

/// Dimensions by how far the group's accesses move along them, farthest first.
std::vector<std::size_t> by_distance(const Group& group, std::vector<std::size_t> dims) {
  std::vector<std::int64_t> distance(group.sizes.size(), 0);
  for (const Member& member : group.members) {
    for (std::size_t d = 0; d < distance.size(); ++d) {
      for (const Access& input : member.inputs) distance[d] = std::max(distance[d], input.strides[d]);
      distance[d] = std::max(distance[d], member.output.strides[d]);
    }
  }
  std::ranges::stable_sort(dims, [&](std::size_t a, std::size_t b) { return distance[a] > distance[b]; });
  return dims;
}

std::vector<std::size_t> dimensions(const Group& group, bool reduced) {
  std::vector<std::size_t> dims;
  for (std::size_t d = 0; d < group.sizes.size(); ++d) {
    if (group.reduced[d] == reduced) dims.push_back(d);
  }
  return dims;
}

void plan_map(LoopPlan& plan, std::size_t vector, int lanes) {
  constexpr std::int64_t kShortRow = 256, kMostSerial = 512;
  plan.form = LoopForm::kMap;
  auto dims = by_distance(plan.group, dimensions(plan.group, false));
  std::erase(dims, vector);
  plan.loops = {vector};
  if (lanes == 1 && plan.group.sizes[vector] < kShortRow && dims.size() > 1 &&
      plan.group.sizes[dims.back()] <= kMostSerial) {
    plan.loops.insert(plan.loops.begin(), dims.back());
    dims.pop_back();
  }
  plan.grid = std::move(dims);
}

void plan_rows(LoopPlan& plan, std::size_t vector) {
  plan.form = LoopForm::kRows;
  if (plan.group.sizes[vector] > kLongSum) {
    const std::int64_t block = divisor_below(plan.group.sizes[vector], kLongSum / 2);
    if (block >= 256) {
      split_dimension(plan.group, vector, {plan.group.sizes[vector] / block, block});
      ++vector;
    }
  }
  auto loops = by_distance(plan.group, dimensions(plan.group, true));
  std::erase(loops, vector);
  loops.push_back(vector);
  plan.loops = std::move(loops);
  plan.grid = by_distance(plan.group, dimensions(plan.group, false));
}

/// Sums by chains: blocks outside, places inside.
void plan_chains(LoopPlan& plan) {
  plan.form = LoopForm::kRows;
  const SumOrder& order = *plan.group.order();
  plan.chains = order.chains;
  plan.loops = in_order(plan.group, order.block);
  const std::vector<std::size_t> places = in_order(plan.group, order.place);
  plan.place_loops = places.size();
  plan.loops.insert(plan.loops.end(), places.begin(), places.end());
  plan.chain_by_lane = std::ranges::all_of(places, [&](std::size_t d) {
    return d == places.back() || order.place.strides[d] % order.chains == 0;
  });
  plan.grid = by_distance(plan.group, dimensions(plan.group, false));
}

void plan_columns(LoopPlan& plan, std::size_t vector, int lanes) {
  // Few items: of a strip of 128 columns each row is a piece of 512 bytes, which memory gives at half the speed of
  // 1024.
  constexpr std::int64_t kItems = 4, kWidest = 256, kNarrowest = 16, kMostLanes = 4096;
  plan.form = LoopForm::kColumns;
  const std::int64_t columns = plan.group.sizes[vector];
  const std::int64_t others = std::max<std::int64_t>(1, plan.group.rows() / std::max<std::int64_t>(1, columns));
  std::int64_t wanted = kWidest;
  if (lanes > 1) wanted = lanes;  // each a column, and as many items as there can be
  while (wanted > 64 && lanes == 1 && others * (columns / wanted) < kItems) wanted /= 2;
  std::int64_t block = divisor_below(columns, wanted);
  if (block < kNarrowest && columns <= kMostLanes) block = columns;
  if (block > 0 && block < columns) {
    split_dimension(plan.group, vector, {columns / block, block});
    ++vector;
  }
  std::vector<std::size_t> loops;
  if (const SumOrder* order = plan.group.order()) {
    loops = in_order(plan.group, order->block);
    plan.unrolled = in_order(plan.group, order->place);
  } else {
    loops = by_distance(plan.group, dimensions(plan.group, true));
    const std::size_t last = loops.back();
    if (plan.group.sizes[last] % kTreeTerms == 0 && plan.group.sizes[last] > 0) {
      split_dimension(plan.group, last, {plan.group.sizes[last] / kTreeTerms, kTreeTerms});
      if (vector > last) ++vector;
      for (auto& d : loops) d += d > last ? 1 : 0;
      plan.unrolled = {last + 1};
    }
  }
  plan.loops = std::move(loops);
  plan.lanes = vector;
  auto grid = by_distance(plan.group, dimensions(plan.group, false));
  std::erase(grid, vector);
  plan.grid = std::move(grid);
}

/// The cost of computing a value again in a later pass, and what it would take.
class Recompute {
 public:
  Recompute(const graph::Program& program, const Group& group, const std::set<ValueId>& leaves, const PassPlan& passes)
      : program_(program), group_(group), leaves_(leaves), passes_(passes) {}

  double cost(ValueId value) {
    if (auto found = known_.find(value); found != known_.end()) return found->second;
    const Member& member = *group_.producer(value);
    double total = cycles(program_.ops[member.op].kind);
    for (const Access& input : member.inputs) {
      const Member* writer = group_.producer(input.value);
      if (input.value == graph::kNone || member.over_rows) continue;
      if (writer == nullptr || leaves_.contains(input.value)) {
        total += kLoadCycles;
      } else if (!writer->over_rows && !reduces(program_, group_, *writer)) {
        total += cost(input.value);
      }
    }
    return known_[value] = total;
  }

 private:
  const graph::Program& program_;
  const Group& group_;
  const std::set<ValueId>& leaves_;
  const PassPlan& passes_;
  std::map<ValueId, double> known_;
};

std::int64_t scratch_elements(const LoopPlan& loops) {
  std::int64_t count = 1;
  for (auto d : loops.loops) count *= loops.group.sizes[d];
  if (loops.form == LoopForm::kColumns) {
    count *= loops.group.sizes[loops.lanes] * loops.unrolled_points();
  }
  return count;
}

}  // namespace

std::int64_t LoopPlan::items() const {
  std::int64_t count = 1;
  for (auto d : grid) count *= group.sizes[d];
  return form == LoopForm::kFlat ? group.elements() : count;
}

std::int64_t LoopPlan::unrolled_points() const {
  std::int64_t count = 1;
  for (auto d : unrolled) count *= group.sizes[d];
  return count;
}

LoopPlan plan_loops(Group group, int lanes) {
  LoopPlan plan;
  collapse_dimensions(group);
  plan.group = std::move(group);
  const std::size_t rank = plan.group.sizes.size();
  if (!plan.group.has_reduction() && rank <= 1) {
    plan.form = LoopForm::kFlat;
    if (rank == 1) plan.loops = {0};
    return plan;
  }
  if (const SumOrder* order = plan.group.order(); order != nullptr && order->chains > 1) {
    plan_chains(plan);
    return plan;
  }
  const std::size_t vector = best_vector_dimension(plan.group);
  if (!plan.group.has_reduction()) {
    plan_map(plan, vector, lanes);
  } else if (plan.group.reduced[vector]) {
    plan_rows(plan, vector);
  } else {
    plan_columns(plan, vector, lanes);
  }
  return plan;
}

std::int64_t work_items(const Group& group) {
  const LoopPlan plan = plan_loops(group);
  return plan.form == LoopForm::kFlat ? (plan.items() + 1023) / 1024 : plan.items();
}

bool reduces(const graph::Program& program, const Group& group, const Member& member) {
  if (!graph::is_reduction(program.ops[member.op].kind) || !group.has_reduction() || member.over_rows) return false;
  for (std::size_t d = 0; d < group.sizes.size(); ++d) {
    if (group.reduced[d] && member.output.strides[d] != 0) return false;  // its own dimensions all had size 1
  }
  return true;
}

double cycles(OpKind kind) {
  switch (kind) {
    case OpKind::kExp:
      return 14;
    case OpKind::kLog:
      return 18;
    case OpKind::kTanh:
    case OpKind::kSigmoid:
    case OpKind::kErf:
      return 30;
    case OpKind::kSin:
    case OpKind::kCos:
      return 60;
    case OpKind::kPower:
    case OpKind::kExp2:
    case OpKind::kExpm1:
    case OpKind::kLog1p:
    case OpKind::kLog2:
    case OpKind::kLog10:
      return 80;
    case OpKind::kTan:
    case OpKind::kAsin:
    case OpKind::kAcos:
    case OpKind::kAtan:
    case OpKind::kSinh:
    case OpKind::kCosh:
    case OpKind::kAsinh:
    case OpKind::kAcosh:
    case OpKind::kAtanh:
    case OpKind::kAtan2:
    case OpKind::kRemainder:
    case OpKind::kDivideInteger:
      return 120;
    case OpKind::kErfc:
    case OpKind::kErfInverse:
    case OpKind::kLogGamma:
    case OpKind::kDigamma:
      return 1000;  // loops in float64
    case OpKind::kDivide:
    case OpKind::kReciprocal:
    case OpKind::kReciprocalSqrt:
    case OpKind::kSqrt:
      return 8;
    case OpKind::kReduceMax:
    case OpKind::kReduceMin:
      return 5;
    case OpKind::kGatherRows:
    case OpKind::kTake:
      return 4;
    default:
      return 1;  // simple arithmetic, choices and copies
  }
}

PassPlan plan_passes(const graph::Program& program, const LoopPlan& loops, const std::set<ValueId>& stored) {
  PassPlan plan;
  const Group& group = loops.group;
  std::vector<std::pair<ValueId, int>> roots;  // what each pass is for
  for (const Member& member : group.members) {
    int pass = 0;
    for (const Access& input : member.inputs) {
      if (auto found = plan.pass.find(input.value); found != plan.pass.end()) pass = std::max(pass, found->second);
    }
    const ValueId result = member.output.value;
    if (reduces(program, group, member)) {
      roots.emplace_back(member.inputs[0].value, pass);
      plan.pass[result] = pass + 1;
      plan.count = std::max(plan.count, pass + 1);
    } else {
      plan.pass[result] = pass;
      if (!member.over_rows && stored.contains(result)) {
        roots.emplace_back(result, pass);
        plan.count = std::max(plan.count, pass + 1);
      }
    }
  }
  // Values that a pass needs from an earlier one: read back, kept in scratch, or computed again. Last passes first, so
  // that a kept value's own needs count in the pass that computes it.
  std::int64_t scratch_left = 2 * kScratchBytes;
  std::set<ValueId> leaves;
  for (ValueId value : stored) {
    if (const Member* member = group.producer(value); member && !member->over_rows) leaves.insert(value);
  }
  Recompute recompute(program, group, leaves, plan);
  std::set<std::pair<ValueId, int>> seen;
  std::vector<std::pair<ValueId, int>> stack(roots.begin(), roots.end());
  while (!stack.empty()) {
    const auto [value, pass] = stack.back();
    stack.pop_back();
    const Member* member = group.producer(value);
    if (member == nullptr || member->over_rows || reduces(program, group, *member) || !seen.emplace(value, pass).second)
      continue;
    if (plan.pass[value] < pass && !leaves.contains(value)) {
      const std::int64_t bytes = scratch_elements(loops) * size_bytes(member->output.type);
      if (!plan.kept.contains(value) && recompute.cost(value) > kRecomputeLimit && bytes <= kScratchBytes &&
          bytes <= scratch_left) {
        plan.kept.insert(value);
        scratch_left -= bytes;
        stack.emplace_back(value, plan.pass[value]);
      }
    }
    if (plan.pass[value] < pass && (leaves.contains(value) || plan.kept.contains(value))) continue;
    for (const Access& input : member->inputs) stack.emplace_back(input.value, pass);
  }
  return plan;
}

}  // namespace crucible::kernel
