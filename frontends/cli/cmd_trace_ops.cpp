// `crucible trace ops FILE`: every op of an iteration with its arguments, or how often each occurs.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/figures.hpp"
#include "core/base/terminal.hpp"
#include "core/base/words.hpp"
#include "core/trace/summary.hpp"
#include "core/trace/text.hpp"
#include "core/trace/trace_file.hpp"
#include "frontends/cli/trace_command.hpp"
#include "frontends/cli/trace_json.hpp"

namespace crucible::cli {

namespace {

using nlohmann::ordered_json;
using trace::Op;
using trace::Trace;

std::string module_text(const Trace& trace, trace::ModuleId id) {
  return id == trace::kNone ? "" : printable(trace.modules[id]);
}

/// The iterations that the options ask for.
Result<std::vector<std::uint32_t>> chosen_iterations(const OpsOptions& options, const Trace& trace) {
  std::vector<std::uint32_t> chosen;
  if (options.all) {
    for (std::uint32_t i = 0; i < trace.iterations.size(); ++i) chosen.push_back(i);
    return chosen;
  }
  const std::uint32_t number = options.iteration.value_or(0);
  if (number >= trace.iterations.size()) {
    return Error{ErrorCode::kUsage, trace.iterations.empty()
                                        ? fmt::format("{} has no iterations", options.file)
                                        : fmt::format("{} has no iteration {}: it has {}, counted from 0", options.file,
                                                      number, trace.iterations.size())};
  }
  chosen.push_back(number);
  return chosen;
}

void print_op_lines(const Trace& trace, const std::vector<std::uint32_t>& iterations) {
  const trace::Compounds compounds(trace);
  std::size_t site_width = 1, module_width = 1;
  for (const Op& op : trace.ops) {
    site_width = std::max(site_width, printable(trace.site_text(op.site)).size());
    module_width = std::max(module_width, module_text(trace, op.module).size());
  }
  for (const std::uint32_t number : iterations) {
    const trace::Iteration& iteration = trace.iterations[number];
    print_text(fmt::format("iteration {}: {}{}\n", number, plural(iteration.op_count, "op"),
                           iteration.complete ? "" : ", incomplete"));
    for (std::uint32_t index = iteration.first_op; index < iteration.first_op + iteration.op_count; ++index) {
      const Op& op = trace.ops[index];
      print_text(fmt::format("{:>6}  {:<9}  {:<{}}  {:<{}}  {}\n", index, name(op.phase), module_text(trace, op.module),
                             module_width, printable(trace.site_text(op.site)), site_width,
                             trace::op_text(compounds, op)));
    }
  }
}

/// How often each op occurs, most frequent first, with its share of the three phases.
struct OpCount {
  std::string schema;
  std::uint64_t total = 0, by_phase[3] = {0, 0, 0};
};

std::vector<OpCount> count_ops(const Trace& trace, const std::vector<std::uint32_t>& iterations) {
  std::map<trace::SchemaId, OpCount> counts;
  for (const std::uint32_t number : iterations) {
    const trace::Iteration& iteration = trace.iterations[number];
    for (std::uint32_t index = iteration.first_op; index < iteration.first_op + iteration.op_count; ++index) {
      OpCount& count = counts[trace.ops[index].schema];
      ++count.total;
      ++count.by_phase[static_cast<int>(trace.ops[index].phase)];
    }
  }
  std::vector<OpCount> sorted;
  for (auto& [schema, count] : counts) {
    count.schema = trace.schemas[schema].full_name();
    sorted.push_back(count);
  }
  std::ranges::sort(sorted, [](const OpCount& a, const OpCount& b) {
    return a.total != b.total ? a.total > b.total : a.schema < b.schema;
  });
  return sorted;
}

void print_op_counts(const OpsOptions& options, const std::vector<OpCount>& counts) {
  if (options.json) {
    ordered_json document = {{"file", options.file}, {"counts", ordered_json::array()}};
    for (const OpCount& count : counts) {
      document["counts"].push_back({{"schema", count.schema},
                                    {"count", count.total},
                                    {"forward", count.by_phase[0]},
                                    {"backward", count.by_phase[1]},
                                    {"optimizer", count.by_phase[2]}});
    }
    return print_json(document);
  }
  std::vector<std::vector<std::string>> rows = {{"count", "forward", "backward", "optimizer", "op"}};
  for (const OpCount& count : counts) {
    rows.push_back({std::to_string(count.total), std::to_string(count.by_phase[0]), std::to_string(count.by_phase[1]),
                    std::to_string(count.by_phase[2]), printable(count.schema)});
  }
  print_text(format_table(rows));
}

}  // namespace

Result<int> run_trace_ops(const OpsOptions& options) {
  CRUCIBLE_TRY(const Trace trace, trace::read_file(options.file));
  CRUCIBLE_TRY(const std::vector<std::uint32_t> iterations, chosen_iterations(options, trace));
  if (options.summary) {
    print_op_counts(options, count_ops(trace, iterations));
    return 0;
  }
  if (!options.json) {
    print_op_lines(trace, iterations);
    return 0;
  }
  const trace::Compounds compounds(trace);
  ordered_json document = {{"file", options.file}, {"ops", ordered_json::array()}};
  for (const std::uint32_t number : iterations) {
    const trace::Iteration& iteration = trace.iterations[number];
    for (std::uint32_t i = 0; i < iteration.op_count; ++i)
      document["ops"].push_back(op_json(compounds, number, iteration.first_op + i));
  }
  print_json(document);
  return 0;
}

}  // namespace crucible::cli
