// A memory plan as text, JSON and SVG: every buffer with the names of what it holds, when, and where.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/runtime/session.hpp"

namespace crucible::cli {

struct PlannedBuffer {
  std::string name;  // of its first named value, with the number of others: "wte.weight (+1)"
  std::string kind;  // state, constant, input, temporary, scratch
  std::uint64_t size_bytes = 0, offset_bytes = 0;
  std::uint32_t begin = 0, end = 0;  // steps
};

struct PlanReport {
  std::string file;
  std::string
      kernels;  // where library claims and scratch sizes came from: "cpu 0.1.0" or "generated kernels only, ..."
  std::vector<PlannedBuffer> buffers;
  memory::Plan plan;
  std::size_t steps = 0;
  std::uint64_t time_ns = 0;  // lifetimes, offsets and the check

  /// Names and kinds of every buffer of the placement.
  static std::vector<PlannedBuffer> describe(const graph::Program& program, const kernel::Schedule& schedule,
                                             const runtime::Placement& placement);
  nlohmann::ordered_json to_json() const;
  std::string to_text() const;
  /// Offsets upward, steps to the right; a rectangle per buffer with its name as the tooltip.
  std::string to_svg() const;
};

}  // namespace crucible::cli
