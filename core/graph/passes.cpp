// Passes: see passes.hpp.
#include "core/graph/passes.hpp"

#include <array>
#include <bit>
#include <chrono>
#include <map>
#include <numeric>
#include <tuple>
#include <vector>

#include "core/base/progress.hpp"
#include "core/graph/meaning.hpp"
#include "core/graph/opaque.hpp"

namespace crucible::graph {
namespace {

template <class Visit>
void for_each_operand(Program& program, Visit visit) {
  for (Op& op : program.ops) {
    for (Operand& operand : op.inputs) visit(operand);
    for (Operand& operand : op.outputs) visit(operand);
  }
  for (Output& output : program.outputs) visit(output.operand);
  for_each_meant(program, visit);
}

/// Keeps the items whose flag is set; returns the new index of each old one (kNone where it is gone).
template <class Item>
std::vector<std::uint32_t> keep(std::vector<Item>& items, const std::vector<bool>& wanted) {
  std::vector<std::uint32_t> renamed(items.size(), kNone);
  std::size_t next = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!wanted[i]) continue;
    renamed[i] = static_cast<std::uint32_t>(next);
    if (next != i) items[next] = std::move(items[i]);
    ++next;
  }
  items.resize(next);
  if (items.capacity() > next + next / 4) items.shrink_to_fit();  // what is left stays as long as the program
  return renamed;
}

/// Ops that a state's end or an output depends on; `used` becomes the values that those ops, ends and outputs name.
std::vector<bool> live_ops(const Program& program, std::vector<bool>& used) {
  used.assign(program.values.size(), false);
  std::vector<bool> live(program.ops.size(), false);
  for (const State& state : program.states) {
    if (state.end != state.start) used[state.end] = used[state.start] = true;
  }
  for (const Output& output : program.outputs) used[output.operand.value] = true;
  for (std::size_t i = program.ops.size(); i-- > 0;) {
    const Op& op = program.ops[i];
    live[i] = has_effects(program, op);
    for (const Operand& out : op.outputs) live[i] = live[i] || used[out.value];
    if (!live[i]) continue;
    for (const Operand& out : op.outputs) used[out.value] = true;  // a live op's second result keeps its buffer
    for (const Operand& input : op.inputs) {
      if (!input.is_scalar()) used[input.value] = true;
    }
  }
  return live;
}

void renumber_values(Program& program, const std::vector<bool>& used, const std::vector<std::uint32_t>& new_op) {
  const auto value = keep(program.values, used);
  for (Value& v : program.values) {
    if (v.producer != kNone) v.producer = new_op[v.producer];
  }
  for_each_operand(program, [&](Operand& operand) {
    if (!operand.is_scalar()) operand.value = value[operand.value];
  });
  std::erase_if(program.states, [&](const State& s) { return value[s.start] == kNone; });
  std::erase_if(program.inputs, [&](const Input& i) { return value[i.value] == kNone; });
  std::erase_if(program.constants, [&](const Constant& c) { return value[c.value] == kNone; });
  for (State& state : program.states) {
    state.start = value[state.start];
    state.end = value[state.end];
  }
  for (Input& input : program.inputs) input.value = value[input.value];
  for (Constant& constant : program.constants) constant.value = value[constant.value];
}

/// Entries of opaque ops that are gone go too; equal ones become one.
void renumber_opaques(Program& program) {
  std::map<std::string, std::int64_t> first;
  std::vector<std::shared_ptr<const Opaque>> kept;
  for (Op& op : program.ops) {
    if (op.kind != OpKind::kOpaque) continue;
    const auto& entry = program.opaques[static_cast<std::size_t>(op.attributes.index)];
    const auto [found, is_new] = first.emplace(to_json(*entry), static_cast<std::int64_t>(kept.size()));
    if (is_new) kept.push_back(entry);
    op.attributes.index = found->second;
  }
  program.opaques = std::move(kept);
}

void renumber_slots_and_sources(Program& program) {
  std::vector<bool> slots(program.slots.size(), false), sources(program.sources.size(), false);
  for (const Op& op : program.ops) {
    if (op.source != kNone) sources[op.source] = true;
    for (const Operand& input : op.inputs) {
      if (input.is_scalar() && input.scalar.slot != kNone) slots[input.scalar.slot] = true;
    }
  }
  for (const Output& output : program.outputs) {
    for (const Bound& bound : output.bounds) {
      if (bound.source != kNone) sources[bound.source] = true;
    }
  }
  const auto new_slot = keep(program.slots, slots);
  const auto new_source = keep(program.sources, sources);
  for (Output& output : program.outputs) {
    for (Bound& bound : output.bounds) {
      if (bound.source != kNone) bound.source = new_source[bound.source];
    }
  }
  for (Op& op : program.ops) {
    if (op.source != kNone) op.source = new_source[op.source];
    for (Operand& input : op.inputs) {
      if (input.is_scalar() && input.scalar.slot != kNone) input.scalar.slot = new_slot[input.scalar.slot];
    }
  }
}

/// A pass that looks at the program alone and cannot fail.
template <void (*kRun)(Program&)>
Result<void> plain(Program& program, const PassContext&) {
  kRun(program);
  return {};
}

