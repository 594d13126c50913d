// Cutting a recording by its samples: see sample_traces.hpp.
#include "tests/opdb/sample_traces.hpp"

#include <charconv>
#include <map>
#include <set>
#include <string_view>

namespace crucible::opdb {
namespace {

/// K of "sample_K" and "sample_K.inner"; kNone for other modules.
std::uint32_t sample_of(std::string_view module) {
  constexpr std::string_view kPrefix = "sample_";
  if (!module.starts_with(kPrefix)) return trace::kNone;
  std::uint32_t number = trace::kNone;
  std::from_chars(module.data() + kPrefix.size(), module.data() + module.size(), number);
  return number;
}

/// Per op: its sample. Ops of the backward pass have no module; they belong to the sample whose forward pass came
/// before.
std::vector<std::uint32_t> sample_of_each_op(const trace::Trace& trace) {
  std::vector<std::uint32_t> numbers(trace.ops.size(), trace::kNone);
  for (const trace::Iteration& iteration : trace.iterations) {
    std::uint32_t current = trace::kNone;
    for (std::uint32_t at = iteration.first_op; at < iteration.first_op + iteration.op_count; ++at) {
      const trace::ModuleId module = trace.ops[at].module;
      const std::uint32_t named = module == trace::kNone ? trace::kNone : sample_of(trace.modules[module]);
      if (named != trace::kNone) current = named;
      numbers[at] = current;
    }
  }
  return numbers;
}

void collect_storages(const trace::Trace& trace, const std::vector<trace::Arg>& args,
                      std::set<trace::StorageId>& into) {
  for (const trace::Arg& arg : args) {
    if (arg.kind == trace::Arg::Kind::kTensor && trace.tensors[arg.tensor].storage != trace::kNone)
      into.insert(trace.tensors[arg.tensor].storage);
    collect_storages(trace, arg.list, into);
  }
}

/// The tables that ops refer to, without the ops and what hangs on them.
trace::Trace tables_of(const trace::Trace& whole) {
  trace::Trace part;
  part.metadata = whole.metadata;
  part.schemas = whole.schemas;
  part.sites = whole.sites;
  part.modules = whole.modules;
  part.storages = whole.storages;
  part.tensors = whole.tensors;
  part.compounds = whole.compounds;
  part.blobs = whole.blobs;
  part.blob_store = whole.blob_store;
  return part;
}

}  // namespace

std::vector<std::uint32_t> sample_numbers(const trace::Trace& whole) {
  const auto numbers = sample_of_each_op(whole);
  std::set<std::uint32_t> found(numbers.begin(), numbers.end());
  found.erase(trace::kNone);
  return {found.begin(), found.end()};
}

trace::Trace cut_sample(const trace::Trace& whole, std::uint32_t number) {
  const auto numbers = sample_of_each_op(whole);
  trace::Trace part = tables_of(whole);
  std::map<std::uint32_t, std::uint32_t> new_index;               // of the ops that stay
  std::map<std::pair<std::uint32_t, trace::StorageId>, std::uint32_t> first_use;  // by iteration
  for (std::uint32_t i = 0; i < whole.iterations.size(); ++i) {
    trace::Iteration iteration{static_cast<std::uint32_t>(part.ops.size()), 0, whole.iterations[i].complete, {}};
    const std::uint32_t begin = whole.iterations[i].first_op, end = begin + whole.iterations[i].op_count;
    for (std::uint32_t at = begin; at < end; ++at) {
      const trace::Op& op = whole.ops[at];
      if (numbers[at] != number) continue;
      const auto index = static_cast<std::uint32_t>(part.ops.size());
      new_index[at] = index;
      std::set<trace::StorageId> storages;
      collect_storages(whole, op.args, storages);
      for (const auto storage : storages) first_use.try_emplace({i, storage}, index);
      part.ops.push_back(op);
      ++iteration.op_count;
    }
    part.iterations.push_back(std::move(iteration));
  }
  // Samples may share an input: its bytes entered at the first op of all that read it.
  for (const trace::External& external : whole.externals) {
    const auto use = first_use.find({external.iteration, external.storage});
    if (use == first_use.end()) continue;
    part.externals.push_back(external);
    part.externals.back().op = use->second;
  }
  for (const trace::Draw& draw : whole.draws) {
    const auto kept = new_index.find(draw.op);
    if (kept != new_index.end()) part.draws.push_back({kept->second, draw.output, draw.blob});
  }
  const std::string prefix = "sample_" + std::to_string(number) + ".";
  for (const trace::FinalState& state : whole.final_states) {
    const bool of_parameter = state.name.find(" of " + prefix) != std::string::npos;  // an optimizer's state
    if (state.name.starts_with(prefix) || of_parameter) part.final_states.push_back(state);
  }
  return part;
}

}  // namespace crucible::opdb
