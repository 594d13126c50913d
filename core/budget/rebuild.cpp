// New numbers for ops and values, in the order of the line. See rebuild.hpp.
#include "core/budget/rebuild.hpp"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "core/kernel/fuse/in_place.hpp"

namespace crucible::budget {
namespace {

using graph::Op;
using graph::OpId;
using graph::ValueId;

class Rebuilder {
 public:
  Rebuilder(const Line& line, const graph::Program& old, const kernel::Schedule& schedule)
      : line_(line),
        old_(old),
        old_schedule_(schedule),
        new_op_(old.ops.size(), kNone),
        value_of_(line.tensors.size(), kNone),
        is_in_step_(old.ops.size(), false) {}

  Result<Rebuilt> run() {
    out_.program = old_;
    out_.program.ops.clear();
    out_.schedule.kernels = old_schedule_.kernels;
    for (TensorId id = 0; id < old_.values.size(); ++id) value_of_[id] = id;
    for (const kernel::Step& step : old_schedule_.steps) {
      for (const OpId op : step.ops) is_in_step_[op] = true;
    }
    for (const NodeId id : line_.order) CRUCIBLE_TRY_VOID(add_node(line_.nodes[id]));
    // What no step does: nothing needs it, or it is computed where it is read.
    for (OpId op = 0; op < old_.ops.size(); ++op) {
      if (!is_in_step_[op] && new_op_[op] == kNone) add_op(op, {});
    }
    finish();
    return std::move(out_);
  }

 private:
  using Names = std::map<ValueId, ValueId>;  // of the old program to the new one; what is missing keeps its number

  Result<void> add_node(const Node& node) {
    if (node.kind == NodeKind::kTransfer) return add_transfer(node);
    kernel::Step step = old_schedule_.steps[node.step];
    Names names;
    if (node.is_repeat) name_results(step, names);
    for (std::size_t i = 0; i < step.buffers.size(); ++i) {
      const TensorId tensor = node.arguments[i].tensor;
      // A repeated value is the buffer that the node writes; a reader takes the one that it was given.
      if (node.arguments[i].written && node.is_repeat) value_of_[tensor] = names.at(step.buffers[i].value);
      if (value_of_[tensor] == kNone) {
        return Error{ErrorCode::kInternal, fmt::format("budget: a step reads value {} before it is computed again",
                                                       line_.tensors[tensor].value)};
      }
      names[step.buffers[i].value] = value_of_[tensor];
      step.buffers[i].value = value_of_[tensor];
    }
    for (OpId& op : step.ops) {
      define_operands(op, names);
      op = add_op(op, names);
    }
    for (const Alias& alias : node.aliases) {
      out_.schedule.aliases.push_back(
          {static_cast<std::uint32_t>(out_.schedule.steps.size()), value_of_[alias.operand], value_of_[alias.result]});
    }
    out_.schedule.steps.push_back(std::move(step));
    out_.step_of.push_back(node.step);
    out_.is_repeat.push_back(node.is_repeat);
    return {};
  }

  /// A copy of the whole value, of which one is on the host.
  Result<void> add_transfer(const Node& node) {
    const ValueId from = value_of_[node.arguments[0].tensor];
    if (from == kNone) return Error{ErrorCode::kInternal, "budget: a transfer reads a value before it is there"};
    graph::Program& program = out_.program;
    const auto to = static_cast<ValueId>(program.values.size());
    const auto id = static_cast<OpId>(program.ops.size());
    graph::Value value = program.values[from];
    value.kind = graph::ValueKind::kTemporary;
    value.producer = id;
    program.values.push_back(value);
    value_of_[node.arguments[1].tensor] = to;
    const graph::View whole = graph::View::contiguous({value.elements});
    Op copy;
    copy.inputs.push_back({from, whole, {}});
    copy.outputs.push_back({to, whole, {}});
    program.ops.push_back(std::move(copy));
    kernel::Step step;
    step.kind = kernel::StepKind::kTransfer;
    step.buffers = {{from, false}, {to, true}};
    step.bytes = 2 * static_cast<std::uint64_t>(value.elements) * size_bytes(value.dtype);
    step.ops = {id};
    out_.schedule.steps.push_back(std::move(step));
    out_.step_of.push_back(kNone);
    out_.is_repeat.push_back(false);
    return {};
  }

