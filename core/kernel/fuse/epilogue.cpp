// Which groups join which products, and in which order all run then: see epilogue.hpp.
#include "core/kernel/fuse/epilogue.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/graph/queries.hpp"
#include "core/kernel/emit/conv_tiles.hpp"
#include "core/kernel/fuse/merge.hpp"
#include "core/kernel/fuse/unit_graph.hpp"

namespace crucible::kernel {
namespace {

using graph::kNone;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::Program;
using graph::ValueId;

// The text of an epilogue is written once per shape of tile, of which a kernel has up to eighteen.
constexpr std::size_t kMostEpilogueMembers = 64;
constexpr std::size_t kMostEpilogueBuffers = 24;
constexpr std::int64_t kLargeElements = 2048;  // from which vectors that gather one by one cost more than a launch

bool is_product(OpKind kind) {
  return kind == OpKind::kMatMul || kind == OpKind::kConv2d || kind == OpKind::kConv2dBackwardInput ||
         kind == OpKind::kConv2dBackwardWeight;
}

/// The channels of a convolution's result that a work item has as rows: of dx those of x, else those of the filters.
std::size_t channel_dimension(OpKind kind) { return kind == OpKind::kConv2dBackwardWeight ? 0 : 1; }

const Member& product_of(const Group& group, OpId anchor) {
  return *std::ranges::find(group.members, anchor, &Member::op);
}

bool is_counted(const Member& product, std::size_t d) {
  return std::ranges::any_of(product.inputs, [&](const Access& counter) { return counter.strides[d] != 0; });
}

/// A piece of lanes lies within one stretch of the innermost dimension that the lanes are cut into.
bool lanes_stay_together(const Group& group, const Access& counter) {
  std::size_t pieces = 0;
  std::int64_t innermost = 1;
  for (std::size_t d = 0; d < group.sizes.size(); ++d) {
    if (counter.strides[d] == 0 || group.sizes[d] == 1) continue;
    ++pieces;
    if (counter.strides[d] == 1) innermost = group.sizes[d];
  }
  return pieces <= 1 || innermost % kEpilogueLanes == 0;
}

/// Whether vectors can have the epilogue's operands, and have them side by side where there are many.
Apart reach_of(const Program& program, const Group& group, OpId anchor) {
  const Member& product = product_of(group, anchor);
  const bool is_matmul = program.ops[anchor].kind == OpKind::kMatMul;
  const Access* lanes = nullptr;
  if (is_matmul) {
    const graph::View& result = program.ops[anchor].outputs[0].view;
    lanes = &product.inputs[result.sizes.size() - (runs_along_rows(result) ? 2 : 1)];
    if (!lanes_stay_together(group, *lanes)) return Apart::kAcross;
  }
  const bool is_large = group.elements() >= kLargeElements;
  for (const Member& member : group.members) {
    if (member.op == anchor) continue;
    const auto reaches = [&](const Access& access) {
      if (is_matmul) {
        for (std::size_t d = 0; d < group.sizes.size(); ++d) {
          if (is_large && lanes->strides[d] == 1 && group.sizes[d] > 1 && access.strides[d] != 0 &&
              access.strides[d] != 1)
            return false;
        }
        return true;
      }
      // Of a convolution: where the result lies, or the same for a whole row.
      bool is_same = true, is_row = true;
      for (std::size_t d = 0; d < group.sizes.size(); ++d) {
        if (group.sizes[d] == 1) continue;
        is_same &= access.strides[d] == product.output.strides[d];
        is_row &= access.strides[d] == 0 || is_counted(product, d);
      }
      return is_row || (is_same && access.value != kNone);
    };
    if (!reaches(member.output) || !std::ranges::all_of(member.inputs, reaches)) return Apart::kAcross;
  }
  return Apart::kNot;
}

class Epilogues : public UnitGraph {
 public:
  Epilogues(const Program& program, std::vector<Unit> units, const IsGenerated& is_generated)
      : UnitGraph(program, std::move(units)), is_generated_(is_generated) {
    for (const Unit& unit : units_) {
      const bool is_alone = unit.anchor == kNone && unit.group.members.empty() && unit.ops.size() == 1;
      if (is_alone && takes_epilogue(program_, unit.ops[0]))
        nests_.emplace(unit.ops[0], product_nest(program_, unit.ops[0]));
    }
    // A state is updated where it lies: only after everybody has read it, as it is in the order that was given.
    const graph::IdLists readers = graph::readers(program);
    for (const graph::State& state : program.states) {
      const OpId end = program.values[state.end].producer;
      if (state.start == state.end || end == kNone) continue;
      start_of_.emplace(state.end, state.start);
      for (const OpId reader : readers[state.start]) {
        if (unit_of_[reader] < unit_of_[end]) let_wait(reader, end);
      }
    }
  }

