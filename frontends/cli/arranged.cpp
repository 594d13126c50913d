#include "frontends/cli/arranged.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "frontends/cli/command.hpp"

namespace crucible::cli {

nlohmann::ordered_json ArrangedMemory::to_json() const {
  return {{"budget_bytes", budget_bytes == 0 ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(budget_bytes)},
          {"bound_as_recorded_bytes", report.bound_as_recorded},
          {"bound_ordered_bytes", report.bound_ordered},
          {"steps_moved", report.moved},
          {"steps_repeated", report.repeats},
          {"repeated_share", report.step_ns > 0 ? report.repeat_ns / report.step_ns : 0},
          {"transfers", report.transfers},
          {"transfer_bytes", report.transfer_bytes},
          {"host_bytes", host_bytes},
          {"certificate", {{"sha256", certificate.digest.hex()}, {"verdict", certificate.verdict}}}};
}

std::string ArrangedMemory::to_text(std::size_t label_width) const {
  std::string text;
  if (report.moved > 0) {
    text += fmt::format("{:<{}}{} steps moved: {} alive at most instead of {}\n", "order", label_width, report.moved,
                        format_bytes(report.bound_ordered), format_bytes(report.bound_as_recorded));
  }
  if (report.repeats > 0 || report.transfers > 0) {
    text += fmt::format("{:<{}}{} steps run again (an estimated {:.0f}% more work), {} transfers of {}\n", "budget", label_width,
                        report.repeats, 100 * report.repeat_ns / std::max(report.step_ns, 1.0), report.transfers,
                        format_bytes(report.transfer_bytes));
  }
  if (host_bytes > 0) {
    text += fmt::format("{:<{}}{} at most, of what waits or lives there\n", "host", label_width, format_bytes(host_bytes));
  }
  return text;
}

}  // namespace crucible::cli
