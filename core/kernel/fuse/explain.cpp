// Fusion, asked again: see explain.hpp.
#include "core/kernel/fuse/explain.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "core/kernel/fuse/attention.hpp"
#include "core/kernel/fuse/epilogue.hpp"

namespace crucible::kernel {
namespace {

using graph::OpId;
using graph::ValueId;

std::uint64_t bytes_of(const graph::Value& value) {
  return static_cast<std::uint64_t>(value.elements) * size_bytes(value.dtype);
}

void add_inside(const graph::Program& program, const Schedule& schedule, const Step& step, Explanation& explanation) {
  for (const OpId op : step.ops) {
    for (const graph::Operand& output : program.ops[op].outputs) {
      if (schedule.materialized[output.value]) continue;
      std::uint64_t uses = 1;
      for (const OpId reader : step.ops) {
        uses += static_cast<std::uint64_t>(std::ranges::count_if(
            program.ops[reader].inputs,
            [&](const graph::Operand& input) { return !input.is_scalar() && input.value == output.value; }));
      }
      explanation.inside.push_back(output.value);
      explanation.bytes_saved += uses * bytes_of(program.values[output.value]);
    }
  }
}

/// What was not joined to an attention, with a library that takes what it takes in the schedule.
std::vector<NotFused> refused_attention(const graph::Program& program, const Schedule& schedule) {
  Options options;
  options.numerics = schedule.numerics;
  options.claims = [&](const LibraryCall& call) {
    return std::ranges::any_of(schedule.steps, [&](const Step& step) {
      const LibraryCall& other = step.library;
      return step.kind == StepKind::kLibrary && other.kind == call.kind && other.dtype == call.dtype &&
             other.keeps_f32 == call.keeps_f32 && std::ranges::equal(other.views, call.views) &&
             other.extra == call.extra && other.more == call.more;
    });
  };
  std::vector<Unit> units = make_units(program, true, schedule.numerics);
  return fuse_attention(program, units, options);
}

/// Of the first attention that the step does a part of.
NotCalled why_not_called(const graph::Program& program, const Step& step) {
  if (step.kind == StepKind::kLibrary && is_attention(step.library.kind)) return NotCalled::kNoAttention;
  for (const NamedAttention& named : named_attentions(program)) {
    const auto is_part = [&](OpId op) { return std::ranges::binary_search(named.body, op); };
    if (named.why != NotCalled::kNoAttention && std::ranges::any_of(step.ops, is_part)) return named.why;
  }
  return NotCalled::kNoAttention;
}

}  // namespace

Explanation explain(const graph::Program& program, const Schedule& schedule, std::uint32_t step) {
  Explanation explanation;
  const Step& asked = schedule.steps[step];
  if (asked.ops.empty()) return explanation;
  add_inside(program, schedule, asked, explanation);
  explanation.not_called = why_not_called(program, asked);
  explanation.launches_saved = asked.ops.size() - 1;
  std::vector<std::uint32_t> step_of(program.ops.size(), graph::kNone);
  for (std::uint32_t s = 0; s < schedule.steps.size(); ++s) {
    for (const OpId op : schedule.steps[s].ops) step_of[op] = s;
  }
  const std::vector<NotFused> refused = refused_attention(program, schedule);
  const auto is_generated = [&](OpId op) {
    return step_of[op] == graph::kNone || schedule.steps[step_of[op]].kind != StepKind::kLibrary;
  };
  std::vector<Unit> units;
  if (schedule.epilogues) units = join_epilogues(program, make_units(program, true, schedule.numerics), is_generated);
  std::map<std::uint32_t, Explanation::Beside>
      found;  // by step: of several reasons one that says more than that a product is a product
  for (const Neighbour& neighbour : neighbours(program, asked.ops, schedule.numerics)) {
    // A unit whose first op nothing wants is found by another one; one that nothing wants at all is no step.
    std::uint32_t other = graph::kNone;
    for (const OpId op : neighbour.ops) other = std::min(other, step_of[op]);
    if (other == graph::kNone || other == step) continue;
    Apart apart = neighbour.apart;
    for (const NotFused& pair : refused) {
      const std::uint32_t product = step_of[pair.product], group = step_of[pair.group];
      if (std::minmax(product, group) == std::minmax(step, other)) apart = pair.apart;
    }
    if (apart == Apart::kOwnKind && schedule.epilogues) {
      const bool is_ours = takes_epilogue(program, neighbour.own);
      apart = epilogue_apart(program, units, is_generated, is_ours ? neighbour.own : neighbour.ops.front(),
                             is_ours ? neighbour.ops.front() : neighbour.own);
    }
    const auto [entry, is_new] = found.try_emplace(other, Explanation::Beside{other, neighbour.value, apart});
    if (!is_new && (entry->second.apart == Apart::kOwnKind || entry->second.apart == Apart::kTaken))
      entry->second = {other, neighbour.value, apart};
  }
  for (const auto& [other, beside] : found) explanation.apart.push_back(beside);
  return explanation;
}

}  // namespace crucible::kernel
