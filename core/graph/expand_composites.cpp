// The pass expand_composites: bodies take the place of the composite ops that a backend declines. See composite.hpp.
#include <algorithm>
#include <utility>
#include <vector>

#include "core/graph/composite.hpp"
#include "core/graph/meaning.hpp"

namespace crucible::graph {
namespace {

/// A value of a body that no result is, and where it stands among the values around it.
struct Inner {
  std::uint64_t place;  // 3 v + 1 is the place of the old value v; 3 v is before it, 3 v + 2 behind it
  std::uint32_t op;     // index in Expansion::ops_
  std::uint32_t value;  // in the body
};

class Expansion {
 public:
  Expansion(Program& program, const KeepsComposite& keeps) : program_(program) {
    is_expanded_.assign(program.ops.size(), false);
    for (OpId id = 0; id < program.ops.size(); ++id) {
      const Op& op = program.ops[id];
      if (op.kind != OpKind::kComposite || (keeps && keeps(composite_of(program, op), op))) continue;
      is_expanded_[id] = true;
      ops_.push_back(id);
    }
  }

  void run() {
    if (ops_.empty()) return;
    for (const OpId id : ops_) {
      if (is_scheduled_by_name(composite_of(program_, program_.ops[id]).name)) add_meaning(program_, program_.ops[id]);
    }
    place_values();
    write_ops();
    for (State& state : program_.states) {
      state.start = renamed_[state.start];
      state.end = renamed_[state.end];
    }
    for (Input& input : program_.inputs) input.value = renamed_[input.value];
    for (Constant& constant : program_.constants) constant.value = renamed_[constant.value];
    for (Output& output : program_.outputs) output.operand.value = renamed_[output.operand.value];
    for_each_meant(program_, [&](Operand& operand) { operand.value = renamed_[operand.value]; });
    renumber_composites(program_);
  }

 private:
  const Program& body_of(std::size_t expanded) const {
    return composite_of(program_, program_.ops[ops_[expanded]]).body;
  }

  /// The old values that the body's inputs and outputs are, kNone for the others.
  void outer_values(std::size_t expanded, std::vector<ValueId>& outer) const {
    const Op& op = program_.ops[ops_[expanded]];
    const Program& body = body_of(expanded);
    outer.assign(body.values.size(), kNone);
    std::size_t tensor = 0;
    for (const Operand& input : op.inputs) {
      if (!input.is_scalar()) outer[body.inputs[tensor++].value] = input.value;
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) outer[body.outputs[i].operand.value] = op.outputs[i].value;
  }

  /// An inner value stands before the next value of the body that is an old one, or behind the one before it where
  /// there is no next.
  void add_inner(std::size_t expanded, const std::vector<ValueId>& outer) {
    std::uint64_t behind = 0;
    std::size_t waiting = inner_.size();
    for (ValueId v = 0; v < outer.size(); ++v) {
      if (outer[v] == kNone) {
        inner_.push_back({0, static_cast<std::uint32_t>(expanded), v});
        continue;
      }
      behind = std::uint64_t{3} * outer[v];
      for (; waiting < inner_.size(); ++waiting) inner_[waiting].place = behind;
    }
    for (; waiting < inner_.size(); ++waiting) inner_[waiting].place = behind + 2;
  }

  void place_values() {
    std::vector<ValueId> outer;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      begins_.push_back(locals_.size());
      outer_values(i, outer);
      add_inner(i, outer);
      locals_.insert(locals_.end(), outer.begin(), outer.end());
    }
    const auto by_place = [](const Inner& a, const Inner& b) { return a.place < b.place; };
    if (!std::ranges::is_sorted(inner_, by_place)) std::ranges::stable_sort(inner_, by_place);
    // First the numbers, then the values from the last one on: each moves to its own place or behind it.
    renamed_.resize(program_.values.size());
    std::vector<ValueId> inner_ids(inner_.size());
    ValueId count = 0;
    std::size_t next = 0;
    for (ValueId v = 0; v < renamed_.size(); ++v) {
      for (; next < inner_.size() && inner_[next].place <= std::uint64_t{3} * v; ++next) inner_ids[next] = count++;
      renamed_[v] = count++;
    }
    for (; next < inner_.size(); ++next) inner_ids[next] = count++;
    program_.values.resize(count);
    for (ValueId v = static_cast<ValueId>(renamed_.size()); v-- > 0 && renamed_[v] != v;)
      program_.values[renamed_[v]] = std::move(program_.values[v]);
    for (std::size_t i = 0; i < inner_.size(); ++i)
      program_.values[inner_ids[i]] = body_of(inner_[i].op).values[inner_[i].value];
    for (ValueId& local : locals_) local = local == kNone ? kNone : renamed_[local];
    for (std::size_t i = 0; i < inner_.size(); ++i) locals_[begins_[inner_[i].op] + inner_[i].value] = inner_ids[i];
  }

  /// From the last op on, too.
  void write_ops() {
    const auto old_count = static_cast<OpId>(program_.ops.size());
    std::size_t end = old_count, expanded = ops_.size();
    for (std::size_t i = 0; i < ops_.size(); ++i) end += body_of(i).ops.size() - 1;
    program_.ops.resize(end);
    for (OpId id = old_count; id-- > 0;) {
      if (is_expanded_[id]) {
        const Op composite = std::move(program_.ops[id]);
        const Program& body = composite_of(program_, composite).body;
        end -= body.ops.size();
        write_body(composite, body, locals_.data() + begins_[--expanded], end);
        continue;
      }
      Op& op = program_.ops[--end];
      if (end != id) op = std::move(program_.ops[id]);
      for (Operand& input : op.inputs) {
        if (!input.is_scalar()) input.value = renamed_[input.value];
      }
      for (Operand& output : op.outputs) {
        output.value = renamed_[output.value];
        program_.values[output.value].producer = static_cast<OpId>(end);
      }
    }
  }

  /// `local`: the program's value for each of the body.
  void write_body(const Op& composite, const Program& body, const ValueId* local, std::size_t at) {
    slots_.clear();
    for (const Operand& input : composite.inputs) {
      if (input.is_scalar()) slots_.push_back(input.scalar.slot);
    }
    for (const Op& inner : body.ops) {
      Op& op = program_.ops[at];
      op = inner;
      op.source = composite.source;
      for (Operand& input : op.inputs) {
        if (!input.is_scalar()) {
          input.value = local[input.value];
        } else if (input.scalar.slot != kNone) {
          input.scalar.slot = slots_[input.scalar.slot];
        }
      }
      for (Operand& output : op.outputs) {
        output.value = local[output.value];
        program_.values[output.value].producer = static_cast<OpId>(at);
      }
      ++at;
    }
  }

  Program& program_;
  std::vector<bool> is_expanded_;  // per op
  std::vector<OpId> ops_;          // those
  std::vector<Inner> inner_;
  std::vector<std::size_t> begins_;  // per expanded op: where its values begin in locals_
  std::vector<ValueId> locals_;      // per value of its body: the new value
  std::vector<ValueId> renamed_;     // per old value: the new one
  std::vector<SlotId> slots_;        // per slot of a body: the program's
};

}  // namespace

void expand_composites(Program& program, const KeepsComposite& keeps) { Expansion(program, keeps).run(); }

}  // namespace crucible::graph
