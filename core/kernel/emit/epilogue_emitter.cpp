// Index maps, values and stores of an epilogue: see epilogue_emitter.hpp.
#include "core/kernel/emit/epilogue_emitter.hpp"

#include <algorithm>
#include <utility>

#include "core/kernel/emit/group_plan.hpp"

namespace crucible::kernel {

using graph::ValueId;

EpilogueEmitter::EpilogueEmitter(const graph::Program& program, const Epilogue& epilogue, graph::OpId product,
                                 IrBuilder& builder, Binder& binder)
    : program_(program), group_(epilogue.group), stored_(epilogue.stored), b_(builder), binder_(binder) {
  product_ = &*std::ranges::find(group_.members, product, &Member::op);
  for (const Access& counter : product_->inputs) {
    std::int64_t extent = 1;
    for (std::size_t d = 0; d < group_.sizes.size(); ++d) extent *= counter.strides[d] == 0 ? 1 : group_.sizes[d];
    extents_.push_back(extent);
  }
  for (const Member& member : group_.members) {
    for (const Access& input : member.inputs) {
      if (input.value != graph::kNone && group_.producer(input.value) == nullptr) binder_.buffer(input.value, false);
    }
  }
  for (const Member& member : group_.members) {
    if (stored_.contains(member.output.value)) binder_.buffer(member.output.value, true);
  }
}

void EpilogueEmitter::start_row(std::vector<ExprId> point, std::size_t along) {
  for (ExprId& coordinate : point) coordinate = b_.let(coordinate);
  reaches_.clear();
  const auto meet = [&](const Access& access) {
    const auto [entry, is_new] = reaches_.try_emplace({access.value, access.offset, access.strides});
    if (is_new) entry->second = reach_of(access, point, along);
  };
  for (const Member& member : group_.members) {
    if (stored_.contains(member.output.value)) meet(member.output);
    if (&member == product_) continue;
    for (const Access& input : member.inputs) {
      if (group_.producer(input.value) == nullptr) meet(input);
    }
  }
}

bool EpilogueEmitter::cuts_lanes(std::size_t along) const {
  std::size_t pieces = 0;
  for (std::size_t d = 0; d < group_.sizes.size(); ++d)
    pieces += product_->inputs[along].strides[d] != 0 && group_.sizes[d] > 1 ? 1 : 0;
  return pieces > 1;
}

EpilogueEmitter::Reach EpilogueEmitter::reach_of(const Access& access, const std::vector<ExprId>& point,
                                                 std::size_t along) {
  Reach reach;
  ExprId base = b_.integer(access.offset);
  for (std::size_t d = 0; d < group_.sizes.size(); ++d) {
    if (access.strides[d] == 0 || group_.sizes[d] == 1) continue;  // so is all of a scalar's
    std::int64_t stride = 0;
    const ExprId index = index_of(d, point, along, &stride, &reach.may_leave);
    if (index == kNoId) {  // lanes run through it: it lies where the result does
      reach.is_beside = true;
      reach.base = b_.integer(access.offset - product_->output.offset);
      const std::int64_t elements = access.value == graph::kNone ? 0 : program_.values[access.value].elements;
      reach.may_leave =
          access.offset != product_->output.offset || elements < program_.values[product_->output.value].elements;
      return reach;
    }
    base = b_.add(base, b_.multiply(index, access.strides[d]));
    reach.stride += stride * access.strides[d];
  }
  reach.base = b_.let(base);
  return reach;
}

ExprId EpilogueEmitter::index_of(std::size_t d, const std::vector<ExprId>& point, std::size_t along,
                                 std::int64_t* stride, bool* may_leave) {
  for (std::size_t c = 0; c < extents_.size(); ++c) {
    const std::int64_t weight = product_->inputs[c].strides[d];
    if (weight == 0) continue;
    ExprId index = point[c];
    if (weight != 1) index = b_.let(b_.binary(Operation::kDivide, index, b_.integer(weight)));
    if (weight * group_.sizes[d] != extents_[c]) {
      index = b_.let(b_.binary(Operation::kRemainder, index, b_.integer(group_.sizes[d])));
      *may_leave |= c == along && weight == 1;
    }
    if (c == along && weight == 1) *stride = 1;
    return index;
  }
  return kNoId;
}

ExprId EpilogueEmitter::place_of(const Access& access) {
  const Reach& reach = reaches_.at({access.value, access.offset, access.strides});
  const ExprId at = reach.is_beside ? b_.add(place_, reach.base) : b_.add(reach.base, b_.multiply(lane_, reach.stride));
  if (!reach.may_leave) return at;
  std::int64_t most = 0;
  if (access.value != graph::kNone) {
    most = program_.values[access.value].elements - 1;
  } else {
    most = access.offset;
    for (std::size_t d = 0; d < group_.sizes.size(); ++d)
      most += std::max<std::int64_t>(access.strides[d], 0) * (group_.sizes[d] - 1);
  }
  return b_.let(b_.assume(b_.let(at), 0, most));
}

ExprId EpilogueEmitter::value_of(const Access& access) {
  if (const Member* writer = group_.producer(access.value)) {
    const auto found = known_.find(access.value);
    return found != known_.end() ? found->second : compute(*writer);
  }
  const auto [entry, is_new] = loads_.try_emplace({access.value, access.offset, access.strides}, kNoId);
  if (is_new) entry->second = load_value(b_, binder_.buffer(access.value, false), place_of(access), b_.depth());
  return entry->second;
}

ExprId EpilogueEmitter::compute(const Member& member) {
  const PointValues values{.value = [&](const Access& access) { return value_of(access); },
                           .index = [&](const Access& access) { return place_of(access); }};
  std::vector<ExprId> inputs;
  for (std::size_t i = 0; i < member.inputs.size(); ++i)
    inputs.push_back(member_input(program_, binder_, b_, member, i, values));
  const ExprId result =
      b_.let(emit_elementwise(b_, program_.ops[member.op].kind, program_.values[member.output.value].dtype, inputs));
  known_[member.output.value] = result;
  return result;
}

void EpilogueEmitter::put(ExprId sum, ExprId lane, ExprId place) {
  known_.clear();
  loads_.clear();
  lane_ = lane;
  place_ = place;
  known_[product_->output.value] = b_.let(rounded_to(b_, sum, program_.values[product_->output.value].dtype));
  struct Store {
    BufferId buffer;
    ExprId index, value;
  };
  std::vector<Store> stores;  // behind all reads: a result may lie where an operand does
  for (const Member& member : group_.members) {
    const ValueId value = member.output.value;
    if (!stored_.contains(value)) continue;
    const ExprId result = value_of(member.output);
    stores.push_back(
        {binder_.buffer(value, true), place_of(member.output), storable(b_, result, program_.values[value].dtype)});
  }
  for (const Store& store : stores) b_.store(store.buffer, store.index, store.value);
}

void EpilogueEmitter::expect(ExprId lane, ExprId place) {
  lane_ = lane;
  place_ = place;
  for (const auto& [key, reach] : reaches_) {
    const auto& [value, offset, strides] = key;
    if (value == graph::kNone || (!reach.is_beside && reach.stride != 1)) continue;
    if (group_.producer(value) == nullptr) continue;
    b_.prefetch(binder_.buffer(value, false),
                place_of({.value = value, .type = DType::kF32, .offset = offset, .strides = strides}));
  }
}

std::vector<AliasPair> EpilogueEmitter::alias_pairs() const {
  std::vector<AliasPair> pairs;
  const auto& operands = program_.ops[product_->op].inputs;
  for (const Member& writer : group_.members) {
    if (!stored_.contains(writer.output.value)) continue;
    for (const ValueId operand : binder_.values()) {
      if (group_.producer(operand) != nullptr ||
          std::ranges::any_of(operands, [&](const auto& input) { return input.value == operand; }))
        continue;
      if (size_bytes(program_.values[operand].dtype) != size_bytes(writer.output.type)) continue;
      if (program_.values[operand].elements != program_.values[writer.output.value].elements) continue;
      Access moved = writer.output;
      moved.value = operand;
      const bool is_safe = std::ranges::all_of(group_.members, [&](const Member& reader) {
        return std::ranges::all_of(reader.inputs, [&](const Access& read) {
          return read.value != operand || same_access(read, moved, group_.sizes);
        });
      });
      if (is_safe) pairs.push_back({operand, writer.output.value});
    }
  }
  return pairs;
}

void EpilogueEmitter::finish(Emitted& emitted) {
  constexpr double kLanes = 16, kGigahertz = 3;
  emitted.aliases = alias_pairs();
  for (const AliasPair& pair : emitted.aliases) {
    b_.ir().buffers[binder_.buffer(pair.operand, false)].may_alias = true;
    b_.ir().buffers[binder_.buffer(pair.result, true)].may_alias = true;
  }
  const auto elements = static_cast<double>(group_.elements());
  double vector_cycles = 0;
  for (const Member& member : group_.members) {
    if (&member == product_) continue;
    vector_cycles += cycles(program_.ops[member.op].kind) * elements / kLanes;
    emitted.flops += static_cast<std::uint64_t>(group_.elements());
  }
  emitted.item_ns += vector_cycles / kGigahertz / static_cast<double>(std::max<std::int64_t>(1, emitted.grid));
}

}  // namespace crucible::kernel
