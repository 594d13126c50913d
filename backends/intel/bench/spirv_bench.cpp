// How long a kernel takes from its bytes to SPIR-V: at most 1 ms is wanted.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>

#include "backends/intel/emit_kernel.hpp"
#include "core/graph/random_program.hpp"
#include "core/kernel/schedule.hpp"

namespace crucible_intel {
namespace {

using namespace crucible;

const kernel::Schedule& schedule() {
  static const kernel::Schedule made = [] {
    const graph::RandomProgram random = graph::random_program({.seed = 11, .ops = 400});
    auto scheduled = kernel::schedule(random.program, {.claims = {}, .numerics = kernel::Numerics::kStrict, .device = {}});
    return std::move(*scheduled);
  }();
  return made;
}

void read_prelude(benchmark::State& state) {
  for (auto _ : state) {
    const PreludeText prelude(kernel::math_prelude());
    benchmark::DoNotOptimize(prelude.functions().size());
  }
}
BENCHMARK(read_prelude)->Unit(benchmark::kMicrosecond);

/// Each kernel in a module of its own, with all functions that it calls; the slowest is told too.
void emit(benchmark::State& state) {
  const PreludeText prelude(kernel::math_prelude());
  double slowest = 0;
  for (auto _ : state) {
    for (const kernel::Kernel& kernel : schedule().kernels) {
      const auto start = std::chrono::steady_clock::now();
      KernelModule module(prelude);
      module.add(sdk::read_kernel(kernel.ir.data(), kernel.ir.size()), kernel.name);
      benchmark::DoNotOptimize(module.words().size());
      slowest = std::max(slowest, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    }
  }
  const auto kernels = static_cast<double>(schedule().kernels.size());
  state.counters["us_per_kernel"] = benchmark::Counter(kernels / 1e6, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["slowest_us"] = slowest;
}
BENCHMARK(emit)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace crucible_intel

BENCHMARK_MAIN();