  /// In program order, the last product first: the results of the others are there by then. `most` joints are made.
  std::size_t join(std::size_t most, const std::set<OpId>& without) {
    std::size_t made = 0;
    for (bool changed = true; changed && made < most;) {
      changed = false;
      for (OpId op = 0; op < program_.ops.size() && made < most; ++op) {
        const UnitId group = unit_of_[op];
        if (units_[group].anchor != kNone || units_[group].group.members.empty() || units_[group].is_attention())
          continue;
        for (const UnitId product : products_before(op)) {
          if (without.contains(op)) continue;
          Joint found = joint(product, group);
          if (found.apart != Apart::kNot) continue;
          anchor(product);
          replace(product, group, std::move(found.group));
          last_ = op;
          ++made;
          changed = true;
          break;
        }
      }
    }
    return made;
  }
  /// The op of the last group that was joined.
  OpId last() const { return last_; }

  Apart apart(OpId product, OpId group) {
    const UnitId unit = unit_of_[product], other = unit_of_[group];
    const bool reads = std::ranges::any_of(units_[other].ops, [&](OpId op) {
      const std::vector<UnitId> products = products_before(op);
      return std::ranges::find(products, unit) != products.end();
    });
    if (!reads || units_[other].group.members.empty() || units_[other].is_attention()) return Apart::kOwnKind;
    return units_[other].anchor != kNone ? Apart::kTaken : joint(unit, other).apart;
  }

  /// Products with epilogues where the product stood, and what they wait for not after them.
  std::vector<Unit> in_order() {
    std::vector<OpId> keys = last_ops();
    std::vector<std::vector<UnitId>> before(units_.size());
    for (UnitId u = 0; u < units_.size(); ++u) {
      for_each_successor(u, [&](UnitId next) { before[next].push_back(u); });
    }
    std::vector<UnitId> stack;
    for (UnitId u = 0; u < units_.size(); ++u) {
      if (units_[u].anchor == kNone || units_[u].ops.empty()) continue;
      keys[u] = units_[u].anchor;
      stack.push_back(u);
    }
    while (!stack.empty()) {
      const UnitId u = stack.back();
      stack.pop_back();
      for (const UnitId earlier : before[u]) {
        if (keys[earlier] <= keys[u]) continue;
        keys[earlier] = keys[u];
        stack.push_back(earlier);
      }
    }
    return ordered(keys);
  }

 private:
  struct Joint {
    Apart apart = Apart::kNot;
    Group group = {};
  };

  /// Units that are products, and make an operand of the op: those that come last first.
  std::vector<UnitId> products_before(OpId op) const {
    std::vector<std::pair<OpId, UnitId>> found;
    for (const auto& input : program_.ops[op].inputs) {
      const OpId producer = input.is_scalar() ? kNone : program_.values[input.value].producer;
      if (producer == kNone) continue;
      const UnitId unit = unit_of_[producer];
      if (const OpId product = product_in(unit); product != kNone) found.emplace_back(product, unit);
    }
    std::ranges::sort(found, std::greater<>());
    std::vector<UnitId> units;
    for (const auto& [product, unit] : found) units.push_back(unit);
    return units;
  }

  OpId product_in(UnitId unit) const {
    if (units_[unit].anchor != kNone) return units_[unit].anchor;
    return units_[unit].ops.size() == 1 && nests_.contains(units_[unit].ops[0]) ? units_[unit].ops[0] : kNone;
  }
  void anchor(UnitId unit) { units_[unit].anchor = product_in(unit); }

  bool is_generated(OpId product) {
    const auto [entry, is_new] = generated_.try_emplace(product, false);
    if (is_new) entry->second = is_generated_(product);
    return entry->second;
  }

