// The three forms of a memory plan.
#include "frontends/cli/plan_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "frontends/cli/command.hpp"

namespace crucible::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string kind_name(graph::ValueKind kind) {
  switch (kind) {
    case graph::ValueKind::kTemporary:
      return "temporary";
    case graph::ValueKind::kState:
      return "state";
    case graph::ValueKind::kInput:
      return "input";
    case graph::ValueKind::kConstant:
      return "constant";
  }
  return "";
}

/// "blocks.0.norm1.weight", or where a temporary comes from: "aten::addmm of blocks.0.attn".
std::string value_name(const graph::Program& program, graph::ValueId id) {
  const graph::Value& value = program.values[id];
  if (!value.name.empty()) return value.name;
  if (value.producer < program.ops.size() && program.ops[value.producer].source < program.sources.size()) {
    const graph::Source& source = program.sources[program.ops[value.producer].source];
    return fmt::format("%{} {}{}{}", id, source.op, source.module.empty() ? "" : " of ", source.module);
  }
  return fmt::format("%{}", id);
}

std::vector<std::uint32_t> largest_first(std::vector<std::uint32_t> ids, const std::vector<PlannedBuffer>& buffers) {
  std::ranges::stable_sort(
      ids, [&](std::uint32_t a, std::uint32_t b) { return buffers[a].size_bytes > buffers[b].size_bytes; });
  return ids;
}

Json to_json_row(const PlannedBuffer& buffer) {
  return {{"name", buffer.name},
          {"kind", buffer.kind},
          {"offset_bytes", buffer.offset_bytes},
          {"size_bytes", buffer.size_bytes},
          {"begin", buffer.begin},
          {"end", buffer.end}};
}

std::string escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '&':
        escaped += "&amp;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

const char* colour_of(std::string_view kind) {
  if (kind == "state") return "#4e79a7";
  if (kind == "constant") return "#76b7b2";
  if (kind == "input") return "#f28e2b";
  if (kind == "scratch") return "#bab0ac";
  return "#59a14f";
}

}  // namespace

std::vector<PlannedBuffer> PlanReport::describe(const graph::Program& program, const kernel::Schedule& schedule,
                                                const runtime::Placement& placement) {
  std::vector<PlannedBuffer> described(placement.buffers.size());
  std::vector<std::uint32_t> values(described.size(), 0);
  for (graph::ValueId value = 0; value < program.values.size(); ++value) {
    const std::uint32_t buffer = placement.buffer_of[value];
    if (buffer == graph::kNone) continue;
    ++values[buffer];
    // What the program knows by name says more than a temporary that shares its memory.
    const bool better = described[buffer].name.empty() || (described[buffer].kind == "temporary" &&
                                                           program.values[value].kind != graph::ValueKind::kTemporary);
    if (!better) continue;
    described[buffer].name = value_name(program, value);
    described[buffer].kind = kind_name(program.values[value].kind);
  }
  for (std::uint32_t step = 0; step < placement.scratch_of.size(); ++step) {
    const std::uint32_t buffer = placement.scratch_of[step];
    if (buffer == graph::kNone) continue;
    described[buffer].name = fmt::format("scratch of step {}", step);
    described[buffer].kind = "scratch";
  }
  for (std::uint32_t buffer = 0; buffer < described.size(); ++buffer) {
    PlannedBuffer& row = described[buffer];
    if (values[buffer] > 1) row.name += fmt::format(" (+{})", values[buffer] - 1);
    row.size_bytes = placement.buffers[buffer].size_bytes;
    row.offset_bytes = placement.plan.offsets[buffer];
    row.begin = placement.buffers[buffer].begin;
    row.end = placement.buffers[buffer].end;
  }
  return described;
}

Json PlanReport::to_json() const {
  Json document;
  document["file"] = file;
  document["lower_bound_bytes"] = plan.lower_bound_bytes;
  document["lower_bound_step"] = plan.lower_bound_time;
  document["peak_bytes"] = plan.peak_bytes;
  document["optimal"] = plan.peak_bytes == plan.lower_bound_bytes;
  document["buffers"] = buffers.size();
  document["steps"] = steps;
  document["time_ns"] = time_ns;
  document["kernels"] = kernels;
  document["witness"] = Json::array();
  for (const std::uint32_t id : largest_first(plan.witness, buffers))
    document["witness"].push_back(to_json_row(buffers[id]));
  document["table"] = Json::array();
  for (const PlannedBuffer& buffer : buffers) document["table"].push_back(to_json_row(buffer));
  return document;
}

