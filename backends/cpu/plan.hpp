// A plan: a copy of the host's list of ops, as steps one after the other whose pieces threads share (crew.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "backends/cpu/device.hpp"
#include "backends/cpu/kernel.hpp"
#include "backends/cpu/library_onednn.hpp"
#include "backends/cpu/pace.hpp"
#include "backends/cpu/sanitize.hpp"
#include "plugins/sdk/plan_table.hpp"

namespace crucible_cpu {

/// Work items [begin, end) of chunk `index` of `chunks`: every item is in exactly one chunk, sizes differ by at most
/// one.
struct Range {
  std::int64_t begin, end;
};
Range chunk_range(std::int64_t grid, std::int64_t chunks, std::int64_t index);

/// How many pieces: for each thread as many as for the others, at most four, none with fewer than `grain` items unless
/// the whole grid has fewer.
std::int64_t piece_count(std::int64_t grid, std::int64_t grain, int threads);

/// What this plugin adds to an op of the list.
struct PlanOp {
  std::int64_t items = 0, pieces = 0;    // LAUNCH: its grid; COPY, FILL: blocks; 0 pieces: nothing to do
  double shared_ns = 0;                  // what several threads can share of it, as the host thinks, on one thread
  std::unique_ptr<LibraryCall> library;  // LIBRARY
  std::optional<GuardedLaunch> guarded;  // LAUNCH of a kernel that checks itself
};

/// What is done at the same time: an op, or a stage of a library call.
struct PlanStep {
  std::uint32_t op = 0, stage = 0, pieces = 0;
  double rest_ns = 0;  // shared_ns of this step and those after it
};

}  // namespace crucible_cpu

struct crucible_plan;

namespace crucible_cpu {

/// One replay, done on return. Threads: any; plans of one device take turns. Errors: what its ops throw.
void run_plan(crucible_plan& plan);

}  // namespace crucible_cpu

struct crucible_plan : crucible::sdk::ListedPlan<crucible_device> {
  std::vector<crucible_cpu::PlanOp> parts;  // one per op of the list
  std::vector<crucible_cpu::PlanStep> steps;
  crucible_cpu::Findings findings;  // of its guarded launches
  std::optional<crucible_cpu::Pace> pace;
};