  Joint joint(UnitId unit, UnitId other) {
    const OpId product = product_in(unit);
    const Group& group = units_[other].group;
    if (product == kNone || group.members.empty()) return {Apart::kOwnKind};
    const Group& nest = units_[unit].anchor != kNone ? units_[unit].group : nests_.at(product);
    if (group.elements() == 0 || nest.elements() == 0) return {Apart::kEmpty};
    const auto is_simple = [&](const Member& member) {
      return member.lookup == Lookup::kNone && !graph::is_reduction(program_.ops[member.op].kind);
    };
    if (group.has_reduction() || !std::ranges::all_of(group.members, is_simple)) return {Apart::kNotElementwise};
    if (nest.members.size() + group.members.size() > kMostEpilogueMembers) return {Apart::kMembers};
    if (overwrites_operand(product, group)) return {Apart::kMemory};
    auto merged = merge_groups(nest, group);
    if (!merged) return {Apart::kShape};
    collapse_dimensions(*merged);
    if (const Apart reach = reach_of(program_, *merged, product); reach != Apart::kNot) return {reach};
    if (buffer_count(*merged, product) > kMostEpilogueBuffers) return {Apart::kBuffers};
    if (connected_outside(unit, other)) return {Apart::kPath};
    if (!is_generated(product)) return {Apart::kLibraryProduct};
    return {Apart::kNot, *std::move(merged)};
  }

  /// The group ends a state that starts as an operand of the product: other work items read it while one would write
  /// it.
  bool overwrites_operand(OpId product, const Group& group) const {
    return std::ranges::any_of(group.members, [&](const Member& member) {
      const auto state = start_of_.find(member.output.value);
      if (state == start_of_.end()) return false;
      return std::ranges::any_of(program_.ops[product].inputs,
                                 [&](const auto& input) { return !input.is_scalar() && input.value == state->second; });
    });
  }

  /// As many as the kernel may have, were every result stored.
  std::size_t buffer_count(const Group& group, OpId product) const {
    std::set<ValueId> values;
    for (const auto& input : program_.ops[product].inputs) values.insert(input.value);
    for (const Member& member : group.members) {
      for (const Access& input : member.inputs) {
        if (input.value != kNone && group.producer(input.value) == nullptr) values.insert(input.value);
      }
      const bool is_read_outside = std::ranges::any_of(readers_of(member.output.value), [&](OpId reader) {
        return std::ranges::find(group.members, reader, &Member::op) == group.members.end();
      });
      if (is_read_outside || is_wanted(member.output.value)) values.insert(member.output.value);
    }
    return values.size();
  }
  std::span<const OpId> readers_of(ValueId value) const { return readers_[value]; }
  bool is_wanted(ValueId value) const { return wanted_[value]; }

