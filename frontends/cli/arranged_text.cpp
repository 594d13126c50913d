#include "frontends/cli/arranged_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/figures.hpp"

namespace crucible::cli {

std::string arranged_text(const ArrangedMemory& arranged, std::size_t label_width) {
  const runtime::ArrangeReport& report = arranged.report;
  std::string text;
  if (report.moved > 0) {
    const std::string now = format_bytes(report.bound_ordered), before = format_bytes(report.bound_as_recorded);
    const std::string difference =
        now != before ? fmt::format(" instead of {}", before)
                      : fmt::format(", {} fewer", format_bytes(report.bound_as_recorded - report.bound_ordered));
    text +=
        fmt::format("{:<{}}{} steps moved: {} alive at most{}\n", "order", label_width, report.moved, now, difference);
  }
  if (report.repeats > 0 || report.transfers > 0) {
    text += fmt::format("{:<{}}{} steps run again (an estimated {:.0f}% more work), {} transfers of {}\n", "budget",
                        label_width, report.repeats, 100 * report.repeat_ns / std::max(report.step_ns, 1.0),
                        report.transfers, format_bytes(report.transfer_bytes));
  }
  if (arranged.host_bytes > 0) {
    text += fmt::format("{:<{}}{} at most, of what waits or lives there\n", "host", label_width,
                        format_bytes(arranged.host_bytes));
  }
  return text;
}

}  // namespace crucible::cli