/// A pass that needs the bytes of constants and states, and does nothing without them.
template <Result<void> (*kRun)(Program&, const trace::BlobStore&)>
Result<void> with_bytes(Program& program, const PassContext& context) {
  return context.blobs == nullptr ? Result<void>{} : kRun(program, *context.blobs);
}

/// The same of a pass that counts on what states start with in each iteration, so on all that was recorded.
template <Result<void> (*kRun)(Program&, const trace::BlobStore&)>
Result<void> of_whole(Program& program, const PassContext& context) {
  return program.is_variant ? Result<void>() : with_bytes<kRun>(program, context);
}

Result<void> expand(Program& program, const PassContext& context) {
  expand_composites(program, context.keeps);
  return {};
}

constexpr std::array kPasses = {
    Pass{"expand_composites", "composites that the backend does not take become what they are made of", &expand},
    Pass{"inline_constants", "constants of one element become numbers", &with_bytes<inline_constants>, true},
    Pass{"number_kinds", "whole numbers in floating-point ops are floating-point", &plain<number_kinds>},
    Pass{"merge_slots", "slots that always agree become one", &plain<merge_slots>, true},
    Pass{"merge_counters", "step counters that always agree are read as one", &of_whole<merge_counters>, true},
    Pass{"follow_counters", "bias corrections are computed from the step counter", &of_whole<follow_counters>, true},
    Pass{"drop_identities", "x * 1, x / 1, x - 0 and copies of one layout become x", &plain<drop_identities>},
    Pass{"merge_generators", "equal fills and coordinates become one value", &plain<merge_generators>},
    Pass{"merge_equal", "ops that compute the same become one", &plain<merge_equal>},
    Pass{"split_reductions", "sums and maxima of large tensors are taken in parts", &plain<split_whole_reductions>},
    Pass{"eliminate_dead", "ops that reach no state and no output are removed", &plain<eliminate_dead>},
};

}  // namespace

void merge_generators(Program& program) {
  std::vector<bool> is_end(program.values.size(), false);
  for (const State& state : program.states) is_end[state.end] = true;
  using Key = std::tuple<int, int, std::int64_t, std::uint32_t, bool, std::uint64_t, std::int64_t,
                         std::vector<std::int64_t>, std::vector<std::int64_t>, std::vector<std::int64_t>>;
  std::map<Key, ValueId> first;
  std::vector<ValueId> renamed(program.values.size());
  std::iota(renamed.begin(), renamed.end(), 0u);
  for (const Op& op : program.ops) {
    const bool fill = op.kind == OpKind::kFill;
    if (!fill && op.kind != OpKind::kCoordinate) continue;
    const Operand& out = op.outputs[0];
    const Value& value = program.values[out.value];
    if (is_end[out.value]) continue;
    const Scalar scalar = fill ? op.inputs[0].scalar : Scalar{};
    // A fill is the same whatever its layout; a coordinate is not.
    const View view = fill ? View{} : out.view;
    const Key key{static_cast<int>(op.kind),
                  static_cast<int>(value.dtype),
                  value.elements,
                  scalar.slot,
                  scalar.is_integer,
                  std::bit_cast<std::uint64_t>(scalar.real),
                  scalar.integer,
                  op.attributes.dims,
                  view.sizes,
                  view.strides};
    renamed[out.value] = first.emplace(key, out.value).first->second;
  }
  for (Op& op : program.ops) {
    for (Operand& input : op.inputs) {
      if (!input.is_scalar()) input.value = renamed[input.value];
    }
  }
  for (Output& output : program.outputs) output.operand.value = renamed[output.operand.value];
  for_each_meant(program, [&](Operand& operand) { operand.value = renamed[operand.value]; });
}

void eliminate_dead(Program& program) {
  std::vector<bool> used;
  const auto live = live_ops(program, used);
  for (const State& state : program.states) used[state.start] = used[state.start] || program.is_variant;
  leave_meanings_to(program, used);
  const auto new_op = keep(program.ops, live);
  renumber_values(program, used, new_op);
  renumber_slots_and_sources(program);
  renumber_opaques(program);
  renumber_composites(program);
}

std::span<const Pass> passes() { return kPasses; }

Result<void> run_passes(Program& program, const PassContext& context,
                        const std::function<void(const Pass&, const Program&, std::uint64_t)>& after) {
  for (const Pass& pass : kPasses) {
    if (context.is_live && pass.counts_on_recording) continue;
    report_progress(pass.name, 0, 0);
    const auto begin = std::chrono::steady_clock::now();
    auto done = pass.run(program, context);
    const auto time = std::chrono::steady_clock::now() - begin;
    if (!done) return Error{done.error().code, "pass " + std::string(pass.name) + ": " + done.error().message};
    auto verified = verify(program);
    if (!verified) {
      return Error{ErrorCode::kInternal, "after pass " + std::string(pass.name) + ": " + verified.error().message};
    }
    if (after) after(pass, program, static_cast<std::uint64_t>(std::chrono::nanoseconds(time).count()));
  }
  report_progress("", 0, 0);
  return {};
}

}  // namespace crucible::graph
