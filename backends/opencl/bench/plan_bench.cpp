// What a replay costs beside its kernels, and what a patched slot costs, through the ABI of any plugin:
//   plan_bench [options of Google Benchmark] BACKEND [NAME=VALUE ...]     plan_bench opencl plans=queue memory=buffers
// Plans have `range(0)` launches of one item each, a tenth of which take a slot. `host_us` is the processor time of the
// calling thread, plugin and driver together; `beside_us` is a replay's time less what kernels take by plan.profile,
// which a driver's own threads are part of.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <numeric>
#include <string>
#include <vector>

#include "core/kernel/ir/ir_builder.hpp"
#include "core/kernel/schedule.hpp"
#include "plugins/kernel_ir/serialize.hpp"
#include "plugins/loader/backend.hpp"

namespace {

using namespace crucible;
using namespace crucible::backend;

constexpr std::uint32_t kSlots = 8;

template <class T>
T take(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "plan_bench: %s\n", result.error().message.c_str());
    std::exit(1);
  }
  return *std::move(result);
}

std::shared_ptr<Device>& device() {
  static std::shared_ptr<Device> opened;
  return opened;
}

/// buffer[0][i] = buffer[1][i] * scalar
KernelSource scaled() {
  kernel::IrBuilder b;
  b.add_buffer(DType::kF32, true);
  b.add_buffer(DType::kF32, false);
  const std::uint32_t scalar = b.add_scalar();
  const kernel::ExprId item = b.open_grid(kernel::LoopMode::kSerial);
  b.store(0, item, b.binary(kernel::Operation::kMultiply, b.load(1, item), b.scalar(scalar, DType::kF32)));
  b.close();
  return {"scaled", "", kernel::serialize_ir(b.finish())};
}

struct Bench {
  explicit Bench(std::int64_t launches)
      : text(scaled()),
        module(take(Module::compile(device(), std::span(&text, 1)))),
        buffer(take(Buffer::allocate(device(), 64, 64))),
        places({buffer.address(), buffer.address() + 32}),
        plan(build(launches)) {}

  Plan build(std::int64_t launches) {
    std::vector<crucible_scalar> scalars(static_cast<std::size_t>(launches), {0, CRUCIBLE_SLOT_NONE, 0});
    std::vector<crucible_op> ops;
    for (std::size_t i = 0; i < scalars.size(); ++i) {
      if (i % 10 == 0) scalars[i].slot = static_cast<std::uint32_t>(i / 10 % kSlots);
      crucible_op op = {};
      op.struct_size = sizeof(op);
      op.kind = CRUCIBLE_OP_LAUNCH;
      op.kernel = take(module.kernel("scaled"));
      op.buffers = places.data();
      op.buffer_count = 2;
      op.scalars = &scalars[i];
      op.scalar_count = 1;
      op.grid = op.grain = 1;
      ops.push_back(op);
    }
    return take(Plan::build(device(), ops, kSlots));
  }

  KernelSource text;
  Module module;
  Buffer buffer;
  std::vector<std::uint64_t> places;
  Plan plan;
};

double thread_seconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

void replay(benchmark::State& state) {
  Bench bench(state.range(0));
  for (int i = 0; i < 3; ++i) (void)static_cast<bool>(bench.plan.replay());
  const std::vector<std::uint64_t> times = take(bench.plan.profile());
  double seconds = 0;
  const double before = thread_seconds();
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    if (!bench.plan.replay()) state.SkipWithError("replay failed");
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  const double host_us = (thread_seconds() - before) * 1e6 / static_cast<double>(state.iterations());
  const double kernels_us = std::accumulate(times.begin(), times.end(), 0.0) / 1e3;
  const double replay_us = seconds * 1e6 / static_cast<double>(state.iterations());
  state.counters["host_us"] = host_us;
  state.counters["beside_us"] = replay_us - kernels_us;
}
BENCHMARK(replay)->Arg(10)->Arg(100)->Arg(1000)->Unit(benchmark::kMicrosecond)->UseRealTime();

/// All slots change, without a replay: `host_us_per_launch` is for each launch that takes one.
void patch(benchmark::State& state) {
  Bench bench(state.range(0));
  (void)static_cast<bool>(bench.plan.replay());
  double value = 0;
  const double before = thread_seconds();
  for (auto _ : state) {
    const std::vector values(kSlots, std::bit_cast<std::uint64_t>(value += 1));
    if (!bench.plan.set_slots(values)) state.SkipWithError("set_slots failed");
  }
  const auto launches = static_cast<double>((state.range(0) + 9) / 10);
  state.counters["host_us_per_launch"] =
      (thread_seconds() - before) * 1e6 / static_cast<double>(state.iterations()) / launches;
}
BENCHMARK(patch)->Arg(10)->Arg(100)->Arg(1000)->Unit(benchmark::kMicrosecond)->UseRealTime();

}  // namespace

int main(int count, char** words) {
  benchmark::Initialize(&count, words);
  if (count < 2) {
    std::fprintf(stderr, "plan_bench BACKEND [NAME=VALUE ...]\n");
    return 1;
  }
  Options options;
  for (int i = 2; i < count; ++i) {
    const std::string word = words[i];
    options[word.substr(0, word.find('='))] = word.substr(std::min(word.size(), word.find('=') + 1));
  }
  device() = take(take(Backend::load(take(find_backend(words[1])), options))->open(""));
  for (const auto& [key, value] : take(device()->properties())) {
    if (key == "name" || key == "plans" || key == "memory") std::printf("%s: %s\n", key.c_str(), value.c_str());
  }
  benchmark::RunSpecifiedBenchmarks();
  device() = nullptr;
  return 0;
}
