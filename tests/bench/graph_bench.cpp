// From a .crtrace file to the final program, stage by stage, on synthetic recordings of 10^4 to 10^6 ops: how long each
// stage takes, how much memory is in use at most, and whether both grow as the number of ops does.
//
//     graph_bench [--benchmark_filter=...]      one process per size is best for the memory
//     graph_bench --write FILE OPS              only writes a recording, for `crucible graph`
//     graph_bench --once FILE                   takes one recording through all stages, for callgrind
#include <benchmark/benchmark.h>
#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <new>
#include <string>

#include "core/graph/passes.hpp"
#include "core/graph/program_hash.hpp"
#include "core/trace/trace_file.hpp"
#include "frontends/aten/lower.hpp"
#include "tests/bench/training_trace.hpp"

namespace {

// Bytes that operator new has handed out and not taken back, as the allocator rounds them.
std::atomic<std::size_t> live_bytes = 0, peak_bytes = 0, allocations = 0;

void* allocate(std::size_t size) {
  void* block = std::malloc(size == 0 ? 1 : size);
  if (block == nullptr) std::abort();
  const std::size_t live = live_bytes += malloc_usable_size(block) + 8;  // and the allocator's own word
  if (live > peak_bytes) peak_bytes = live;
  ++allocations;
  return block;
}

void release(void* block) {
  if (block != nullptr) live_bytes -= malloc_usable_size(block) + 8;
  std::free(block);
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
void operator delete(void* block) noexcept { release(block); }
void operator delete[](void* block) noexcept { release(block); }
void operator delete(void* block, std::size_t) noexcept { release(block); }
void operator delete[](void* block, std::size_t) noexcept { release(block); }

namespace crucible::bench {
namespace {

/// Of this process's processor, not of the clock on the wall: the pipeline has one thread and waits for nothing, and
/// the machine may have other work.
class Stopwatch {
 public:
  /// Seconds since the last call.
  double lap() {
    const double now = seconds(), time = now - last_;
    last_ = now;
    return time;
  }

 private:
  static double seconds() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  }
  double last_ = seconds();
};

std::filesystem::path written(const TrainingShape& shape) {
  const auto path =
      std::filesystem::temp_directory_path() / ("crucible_graph_bench_" + std::to_string(getpid()) + ".crtrace");
  const auto done = trace::write_file(training_trace(shape), path);
  if (!done) {
    std::fprintf(stderr, "%s\n", done.error().message.c_str());
    std::exit(1);
  }
  return path;
}

/// Arguments: ops per iteration, iterations, foreach.
void FileToGraph(benchmark::State& state) {
  const auto path = written(
      {static_cast<std::size_t>(state.range(0)), static_cast<std::size_t>(state.range(1)), state.range(2) != 0});
  malloc_trim(0);
  double read_s = 0, lower_s = 0, passes_s = 0, hash_s = 0;
  std::size_t ops = 0, program_ops = 0, peak = 0, trace_bytes = 0, program_bytes = 0, count = 0;
  for (auto _ : state) {
    const std::size_t before = live_bytes, allocated = allocations;
    peak_bytes = before;
    Stopwatch watch;
    auto trace = trace::read_file(path);
    if (!trace) return state.SkipWithError(trace.error().message.c_str());
    read_s += watch.lap();
    trace_bytes = live_bytes - before;
    auto program = aten::lower_without_passes(*trace);
    if (!program) return state.SkipWithError(program.error().message.c_str());
    lower_s += watch.lap();
    const auto passed = graph::run_passes(*program, {.blobs = trace->blob_store.get()});
    if (!passed) return state.SkipWithError(passed.error().message.c_str());
    passes_s += watch.lap();
    peak = peak_bytes - before;
    count = allocations - allocated;
    program_bytes = live_bytes - before - trace_bytes;
    ops = trace->ops.size();
    program_ops = program->ops.size();
    state.PauseTiming();
    watch.lap();
    const auto hash = graph::program_hash(*program, {});
    benchmark::DoNotOptimize(hash);
    hash_s += watch.lap();
    *program = {};
    *trace = {};
    state.ResumeTiming();
  }
  std::filesystem::remove(path);
  const auto per_op = [&](double total) { return total / static_cast<double>(ops); };
  const auto each = [](double seconds) {
    return benchmark::Counter(seconds * 1e3, benchmark::Counter::kAvgIterations);
  };
  state.counters["ops"] = static_cast<double>(ops);
  state.counters["program_ops"] = static_cast<double>(program_ops);
  state.counters["read_ms"] = each(read_s);
  state.counters["lower_ms"] = each(lower_s);
  state.counters["passes_ms"] = each(passes_s);
  state.counters["hash_ms"] = each(hash_s);
  state.counters["peak_B_per_op"] = per_op(static_cast<double>(peak));
  state.counters["trace_B_per_op"] = per_op(static_cast<double>(trace_bytes));
  state.counters["program_B_per_program_op"] = static_cast<double>(program_bytes) / static_cast<double>(program_ops);
  state.counters["allocations_per_op"] = per_op(static_cast<double>(count));
}
BENCHMARK(FileToGraph)
    ->ArgNames({"ops", "iterations", "foreach"})
    ->Args({10000, 1, 0})
    ->Args({100000, 1, 0})
    ->Args({1000000, 1, 0})
    ->Args({10000, 3, 0})
    ->Args({100000, 3, 0})
    ->Args({10000, 3, 1})
    ->Args({100000, 3, 1})
    ->Unit(benchmark::kMillisecond);

int once(const char* path) {
  const auto trace = trace::read_file(path);
  auto program = trace ? aten::lower(*trace) : trace.error();
  if (program) std::printf("%zu ops of the recording, %zu of the program\n", trace->ops.size(), program->ops.size());
  if (!program) std::fprintf(stderr, "%s\n", program.error().message.c_str());
  return program ? 0 : 1;
}

int write(const char* path, const char* ops) {
  const auto done = trace::write_file(training_trace({.ops = std::stoul(ops)}), path);
  if (!done) std::fprintf(stderr, "%s\n", done.error().message.c_str());
  return done ? 0 : 1;
}

}  // namespace
}  // namespace crucible::bench

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--once") return crucible::bench::once(argv[2]);
  if (argc == 4 && std::string(argv[1]) == "--write") return crucible::bench::write(argv[2], argv[3]);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
