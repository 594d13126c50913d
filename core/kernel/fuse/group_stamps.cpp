// Groups and questions as words: see group_stamps.hpp.
#include "core/kernel/fuse/group_stamps.hpp"

#include <utility>

#include "core/kernel/fuse/group_words.hpp"

namespace crucible::kernel {
namespace {

using graph::kNone;
using graph::OpId;
using graph::Program;
using graph::ValueId;

/// What fusion asks of a value beyond the accesses to it.
void write_value(WordWriter& write, const Program& program, ValueId value) {
  const graph::Value& it = program.values[value];
  std::uint64_t maker = 0;  // from outside
  if (it.producer != kNone) {
    const graph::Op& op = program.ops[it.producer];
    maker = op.kind == graph::OpKind::kMatMul && op.outputs[0].view.sizes.size() >= 3 ? 2 : 1;
  }
  write.pair(static_cast<std::uint64_t>(it.dtype), maker);
  write.number(static_cast<std::uint64_t>(it.elements));
}

/// Whose op comes next when the ops of both are in order: how many of the first, of the second, and so on.
void write_turns(WordWriter& write, std::span<const OpId> a, std::span<const OpId> b) {
  if (a.back() < b.front() || b.back() < a.front()) return write.number(a.back() < b.front());
  write.number(2);
  bool is_of_b = false;
  std::uint64_t run = 0;
  for (std::size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    const bool takes_b = i == a.size() || (j < b.size() && b[j] < a[i]);
    if (takes_b != is_of_b) {
      write.number(run);
      is_of_b = takes_b;
      run = 0;
    }
    ++run;
    ++(takes_b ? j : i);
  }
  write.number(run);
}

}  // namespace

GroupStamp GroupStamps::describe(const Program& program, const Group& group) {
  words_.clear();
  WordWriter write(words_);
  write_group(write, group, numbering_);
  for (const ValueId value : numbering_.met()) write_value(write, program, value);
  GroupStamp stamp{.values = numbering_.met()};
  const auto [entry, is_new] = content_of_.try_emplace(words_, static_cast<std::uint32_t>(contents_.size()));
  stamp.content = entry->second;
  if (is_new) {
    Group content = group;
    for (std::size_t m = 0; m < content.members.size(); ++m) {
      Member& member = content.members[m];
      member.op = static_cast<OpId>(m);
      for (Access& input : member.inputs) input.value = input.value == kNone ? kNone : numbering_.find(input.value);
      for (OpId& generator : member.generators) generator = generator == kNone ? kNone : 0;
      member.output.value = numbering_.find(member.output.value);
    }
    contents_.push_back(std::move(content));
  }
  numbering_.clear();
  return stamp;
}

Group GroupStamps::group(const Program& program, std::uint32_t content, std::span<const OpId> ops) const {
  Group named = contents_[content];
  for (std::size_t m = 0; m < named.members.size(); ++m) {
    Member& member = named.members[m];
    const graph::Op& op = program.ops[ops[m]];
    member.op = ops[m];
    for (std::size_t i = 0; i < member.inputs.size(); ++i) {
      if (member.inputs[i].value != kNone) member.inputs[i].value = op.inputs[i].value;
    }
    for (std::size_t i = 0; i < member.generators.size(); ++i) {
      if (member.generators[i] != kNone) member.generators[i] = program.values[op.inputs[i].value].producer;
    }
    member.output.value = op.outputs[0].value;
  }
  return named;
}

const StampedJoint* GroupStamps::find(const StampPair& pair) {
  ++asked_;
  words_.clear();
  WordWriter write(words_);
  write.pair(pair.a.content, pair.b.content);
  write_turns(write, pair.ops_a, pair.ops_b);
  for (const ValueId value : pair.a.values) numbering_.of(value);
  for (std::size_t j = 0; j < pair.b.values.size(); ++j) {
    const std::uint32_t i = numbering_.find(pair.b.values[j]);
    if (i != Numbering::kNoPlace) write.pair(i, j);
  }
  numbering_.clear();
  if (!reuse_) return nullptr;
  const auto found = joints_.find(words_);
  return found == joints_.end() ? nullptr : &found->second;
}

const StampedJoint& GroupStamps::keep(const Program& program, const StampPair& pair, Apart apart, const Group* joined) {
  ++decided_;
  Words question = std::move(words_);
  StampedJoint joint{.apart = apart};
  if (joined != nullptr) {
    const GroupStamp stamp = describe(program, *joined);
    joint.content = stamp.content;
    for (const ValueId value : pair.a.values) numbering_.of(value);
    const auto first = static_cast<std::uint32_t>(pair.a.values.size());
    std::uint32_t met = first;
    std::vector<std::uint32_t> place_of(first);  // the values of both, each once -> their places
    for (std::uint32_t i = 0; i < first; ++i) place_of[i] = i;
    for (std::uint32_t j = 0; j < pair.b.values.size(); ++j) {
      if (numbering_.of(pair.b.values[j]) != met) continue;
      place_of.push_back(first + j);
      ++met;
    }
    for (const ValueId value : stamp.values) joint.values.push_back(place_of[numbering_.find(value)]);
    numbering_.clear();
  }
  return joints_.insert_or_assign(std::move(question), std::move(joint)).first->second;
}

std::vector<ValueId> GroupStamps::values_of(const StampedJoint& joint, const StampPair& pair) {
  std::vector<ValueId> values;
  values.reserve(joint.values.size());
  for (const std::uint32_t place : joint.values) {
    values.push_back(place < pair.a.values.size() ? pair.a.values[place] : pair.b.values[place - pair.a.values.size()]);
  }
  return values;
}

}  // namespace crucible::kernel
