// How long a kernel takes from its bytes to SPIR-V: at most 1 ms is wanted. Those of a random program, or of the
// recordings that are named:
//
//   spirv_bench [FILE.crtrace...] [--benchmark_...]
//
// Times are those of the processor, of this thread, so that other work on the machine matters little; of each kernel
// the least of all rounds.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "core/graph/random_program.hpp"
#include "core/kernel/schedule.hpp"
#include "core/trace/trace_file.hpp"
#include "frontends/aten/lower.hpp"
#include "plugins/sdk/mathematics.hpp"
#include "plugins/spirv/emit_kernel.hpp"

namespace crucible::spirv {
namespace {

using namespace crucible;
using Kernels = std::map<std::string, std::vector<std::byte>>;  // IR by name

double thread_us() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

void add_kernels(const graph::Program& program, Kernels& kernels) {
  for (const auto numerics : {kernel::Numerics::kStrict, kernel::Numerics::kFast}) {
    const auto prepared = kernel::prepare(program, {.claims = {}, .numerics = numerics, .device = {.workers = 1024}});
    if (!prepared) continue;
    for (const kernel::Kernel& kernel : prepared->schedule.kernels) kernels.try_emplace(kernel.name, kernel.ir);
  }
}

void read_prelude(benchmark::State& state) {
  for (auto _ : state) {
    const PreludeText prelude(sdk::math_functions());
    benchmark::DoNotOptimize(prelude.functions().size());
  }
}

/// Each kernel in a module of its own, with all functions that it calls; the slowest is told too.
void emit(benchmark::State& state, const Kernels& kernels) {
  std::map<std::string, double> least;
  for (auto _ : state) {
    for (const auto& [name, ir] : kernels) {
      const double start = thread_us();
      KernelModule module;
      module.add(sdk::read_kernel(ir.data(), ir.size()), name);
      benchmark::DoNotOptimize(module.words().size());
      const double taken = thread_us() - start;
      const auto [at, is_new] = least.try_emplace(name, taken);
      at->second = std::min(at->second, taken);
    }
  }
  double all = 0;
  auto slowest = least.begin();
  for (auto at = least.begin(); at != least.end(); ++at) {
    all += at->second;
    if (at->second > slowest->second) slowest = at;
  }
  state.SetLabel(slowest->first);
  state.counters["kernels"] = static_cast<double>(least.size());
  state.counters["mean_us"] = all / static_cast<double>(least.size());
  state.counters["slowest_us"] = slowest->second;
}

Kernels kernels_of(const std::vector<std::string>& files) {
  Kernels kernels;
  if (files.empty()) add_kernels(graph::random_program({.seed = 11, .ops = 400}).program, kernels);
  for (const std::string& file : files) {
    const auto trace = trace::read_file(file);
    const auto program = trace ? aten::lower(*trace) : Result<graph::Program>(trace.error());
    if (!program) {
      std::fprintf(stderr, "spirv_bench: %s\n", program.error().message.c_str());
      std::exit(1);
    }
    add_kernels(*program, kernels);
  }
  return kernels;
}

}  // namespace
}  // namespace crucible::spirv

int main(int count, char** words) {
  benchmark::Initialize(&count, words);
  const crucible::spirv::Kernels kernels =
      crucible::spirv::kernels_of(std::vector<std::string>(words + 1, words + count));
  benchmark::RegisterBenchmark("read_prelude", crucible::spirv::read_prelude)->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark("emit", crucible::spirv::emit, kernels)->Unit(benchmark::kMillisecond);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
