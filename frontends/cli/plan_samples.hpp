// Test support: made-up reports, planned by the real planner. Used by the tests of this folder only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>

#include "frontends/cli/plan_report.hpp"

namespace crucible::cli::samples {

/// Places the buffers of a report and fills in what follows from that.
inline void place(PlanReport& report) {
  runtime::Placement placement;
  for (const PlannedBuffer& buffer : report.buffers)
    placement.buffers.push_back({buffer.size_bytes, buffer.begin, buffer.end});
  const Result<memory::Plan> planned = memory::plan(placement.buffers, runtime::kAlignment);
  if (!planned) return;
  report.plan = *planned;
  for (std::size_t id = 0; id < report.buffers.size(); ++id) report.buffers[id].offset_bytes = planned->offsets[id];
  report.live_bytes = runtime::live_bytes(placement, report.steps.size());
}

/// `count` buffers as a training step has them: a tenth lives throughout, the activations of the first half die in the
/// second half in the opposite order, the rest lives for a few steps. A third as many steps.
inline PlanReport random_report(std::uint32_t count, std::uint32_t seed) {
  PlanReport report{.file = "random.crtrace", .kernels = "none"};
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % std::max(n, 1u)); };
  const std::uint32_t steps = std::max(count / 3, 8u), half = steps * 2 / 5, optimizer = steps * 9 / 10;
  for (std::uint32_t step = 0; step < steps; ++step) {
    const auto phase = step < half        ? graph::Phase::kForward
                       : step < optimizer ? graph::Phase::kBackward
                                          : graph::Phase::kOptimizer;
    report.steps.push_back({phase, "aten::op" + std::to_string(step % 40), "blocks." + std::to_string(step % 24),
                            "train.py:" + std::to_string(step % 90)});
  }
  for (std::uint32_t id = 0; id < count; ++id) {
    PlannedBuffer buffer{.name = "%" + std::to_string(id) + " aten::op" + std::to_string(id % 40), .kind = "temporary"};
    buffer.module = "blocks." + std::to_string(below(24)) + ".part" + std::to_string(below(5));
    buffer.site = "train.py:" + std::to_string(below(90));
    buffer.op = "aten::op" + std::to_string(id % 40);
    buffer.size_bytes = 1 + (std::uint64_t{1} << below(20)) + below(4096);
    buffer.begin = below(steps - 1);
    buffer.end = std::min(steps, buffer.begin + 1 + below(12));
    if (id % 10 == 0) {
      const runtime::Role held[] = {runtime::Role::kParameter, runtime::Role::kOptimizerState,
                                    runtime::Role::kModuleBuffer};
      buffer.role = held[below(3)];
      buffer.kind = "state";
      buffer.begin = 0;
      buffer.end = steps + 1;
    } else if (id % 10 < 4) {
      buffer.role = runtime::Role::kActivation;
      buffer.begin = below(half);
      buffer.end = std::min(optimizer, half + (half - buffer.begin) + 1);
    } else if (id % 10 == 9) {
      buffer.role = runtime::Role::kGradient;
    }
    report.buffers.push_back(std::move(buffer));
  }
  place(report);
  return report;
}

}  // namespace crucible::cli::samples
