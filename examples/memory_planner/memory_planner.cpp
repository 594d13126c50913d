// The memory planner as another compiler would use it: this "compiler" has a small network whose tensors live in DRAM
// or in an on-chip SRAM of fixed size. It asks for a plan, keeps the certificate, and reads the offsets.
//
// It links crucible::memory alone: no graph, no runtime. docs/memory-planner.md explains each call.
#include <cstdio>
#include <string>
#include <vector>

#include "core/memory/certificate.hpp"
#include "core/memory/plan.hpp"

namespace memory = crucible::memory;

namespace {

/// What this compiler knows of a tensor.
struct Tensor {
  std::string name;
  memory::Buffer buffer;
};

constexpr std::uint32_t kDram = 0, kSram = 1;

std::vector<Tensor> network() {
  std::vector<Tensor> tensors;
  const auto add = [&](std::string name, memory::Buffer buffer) { tensors.push_back({std::move(name), buffer}); };
  // The caller owns the first kilobyte of DRAM and puts the input there.
  add("input", {.size_bytes = 1024, .begin = 0, .end = 2, .pinned_offset = 0});
  add("conv", {.size_bytes = 4096, .begin = 1, .end = 4});
  // relu works in place, and its view is no buffer of its own: all three share one offset.
  add("pool", {.size_bytes = 2048, .begin = 3, .end = 5, .group = 0});
  add("relu", {.size_bytes = 2048, .begin = 4, .end = 6, .group = 0});
  add("flat", {.size_bytes = 2048, .begin = 5, .end = 7, .group = 0});
  // Written at step 6, read at step 1 of the next iteration.
  add("state", {.size_bytes = 512, .begin = 6, .end = 2, .carried = true});
  add("output", {.size_bytes = 100, .begin = 6, .end = 8});
  // Two tiles that a transfer fills while the other is in use: never at one place. The unit wants rows of 128 bytes.
  add("tile A", {.size_bytes = 768, .begin = 1, .end = 3, .alignment = 128, .space = kSram});
  add("tile B", {.size_bytes = 768, .begin = 3, .end = 5, .alignment = 128, .space = kSram});
  add("weights", {.size_bytes = 500, .begin = 0, .end = 8, .space = kSram});
  return tensors;
}

int fail(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  return 1;
}

}  // namespace

int main() {
  const std::vector<Tensor> tensors = network();
  memory::Problem problem;
  problem.spaces = {{.alignment = 256}, {.alignment = 4, .capacity_bytes = 2048}};
  for (const Tensor& tensor : tensors) problem.buffers.push_back(tensor.buffer);
  problem.apart = {{7, 8}};

  const crucible::Result<memory::Solution> solution = memory::solve(problem, {.budget_passes = 1000});
  if (!solution) return fail("the problem contradicts itself: " + solution.error().message);
  switch (solution->outcome) {
    case memory::Outcome::kFound:
      break;
    case memory::Outcome::kImpossible:
      return fail("it cannot fit: " + solution->spaces[kSram].reason);
    case memory::Outcome::kNotFound:
      return fail("it may fit, with more passes: " + solution->spaces[kSram].reason);
  }

  // Nothing runs on a plan without this.
  const memory::Certificate certificate = memory::certify(problem, *solution);
  const crucible::Result<void> checked = memory::check_certificate(problem, *solution, certificate);
  if (!checked) return fail(checked.error().message);

  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::printf("%-8s %s %5llu\n", tensors[i].name.c_str(), tensors[i].buffer.space == kSram ? "sram" : "dram",
                static_cast<unsigned long long>(solution->offsets[i]));
  }
  for (const memory::SpacePlan& plan : solution->spaces) {
    std::printf("peak %llu, at least %llu%s\n", static_cast<unsigned long long>(plan.peak_bytes),
                static_cast<unsigned long long>(plan.lower_bound_bytes), plan.optimal ? ", optimal" : "");
  }
  return 0;
}
