// Results are collected per line and iteration; the comparison of op sequences is the summary's.
#include "core/trace/values_left.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "core/trace/summary.hpp"
#include "core/trace/text.hpp"

namespace crucible::trace {

namespace {

/// Appends the text of every value among the results that is not a tensor.
void collect(const Compounds& compounds, const std::vector<Arg>& results, std::string& values) {
  for (const Arg& result : results) {
    switch (result.kind) {
      case Arg::Kind::kNone:
      case Arg::Kind::kTensor:
      case Arg::Kind::kUndefinedTensor:
        break;
      case Arg::Kind::kList:
        collect(compounds, result.list, values);
        break;
      case Arg::Kind::kBool:
      case Arg::Kind::kInt:
      case Arg::Kind::kDouble:
      case Arg::Kind::kComplex:
      case Arg::Kind::kString:
      case Arg::Kind::kDType:
      case Arg::Kind::kDevice:
      case Arg::Kind::kLayout:
      case Arg::Kind::kMemoryFormat:
      case Arg::Kind::kGenerator:
      case Arg::Kind::kOpaque:
        values += arg_text(compounds, result) + ";";
        break;
    }
  }
}

struct Line {
  ValueLeft about;
  std::vector<std::string> values;  // by complete iteration
};

std::vector<Line> collect_lines(const Trace& trace, std::size_t complete) {
  const Compounds compounds(trace);
  std::vector<Line> lines;
  std::map<std::tuple<SchemaId, SiteId, Phase>, std::size_t> known;
  std::size_t position = 0;
  for (const Iteration& iteration : trace.iterations) {
    for (std::uint32_t i = 0; i < iteration.op_count; ++i) {
      const Op& op = trace.ops[iteration.first_op + i];
      std::string values;
      collect(compounds, op.outputs, values);
      if (values.empty()) continue;
      const auto [found, is_new] = known.try_emplace({op.schema, op.site, op.phase}, lines.size());
      if (is_new) {
        lines.push_back({{trace.schemas[op.schema].full_name(), op.site, op.phase, 0, std::nullopt},
                         std::vector<std::string>(complete)});
      }
      Line& line = lines[found->second];
      ++line.about.count;
      if (iteration.complete) line.values[position] += values;
    }
    position += iteration.complete;
  }
  return lines;
}

}  // namespace

ValuesLeft values_left(const Trace& trace) {
  const Summary summary = summarize(trace);
  ValuesLeft found;
  bool any_differs = false;
  for (Line& line : collect_lines(trace, summary.complete_iterations)) {
    if (summary.complete_iterations >= 2) {
      const auto differs = [&](const std::string& values) { return values != line.values.front(); };
      line.about.values_differ = std::ranges::any_of(line.values, differs);
      any_differs |= *line.about.values_differ;
    }
    found.lines.push_back(std::move(line.about));
  }
  if (found.lines.empty()) {
    found.sequence_depends = false;
    found.reason = "no value left";
  } else if (summary.complete_iterations < 2) {
    found.reason = summary.complete_iterations == 1 ? "unknown (one iteration)" : "unknown (no complete iteration)";
  } else if (!summary.slots) {
    found.sequence_depends = true;
    found.reason = "the op sequences differ: " + summary.no_slots_reason;
  } else if (any_differs) {
    found.sequence_depends = false;
    found.reason = "values differ between iterations, the op sequence does not";
  } else {
    found.reason = "unknown (the same values in every iteration)";
  }
  return found;
}

}  // namespace crucible::trace
