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

namespace crucible_cpu {

/// Work items [begin, end) of chunk `index` of `chunks`: every item is in exactly one chunk, sizes differ by at most
/// one.
struct Range {
  std::int64_t begin, end;
};
Range chunk_range(std::int64_t grid, std::int64_t chunks, std::int64_t index);

/// How many pieces: for each thread as many as for the others, at most four, none with fewer than `grain` items unless the whole grid has fewer.
std::int64_t piece_count(std::int64_t grid, std::int64_t grain, int threads);

struct PlanOp {
  std::uint32_t kind = 0;
  KernelFunction kernel = nullptr;  // LAUNCH
  std::vector<void*> buffers;
  std::vector<std::uint64_t> scalars;  // eight bytes each, of a double or an i64 as the kernel takes it
  std::int64_t grid = 0, pieces = 0;     // LAUNCH, COPY, FILL; 0 pieces: nothing to do
  double shared_ns = 0;                  // what several threads can share of it, as the host thinks, on one thread
  std::uint64_t size = 0;                // COPY, FILL
  int pattern = 0;                       // FILL
  std::unique_ptr<LibraryCall> library;  // LIBRARY
  std::optional<GuardedLaunch> guarded;  // LAUNCH of a kernel that checks itself
};

/// What is done at the same time: an op, or a stage of a library call.
struct PlanStep {
  std::uint32_t op = 0, stage = 0, pieces = 0;
  double rest_ns = 0;  // shared_ns of this step and those after it
};

struct SlotUse {
  std::uint32_t slot, op, scalar;
};

}  // namespace crucible_cpu

struct crucible_plan;

namespace crucible_cpu {

/// One replay, done on return. Threads: any; plans of one device take turns. Errors: what its ops throw.
void run_plan(crucible_plan& plan);

}  // namespace crucible_cpu

struct crucible_plan {
  crucible_device* device = nullptr;
  std::vector<crucible_cpu::PlanOp> ops;
  std::vector<crucible_cpu::PlanStep> steps;
  std::vector<crucible_cpu::SlotUse> slot_uses;
  std::uint32_t slot_count = 0;
  crucible_cpu::Findings findings;  // of its guarded launches
  std::optional<crucible_cpu::Pace> pace;
};
