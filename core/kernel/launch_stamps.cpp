// Units as words: see launch_stamps.hpp.
#include "core/kernel/launch_stamps.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "core/kernel/fuse/group_words.hpp"

namespace crucible::kernel {
namespace {

using graph::kNone;
using graph::OpId;
using graph::OpKind;
using graph::Program;
using graph::ValueId;

void write_view(WordWriter& write, const graph::View& view) {
  write.number(static_cast<std::uint64_t>(view.offset));
  write.numbers(view.sizes);
  write.numbers(view.strides);
}

void write_attributes(WordWriter& write, const graph::Attributes& attributes) {
  const auto number = [&](std::int64_t value) { write.number(static_cast<std::uint64_t>(value)); };
  write.numbers(attributes.dims);
  number(attributes.index);
  write.number(std::bit_cast<std::uint64_t>(attributes.alpha));
  write_view(write, attributes.region);
  for (const auto* pair : {attributes.kernel, attributes.stride, attributes.padding, attributes.dilation}) {
    number(pair[0]);
    number(pair[1]);
  }
  number(attributes.groups);
  number(attributes.pieces);
}

}  // namespace

bool LaunchStamps::can_stamp(const Program& program, const Unit& unit) {
  // A library's call is no launch. A pooling's gradient looks at the pooling that its places come from, and what is
  // opaque at the program's list of such.
  return unit.library_attention == kNone && std::ranges::none_of(unit.ops, [&](OpId op) {
           const OpKind kind = program.ops[op].kind;
           return kind == OpKind::kMaxPool2dBackward || kind == OpKind::kOpaque || kind == OpKind::kComposite;
         });
}

std::uint32_t LaunchStamps::slot(const graph::Scalar& scalar) {
  const auto known = std::ranges::find(names_.slots, scalar);
  const auto place = static_cast<std::uint32_t>(known - names_.slots.begin());
  if (known == names_.slots.end()) names_.slots.push_back(scalar);
  return place;
}

void LaunchStamps::write_op(WordWriter& write, const graph::Op& op) {
  write.pair(static_cast<std::uint64_t>(op.kind), op.inputs.size());
  for (const graph::Operand& input : op.inputs) {
    if (!input.is_scalar()) {
      write.pair(0, values_.of(input.value));
      write_view(write, input.view);
    } else if (input.scalar.slot != kNone) {
      write.pair(1, slot(input.scalar));
      write.number(input.scalar.is_integer);
    } else {
      write.pair(2, input.scalar.is_integer);
      write.number(std::bit_cast<std::uint64_t>(input.scalar.real));
      write.number(static_cast<std::uint64_t>(input.scalar.integer));
    }
  }
  write.number(op.outputs.size());
  for (const graph::Operand& output : op.outputs) {
    write.number(values_.of(output.value));
    write_view(write, output.view);
  }
  write_attributes(write, op.attributes);
}

const StampedLaunch* LaunchStamps::find(const Program& program, const Unit& unit, const std::vector<ValueId>& stored,
                                        Numerics numerics, const DeviceShape& device) {
  ++asked_;
  words_.clear();
  names_.slots.clear();
  WordWriter write(words_);
  write.pair(static_cast<std::uint64_t>(numerics), static_cast<std::uint64_t>(device.workers));
  write.number(static_cast<std::uint64_t>(device.register_bytes));
  write.pair(static_cast<std::uint64_t>(device.lanes), device.cut);
  const auto write_ops = [&](const std::vector<OpId>& ops) {
    write.number(ops.size());
    for (const OpId op : ops) write.number(ops_.of(op));
  };
  write_ops(unit.ops);
  write_ops(unit.inner);
  write_ops(unit.outer);
  write.number(unit.anchor == kNone ? kNone : ops_.of(unit.anchor));
  write_group(write, unit.group, values_);
  for (const Member& member : unit.group.members) {
    write.number(ops_.of(member.op));
    for (const OpId generator : member.generators) write.number(generator == kNone ? kNone : ops_.of(generator));
  }
  // All ops that are named, those outside of the unit, too: fills and coordinates that are computed in place.
  for (const OpId op : ops_.met()) write_op(write, program.ops[op]);
  write.number(stored.size());
  for (const ValueId value : stored) write.number(values_.of(value));
  // The order of values' numbers decides which of several stands first.
  const std::vector<ValueId>& values = values_.met();
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, {}, [&](std::uint32_t place) { return values[place]; });
  for (const std::uint32_t place : order) {
    const graph::Value& value = program.values[values[place]];
    write.pair(place, static_cast<std::uint64_t>(value.dtype));
    write.number(static_cast<std::uint64_t>(value.elements));
  }
  names_.values = values;
  ops_.clear();
  values_.clear();
  if (!reuse_) return nullptr;
  const auto found = launches_.find(words_);
  return found == launches_.end() ? nullptr : &found->second;
}

void LaunchStamps::keep(StampedLaunch launch) {
  ++written_;
  launches_.insert_or_assign(std::move(words_), std::move(launch));
}

}  // namespace crucible::kernel
