// What regions cost: the hash of a program, its tree, and the comparison of two that differ in one layer. Programs of
// equal layers, as tests have them. Run it on an idle machine; `ci/bench store` does.
#include <benchmark/benchmark.h>

#include <memory>

#include "core/graph/program_hash.hpp"
#include "core/merkle/diff.hpp"
#include "core/merkle/region.hpp"
#include "core/merkle/testing/layers.hpp"

namespace {

using crucible::graph::Program;
namespace merkle = crucible::merkle;

constexpr std::size_t kOpsOfALayer = 20;

Program program_of(std::size_t ops, std::int64_t wide_layer = -1) {
  return merkle::testing::layered({.layers = ops / kOpsOfALayer, .wide_layer = wide_layer, .shared_mask = true});
}

void program_hash(benchmark::State& state) {
  const Program program = program_of(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(crucible::graph::program_hash(program, {}));
  state.counters["ops"] = static_cast<double>(program.ops.size());
}

void regions(benchmark::State& state) {
  const auto program = std::make_shared<const Program>(program_of(static_cast<std::size_t>(state.range(0))));
  std::size_t count = 0;
  for (auto _ : state) count = merkle::regions_of(program, {}).regions.size();
  state.counters["ops"] = static_cast<double>(program->ops.size());
  state.counters["regions"] = static_cast<double>(count);
}

void diff_of_one_layer(benchmark::State& state) {
  const auto ops = static_cast<std::size_t>(state.range(0));
  const auto tree = [&](std::int64_t wide) {
    return merkle::regions_of(std::make_shared<const Program>(program_of(ops, wide)), {});
  };
  const merkle::RegionTree a = tree(-1), b = tree(static_cast<std::int64_t>(ops / kOpsOfALayer / 2));
  std::size_t changes = 0;
  for (auto _ : state) changes = merkle::diff(a, b).changes.size();
  state.counters["changes"] = static_cast<double>(changes);
}

BENCHMARK(program_hash)->RangeMultiplier(10)->Range(10'000, 1'000'000)->Unit(benchmark::kMillisecond);
BENCHMARK(regions)->RangeMultiplier(10)->Range(10'000, 1'000'000)->Unit(benchmark::kMillisecond);
BENCHMARK(diff_of_one_layer)->RangeMultiplier(10)->Range(10'000, 1'000'000)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
