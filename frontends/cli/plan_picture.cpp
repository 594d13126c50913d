// A plan as an SVG picture: offsets over steps, a rectangle per buffer in the colour of its role, the phases below.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/base/words.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/plan_report.hpp"

namespace crucible::cli {
namespace {

constexpr double kWidth = 1200, kHeight = 700, kMargin = 60;

const char* phase_colour(graph::Phase phase) {
  switch (phase) {
    case graph::Phase::kForward:
      return "#9ecae1";
    case graph::Phase::kBackward:
      return "#fdae6b";
    case graph::Phase::kOptimizer:
      return "#bcbddc";
  }
  return "";
}

/// A band under the plot: a rectangle per run of steps of one phase.
std::string phase_band(const PlanReport& report, double x_scale) {
  std::string svg;
  for (std::size_t begin = 0, end = 0; begin < report.steps.size(); begin = end) {
    const graph::Phase phase = report.steps[begin].phase;
    while (end < report.steps.size() && report.steps[end].phase == phase) ++end;
    const double width = static_cast<double>(end - begin) * x_scale, x = kMargin + static_cast<double>(begin) * x_scale;
    svg += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"14\" fill=\"{}\"><title>{}, steps {} to "
        "{}</title></rect>\n",
        x, kMargin + kHeight + 4, width, phase_colour(phase), phase_name(phase), begin, end);
    if (width > 70) {
      svg += fmt::format("<text x=\"{:.2f}\" y=\"{}\" font-size=\"11\">{}</text>\n", x + 4, kMargin + kHeight + 15,
                         phase_name(phase));
    }
  }
  return svg;
}

std::string legend(const PlanReport& report) {
  std::set<runtime::Role> roles;
  for (const PlannedBuffer& buffer : report.buffers) roles.insert(buffer.role);
  std::string svg;
  double x = kMargin;
  for (const runtime::Role role : roles) {
    svg += fmt::format(
        "<rect x=\"{0}\" y=\"{1}\" width=\"12\" height=\"12\" fill=\"{2}\"/><text x=\"{3}\" y=\"{4}\">{5}</text>\n", x,
        kHeight + kMargin + 30, colour_of(role), x + 18, kHeight + kMargin + 41, runtime::role_name(role));
    x += 128;
  }
  return svg;
}

}  // namespace

const char* colour_of(runtime::Role role) {
  using runtime::Role;
  switch (role) {
    case Role::kParameter:
      return "#4e79a7";
    case Role::kModuleBuffer:
      return "#76b7b2";
    case Role::kOptimizerState:
      return "#b07aa1";
    case Role::kGradient:
      return "#e15759";
    case Role::kActivation:
      return "#59a14f";
    case Role::kInput:
      return "#f28e2b";
    case Role::kConstant:
      return "#9c755f";
    case Role::kTemporary:
      return "#edc948";
    case Role::kWorkspace:
      return "#8c8c8c";
  }
  return "";
}

std::string PlanReport::to_svg() const {
  std::uint32_t last = 1;
  for (const PlannedBuffer& buffer : buffers) last = std::max(last, buffer.end);
  const double x_scale = kWidth / last;
  const double y_scale = plan.peak_bytes == 0 ? 0 : kHeight / static_cast<double>(plan.peak_bytes);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"{}\" y=\"25\">{}: peak {}, lower bound {} at step {}, {} buffers</text>\n",
      kWidth + 2 * kMargin, kHeight + 2 * kMargin, kMargin, escape_markup(file), format_bytes(plan.peak_bytes),
      format_bytes(plan.lower_bound_bytes), plan.lower_bound_time, buffers.size());
  for (const PlannedBuffer& buffer : buffers) {
    if (buffer.size_bytes == 0) continue;
    const double height = static_cast<double>(buffer.size_bytes) * y_scale;
    const double top = kMargin + kHeight - static_cast<double>(buffer.offset_bytes) * y_scale - height;
    svg += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\" stroke=\"white\" "
        "stroke-width=\"0.3\"><title>{}: {} {}, steps {} to {}, offset {}{}{}</title></rect>\n",
        kMargin + buffer.begin * x_scale, top, (buffer.end - buffer.begin) * x_scale, height, colour_of(buffer.role),
        escape_markup(buffer.name), runtime::role_name(buffer.role), format_bytes(buffer.size_bytes), buffer.begin,
        buffer.end, buffer.offset_bytes, buffer.site.empty() ? "" : ", ", escape_markup(buffer.site));
  }
  const double bound_x = kMargin + (plan.lower_bound_time + 0.5) * x_scale;
  svg += fmt::format(
      "<line x1=\"{0:.2f}\" x2=\"{0:.2f}\" y1=\"{1}\" y2=\"{2}\" stroke=\"#333333\" stroke-dasharray=\"4 3\"/>\n",
      bound_x, kMargin, kMargin + kHeight);
  svg += phase_band(*this, x_scale) + legend(*this);
  return svg + fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">step {}</text>\n</svg>\n", kMargin + kWidth,
                           kMargin - 8, last);
}

}  // namespace crucible::cli
