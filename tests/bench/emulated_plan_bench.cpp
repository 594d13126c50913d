// What a replay of a plan costs on the host, kernels apart: plans with as many launches as a training step has, on the
// emulated drivers of NVIDIA, AMD and Intel, whose launches do nothing here (CRUCIBLE_EMU_EMPTY). Part of what is left
// is the emulator's own.
//
// At most 20 us and 0.1 us per node are wanted for a replay, 1 us for patching a slot.
#include <benchmark/benchmark.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/kernel/ir/ir_builder.hpp"
#include "core/kernel/schedule.hpp"
#include "plugins/kernel_ir/serialize.hpp"
#include "plugins/loader/backend.hpp"

namespace crucible {
namespace {

constexpr std::uint32_t kBuffers = 6;  // of a launch, as a step's kernels have on average

template <class T>
T take(Result<T> result) {
  if (result) return *std::move(result);
  std::fprintf(stderr, "emulated_plan_bench: %s\n", result.error().message.c_str());
  std::exit(1);
}
void take(const Result<void>& result) {
  if (result) return;
  std::fprintf(stderr, "emulated_plan_bench: %s\n", result.error().message.c_str());
  std::exit(1);
}

/// b0[i] = the sum of all others at i, and the scalar.
backend::KernelSource sums() {
  kernel::IrBuilder b;
  for (std::uint32_t i = 0; i < kBuffers; ++i) b.add_buffer(DType::kF32, i == 0);
  const std::uint32_t scalar = b.add_scalar();
  const kernel::ExprId item = b.open_grid(kernel::LoopMode::kSerial);
  kernel::ExprId sum = b.let(b.scalar(scalar, DType::kF32));
  for (std::uint32_t i = 1; i < kBuffers; ++i) sum = b.let(b.add(sum, b.load(i, item)));
  b.store(0, item, sum);
  b.close();
  return {"sums", "", kernel::serialize_ir(b.finish())};
}

/// An open device with the kernel.
struct Bench {
  std::shared_ptr<backend::Device> device;
  std::unique_ptr<backend::Module> module;
  std::unique_ptr<backend::Buffer> buffer;
  std::vector<std::uint64_t> places;
  crucible_scalar fixed = {}, slotted = {};

  explicit Bench(const std::string& name) {
    const std::filesystem::path emulators = CRUCIBLE_BENCH_EMULATORS;
    std::map<std::string, backend::Options> options = {
        {"nvidia", {{"library", emulators / "nvidia/libcuda.so.1"}, {"nvrtc", CRUCIBLE_BENCH_NVRTC}}},
        {"amd",
         {{"library", emulators / "amd/libamdhip64.so.6"},
          {"hiprtc", emulators / "amd/libhiprtc.so.6"},
          {"compiler", "hiprtc"}}},
        {"intel", {{"library", emulators / "intel/libze_emulated.so"}}}};
    auto loaded = take(backend::Backend::load(take(backend::find_backend(name)), options.at(name)));
    device = take(loaded->open(""));
    const backend::KernelSource text = sums();
    module = std::make_unique<backend::Module>(take(backend::Module::compile(device, std::span(&text, 1))));
    buffer = std::make_unique<backend::Buffer>(take(backend::Buffer::allocate(device, kBuffers * 4096, 256)));
    for (std::uint32_t i = 0; i < kBuffers; ++i) places.push_back(buffer->address() + i * 4096);
    fixed.slot = CRUCIBLE_SLOT_NONE;
    slotted.slot = 0;
  }

  /// `count` launches, the last of which has its scalar in a slot.
  backend::Plan plan(std::size_t count) const {
    crucible_op op = {};
    op.struct_size = sizeof op;
    op.kind = CRUCIBLE_OP_LAUNCH;
    op.buffers = places.data();
    op.buffer_count = kBuffers;
    op.scalar_count = 1;
    op.scalars = &fixed;
    op.kernel = take(module->kernel("sums"));
    op.grid = 1024;
    op.grain = 1;
    std::vector<crucible_op> ops(count, op);
    ops.back().scalars = &slotted;
    return take(backend::Plan::build(device, ops, 1));
  }
};

void replay(benchmark::State& state, const std::string& name) {
  const Bench bench(name);
  backend::Plan plan = bench.plan(static_cast<std::size_t>(state.range(0)));
  take(plan.replay());
  for (auto _ : state) take(plan.replay());
}

/// set_slots with another value each time.
void patch(benchmark::State& state, const std::string& name) {
  const Bench bench(name);
  backend::Plan plan = bench.plan(static_cast<std::size_t>(state.range(0)));
  take(plan.replay());
  double value = 0;
  for (auto _ : state) {
    value += 1;
    const auto bits = std::bit_cast<std::uint64_t>(value);
    take(plan.set_slots({&bits, 1}));
  }
}

/// The same, and a replay: where patching is put off until then, it is in this.
void patch_and_replay(benchmark::State& state, const std::string& name) {
  const Bench bench(name);
  backend::Plan plan = bench.plan(static_cast<std::size_t>(state.range(0)));
  take(plan.replay());
  double value = 0;
  for (auto _ : state) {
    value += 1;
    const auto bits = std::bit_cast<std::uint64_t>(value);
    take(plan.set_slots({&bits, 1}));
    take(plan.replay());
  }
}

}  // namespace
}  // namespace crucible

int main(int count, char** words) {
  setenv("CRUCIBLE_EMU_EMPTY", "1", 1);
  for (const char* name : {"nvidia", "amd", "intel"}) {
    if (std::string(name) == "intel" && std::getenv("CRUCIBLE_INTEL_OPENCL") == nullptr) continue;
    using crucible::patch, crucible::patch_and_replay, crucible::replay;
    benchmark::RegisterBenchmark((std::string("replay/") + name).c_str(), replay, name)
        ->Arg(1)
        ->Arg(250)
        ->Arg(1000)
        ->UseRealTime()
        ->Unit(benchmark::kMicrosecond);
    benchmark::RegisterBenchmark((std::string("patch/") + name).c_str(), patch, name)
        ->Arg(250)
        ->UseRealTime()
        ->Unit(benchmark::kMicrosecond);
    benchmark::RegisterBenchmark((std::string("patch_and_replay/") + name).c_str(), patch_and_replay, name)
        ->Arg(250)
        ->UseRealTime()
        ->Unit(benchmark::kMicrosecond);
  }
  benchmark::Initialize(&count, words);
  if (benchmark::ReportUnrecognizedArguments(count, words)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
