// What the loader costs: beyond dlopen with a warm cache, a cold probe, many of them at once, and a call through a
// plugin's table against a direct one. Run it on an idle machine: loader_bench.
#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "plugins/loader/examine.hpp"

namespace crucible::backend {
namespace {

/// A folder of plugins and of the cache, gone at the end.
class Folder {
 public:
  explicit Folder(int count) {
    char name[] = "/tmp/crucible_bench_XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    folder_ = name;
    for (int i = 0; i < count; ++i) {
      files_.push_back(folder_ / ("libcrucible_number" + std::to_string(i) + ".so"));
      std::filesystem::copy_file(CRUCIBLE_BROKEN_PLUGIN, files_.back());
    }
    policy_.cache_folder = folder_ / "cache";
  }
  ~Folder() { std::filesystem::remove_all(folder_); }
  const std::vector<std::filesystem::path>& files() const { return files_; }
  const LoadPolicy& policy() const { return policy_; }
  void forget() const { std::filesystem::remove_all(folder_ / "cache"); }

 private:
  std::filesystem::path folder_;
  std::vector<std::filesystem::path> files_;
  LoadPolicy policy_;
};

void ExamineWarm(benchmark::State& state) {
  const Folder folder(1);
  DecisionLog log;
  if (!examine(folder.files()[0], folder.policy(), log)) return state.SkipWithError("not examined");
  for (auto _ : state) {
    DecisionLog fresh;
    benchmark::DoNotOptimize(examine(folder.files()[0], folder.policy(), fresh));
  }
}
BENCHMARK(ExamineWarm)->Unit(benchmark::kMicrosecond);

/// All of loading a plugin that this process has not seen: examining it warm, dlopen, query, tables, start.
void LoadWarm(benchmark::State& state) {
  const auto count = static_cast<int>(state.max_iterations);
  const Folder folder(count);
  DecisionLog log;
  for (const auto& file : folder.files()) (void)examine(file, folder.policy(), log).has_value();
  std::size_t next = 0;
  for (auto _ : state) {
    const auto backend = load(explicit_candidate(folder.files()[next++]), {}, folder.policy(), log);
    if (!backend || !(*backend)->start()) return state.SkipWithError("not loaded");
  }
}
BENCHMARK(LoadWarm)->Unit(benchmark::kMicrosecond)->Iterations(50);

void DlopenAlone(benchmark::State& state) {
  const Folder folder(static_cast<int>(state.max_iterations));
  std::size_t next = 0;
  for (auto _ : state) {
    void* const library = dlopen(folder.files()[next++].c_str(), RTLD_NOW | RTLD_LOCAL);
    benchmark::DoNotOptimize(dlsym(library, CRUCIBLE_QUERY_SYMBOL));
  }
}
BENCHMARK(DlopenAlone)->Unit(benchmark::kMicrosecond)->Iterations(50);

void ProbeCold(benchmark::State& state) {
  const Folder folder(1);
  for (auto _ : state) {
    folder.forget();
    DecisionLog log;
    if (!examine(folder.files()[0], folder.policy(), log)) return state.SkipWithError("not examined");
  }
}
BENCHMARK(ProbeCold)->Unit(benchmark::kMillisecond)->UseRealTime();

/// `crucible plugin list` as a user starts it.
void ListOf50Warm(benchmark::State& state) {
  const Folder folder(50);
  const std::string command = "CRUCIBLE_PLUGIN_PATH=" + folder.files()[0].parent_path().string() +
                              " XDG_CACHE_HOME=" + folder.policy().cache_folder.string() +
                              " " CRUCIBLE_COMMAND " plugin list > /dev/null";
  if (std::system(command.c_str()) != 0) return state.SkipWithError("crucible plugin list failed: build it first");
  for (auto _ : state) {
    if (std::system(command.c_str()) != 0) return state.SkipWithError("crucible plugin list failed");
  }
}
BENCHMARK(ListOf50Warm)->Unit(benchmark::kMillisecond)->UseRealTime();

/// The smallest function of a table, in this program and in the plugin.
__attribute__((noinline)) crucible_status direct_call(crucible_device* device) {
  benchmark::DoNotOptimize(device);
  return nullptr;
}
void CallDirect(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(direct_call(nullptr));
}
BENCHMARK(CallDirect);

void CallThroughTable(benchmark::State& state) {
  const Folder folder(1);
  DecisionLog log;
  const auto backend = load(explicit_candidate(folder.files()[0]), {}, folder.policy(), log);
  if (!backend || !(*backend)->start()) return state.SkipWithError("not loaded");
  const crucible_if_device& table = (*backend)->device_table();
  for (auto _ : state) benchmark::DoNotOptimize(table.close(nullptr));
}
BENCHMARK(CallThroughTable);

}  // namespace
}  // namespace crucible::backend

BENCHMARK_MAIN();