  const IsGenerated& is_generated_;
  const graph::IdLists readers_ = graph::readers(program_);
  const std::vector<bool> wanted_ = graph::wanted_at_end(program_);
  std::map<OpId, Group> nests_;  // of products
  std::map<OpId, bool> generated_;
  std::map<ValueId, ValueId> start_of_;  // of ends of states
  OpId last_ = kNone;
};

/// The most bytes of temporaries that are alive at once when the units run in this order. Ends of states count as lying
/// where the states do.
std::uint64_t peak_of(const Program& program, const std::vector<Unit>& units) {
  const std::vector<std::uint32_t> unit_of = units_of_ops(program, units);
  std::vector<std::uint32_t> last(program.values.size(), 0);
  std::vector<bool> is_outside(program.values.size(), false);
  for (OpId op = 0; op < program.ops.size(); ++op) {
    for (const auto& input : program.ops[op].inputs) {
      if (input.is_scalar() || program.values[input.value].producer == kNone) continue;
      last[input.value] = std::max(last[input.value], unit_of[op]);
      if (unit_of[program.values[input.value].producer] != unit_of[op]) is_outside[input.value] = true;
    }
  }
  for (const auto& output : program.outputs) {
    is_outside[output.operand.value] = true;
    last[output.operand.value] = static_cast<std::uint32_t>(units.size());
  }
  for (const auto& state : program.states) is_outside[state.end] = false;
  std::vector<std::int64_t> change(units.size() + 2, 0);
  for (ValueId value = 0; value < program.values.size(); ++value) {
    const OpId producer = program.values[value].producer;
    if (producer == kNone || !is_outside[value]) continue;
    if (program.ops[producer].kind == OpKind::kFill || program.ops[producer].kind == OpKind::kCoordinate) continue;
    const std::int64_t bytes = program.values[value].elements * size_bytes(program.values[value].dtype);
    change[unit_of[producer]] += bytes;
    change[std::min<std::size_t>(last[value] + std::size_t{1}, units.size() + 1)] -= bytes;
  }
  std::int64_t alive = 0, peak = 0;
  for (const std::int64_t bytes : change) {
    alive += bytes;
    peak = std::max(peak, alive);
  }
  return static_cast<std::uint64_t>(peak);
}

}  // namespace

bool takes_epilogue(const Program& program, OpId id) {
  const Op& op = program.ops[id];
  if (!is_product(op.kind)) return false;
  const graph::Operand& result = op.outputs[0];
  if (result.view.elements() == 0 || result.view.elements() != program.values[result.value].elements) return false;
  if (!is_floating(program.values[result.value].dtype)) return false;
  if (op.kind == OpKind::kConv2d) return fits_tiles(op, ConvResult::kForward);
  if (op.kind == OpKind::kConv2dBackwardInput) return fits_tiles(op, ConvResult::kInput);
  return op.kind == OpKind::kMatMul || fits_tiles(op, ConvResult::kWeight);
}

Group product_nest(const Program& program, OpId id) {
  const Op& op = program.ops[id];
  const graph::Operand& result = op.outputs[0];
  Member member{.op = id, .inputs = {}, .generators = {}, .output = {}, .order = {}};
  member.output = {.value = result.value,
                   .type = program.values[result.value].dtype,
                   .offset = result.view.offset,
                   .strides = result.view.strides};
  Group group;
  group.sizes = result.view.sizes;
  const auto count = [&](std::size_t d) {
    Access counter{.value = kNone, .type = DType::kI64, .strides = std::vector<std::int64_t>(group.sizes.size(), 0)};
    if (d < group.sizes.size()) counter.strides[d] = 1;
    member.inputs.push_back(std::move(counter));
  };
  if (op.kind == OpKind::kMatMul) {
    for (std::size_t d = 0; d < group.sizes.size(); ++d) count(d);
  } else {
    const std::size_t channels = channel_dimension(op.kind);
    const std::int64_t groups = op.attributes.groups, rows = group.sizes[channels] / groups;
    const auto at = static_cast<std::ptrdiff_t>(channels);
    group.sizes[channels] = rows;
    group.sizes.insert(group.sizes.begin() + at, groups);
    member.output.strides.insert(member.output.strides.begin() + at, member.output.strides[channels] * rows);
    count(channels);
    count(channels + 1);
  }
  member.generators.assign(member.inputs.size(), kNone);
  group.reduced.assign(group.sizes.size(), false);
  group.members.push_back(std::move(member));
  collapse_dimensions(group);
  return group;
}

bool runs_along_rows(const graph::View& result) {
  const std::size_t rank = result.sizes.size();
  const std::int64_t rows = result.sizes[rank - 2], columns = result.sizes[rank - 1];
  const bool lies_across = result.strides[rank - 1] != 1 && result.strides[rank - 2] == 1 && rows >= 16;
  return (columns < 16 && rows > columns) || lies_across;
}

std::vector<Unit> join_epilogues(const Program& program, std::vector<Unit> units, const IsGenerated& is_generated) {
  constexpr std::size_t kAny = SIZE_MAX;
  Epilogues all(program, units, is_generated);
  const std::size_t count = all.join(kAny, {});
  if (count == 0) return units;
  const std::uint64_t most = peak_of(program, units);
  std::vector<Unit> joined = all.in_order();
  if (peak_of(program, joined) <= most) return joined;
  // One by one, without those that make it more.
  std::set<OpId> without;
  std::vector<Unit> best = std::move(units);
  const std::vector<Unit> start = best;
  for (std::size_t made = 1; made <= count;) {
    Epilogues some(program, start, is_generated);
    if (some.join(made, without) < made) break;
    std::vector<Unit> tried = some.in_order();
    if (peak_of(program, tried) > most) {
      without.insert(some.last());
      continue;
    }
    best = std::move(tried);
    ++made;
  }
  return best;
}

Apart epilogue_apart(const Program& program, const std::vector<Unit>& units, const IsGenerated& is_generated,
                     OpId product, OpId group) {
  Epilogues epilogues(program, units, is_generated);
  const Apart apart = epilogues.apart(product, group);
  return apart == Apart::kNot ? Apart::kMemory : apart;
}

}  // namespace crucible::kernel