  /// Every result of the step's ops gets a value of its own, those that stay within the kernel too.
  void name_results(const kernel::Step& step, Names& names) {
    for (const OpId op : step.ops) {
      for (const graph::Operand& output : old_.ops[op].outputs) {
        names[output.value] = static_cast<ValueId>(out_.program.values.size());
        out_.program.values.push_back(old_.values[output.value]);
      }
    }
  }

  OpId add_op(OpId id, const Names& names) {
    Op op = old_.ops[id];
    const auto rename = [&](graph::Operand& operand) {
      if (operand.is_scalar()) return;
      if (const auto found = names.find(operand.value); found != names.end()) operand.value = found->second;
    };
    for (graph::Operand& input : op.inputs) rename(input);
    const auto number = static_cast<OpId>(out_.program.ops.size());
    for (graph::Operand& output : op.outputs) {
      rename(output);
      out_.program.values[output.value].producer = number;
    }
    if (new_op_[id] == kNone) new_op_[id] = number;
    out_.program.ops.push_back(std::move(op));
    return number;
  }

  /// Operands that are not in the step's buffers and that no op before this one makes: the kernel computes them for
  /// itself (fills and coordinates), or a library's call sees through them (masks and casts). Where another step makes
  /// them as well, for readers of its own, that step may come later in this order: then the program has them twice,
  /// once for each.
  void define_operands(OpId id, Names& names) {
    for (const graph::Operand& input : old_.ops[id].inputs) {
      if (input.is_scalar() || names.contains(input.value)) continue;
      const OpId producer = old_.values[input.value].producer;
      if (producer == kNone || new_op_[producer] != kNone) continue;
      if (!is_in_step_[producer]) {
        define_operands(producer, names);
        add_op(producer, names);
        continue;
      }
      if (const auto found = made_early_.find(input.value); found != made_early_.end()) {
        names[input.value] = found->second;
        continue;
      }
      add_copy(producer, names);
      if (old_.ops[producer].inputs.empty() || old_.ops[producer].inputs[0].is_scalar())
        made_early_[input.value] = names.at(input.value);
    }
  }

  /// The op once more, with results of its own under which the step knows them.
  void add_copy(OpId id, Names& names) {
    define_operands(id, names);
    for (const graph::Operand& output : old_.ops[id].outputs) {
      names[output.value] = static_cast<ValueId>(out_.program.values.size());
      out_.program.values.push_back(old_.values[output.value]);
    }
    add_op(id, names);
    new_op_[id] = kNone;  // the one that the other step does is still to come
  }

  void finish() {
    graph::Program& program = out_.program;
    kernel::Schedule& schedule = out_.schedule;
    schedule.is_on_host.assign(program.values.size(), false);
    for (TensorId id = 0; id < line_.tensors.size(); ++id) {
      if (line_.tensors[id].is_on_host && value_of_[id] != kNone) schedule.is_on_host[value_of_[id]] = true;
    }
    for (TensorId id = 0; id < line_.tensors.size(); ++id) {
      const Tensor& tensor = line_.tensors[id];
      if (!tensor.is_on_host || tensor.home == kNone) continue;
      for (graph::State& state : program.states) {  // what comes back to the host is the end now
        if (state.start == tensor.home) state.end = value_of_[id];
      }
    }
    schedule.in_place = kernel::choose_in_place(program, schedule.steps, schedule.aliases);
    schedule.materialized.assign(program.values.size(), false);
    for (const kernel::Step& step : schedule.steps) {
      for (const kernel::BufferArgument& argument : step.buffers) schedule.materialized[argument.value] = true;
    }
    for (const graph::State& state : program.states) {
      schedule.materialized[state.start] = true;
      schedule.materialized[state.end] = true;
    }
  }

  const Line& line_;
  const graph::Program& old_;
  const kernel::Schedule& old_schedule_;
  std::vector<OpId> new_op_;        // per op of the old program: the first of the new one that does it
  std::vector<ValueId> value_of_;   // per tensor, in the new program
  std::vector<bool> is_in_step_;    // per op of the old program
  Names made_early_;                // results of copies that read nothing: any step may read them
  Rebuilt out_;
};

}  // namespace

Result<Rebuilt> rebuild(const Line& line, const graph::Program& program, const kernel::Schedule& schedule) {
  return Rebuilder(line, program, schedule).run();
}

}  // namespace crucible::budget