std::string PlanReport::to_text() const {
  std::string text = fmt::format("peak         {} ({} bytes)\n", format_bytes(plan.peak_bytes), plan.peak_bytes);
  text += fmt::format("lower bound  {} ({} bytes) at step {} of {}{}\n", format_bytes(plan.lower_bound_bytes),
                      plan.lower_bound_bytes, plan.lower_bound_time, steps,
                      plan.peak_bytes == plan.lower_bound_bytes ? ": the plan is optimal" : "");
  text += fmt::format("buffers      {}, planned and checked in {}\n", buffers.size(),
                      format_ns(static_cast<double>(time_ns)));
  text += fmt::format("kernels      {}\n\n", kernels);

  struct Sum {
    std::uint64_t buffers = 0, bytes = 0, bytes_at_peak = 0;
  };
  std::map<std::string, Sum> sums;
  for (const PlannedBuffer& buffer : buffers) ++sums[buffer.kind].buffers, sums[buffer.kind].bytes += buffer.size_bytes;
  for (const std::uint32_t id : plan.witness) sums[buffers[id].kind].bytes_at_peak += buffers[id].size_bytes;
  std::vector<std::vector<std::string>> rows = {{"kind", "buffers", "bytes", "alive at the peak"}};
  for (const auto& [kind, sum] : sums) {
    rows.push_back({kind, std::to_string(sum.buffers), format_bytes(sum.bytes), format_bytes(sum.bytes_at_peak)});
  }
  text += format_table(rows);

  constexpr std::size_t kShown = 20;
  const std::vector<std::uint32_t> largest = largest_first(plan.witness, buffers);
  text += fmt::format("\n{} buffers are alive at the peak; the largest:\n", largest.size());
  rows = {{"size", "offset", "steps", "kind", "holds"}};
  for (std::size_t i = 0; i < std::min(largest.size(), kShown); ++i) {
    const PlannedBuffer& buffer = buffers[largest[i]];
    rows.push_back({format_bytes(buffer.size_bytes), std::to_string(buffer.offset_bytes),
                    fmt::format("{} to {}", buffer.begin, buffer.end), buffer.kind, buffer.name});
  }
  return text + format_table(rows);
}

std::string PlanReport::to_svg() const {
  constexpr double kWidth = 1200, kHeight = 700, kMargin = 60;
  std::uint32_t last = 1;
  for (const PlannedBuffer& buffer : buffers) last = std::max(last, buffer.end);
  const double x_scale = kWidth / last;
  const double y_scale = plan.peak_bytes == 0 ? 0 : kHeight / static_cast<double>(plan.peak_bytes);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"{}\" y=\"25\">{}: peak {}, lower bound {} at step {}, {} buffers</text>\n",
      kWidth + 2 * kMargin, kHeight + 2 * kMargin, kMargin, escape(file), format_bytes(plan.peak_bytes),
      format_bytes(plan.lower_bound_bytes), plan.lower_bound_time, buffers.size());
  for (const PlannedBuffer& buffer : buffers) {
    if (buffer.size_bytes == 0) continue;
    const double height = static_cast<double>(buffer.size_bytes) * y_scale;
    const double top = kMargin + kHeight - static_cast<double>(buffer.offset_bytes) * y_scale - height;
    svg += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\" stroke=\"white\" "
        "stroke-width=\"0.3\">"
        "<title>{}: {} {}, steps {} to {}, offset {}</title></rect>\n",
        kMargin + buffer.begin * x_scale, top, (buffer.end - buffer.begin) * x_scale, height, colour_of(buffer.kind),
        escape(buffer.name), escape(buffer.kind), format_bytes(buffer.size_bytes), buffer.begin, buffer.end,
        buffer.offset_bytes);
  }
  const double bound_x = kMargin + (plan.lower_bound_time + 0.5) * x_scale;
  svg += fmt::format(
      "<line x1=\"{0:.2f}\" x2=\"{0:.2f}\" y1=\"{1}\" y2=\"{2}\" stroke=\"#e15759\" stroke-dasharray=\"4 3\"/>\n",
      bound_x, kMargin, kMargin + kHeight);
  double legend = kMargin;
  for (const char* kind : {"state", "constant", "input", "temporary", "scratch"}) {
    svg += fmt::format(
        "<rect x=\"{0}\" y=\"{1}\" width=\"12\" height=\"12\" fill=\"{2}\"/><text x=\"{3}\" y=\"{4}\">{5}</text>\n",
        legend, kHeight + kMargin + 30, colour_of(kind), legend + 18, kHeight + kMargin + 41, kind);
    legend += 110;
  }
  svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">step {}</text>\n</svg>\n", kMargin + kWidth,
                     kHeight + kMargin + 41, last);
  return svg;
}

}  // namespace crucible::cli
