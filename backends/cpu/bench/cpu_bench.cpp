// What the CPU plugin costs and reaches, through its ABI: a launch inside a plan, a replay's entry, matrix products,
// and the convolutions of ResNet-18 (8 x 3 x 64 x 64) with the reorders that plain NCHW views need. Needs clang.
#include <benchmark/benchmark.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <vector>

#include "core/kernel/ir/ir_builder.hpp"
#include "plugins/kernel_ir/serialize.hpp"
#include "plugins/loader/backend.hpp"

namespace {

using namespace crucible::backend;

template <class T>
T take(crucible::Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "crucible_cpu_bench: %s\n", result.error().message.c_str());
    std::exit(1);
  }
  return *std::move(result);
}

std::shared_ptr<Device> device() {
  static const std::shared_ptr<Device> opened = [] {
    Options options;
    if (const char* threads = std::getenv("CRUCIBLE_THREADS")) options["threads"] = threads;
    if (const char* library = std::getenv("CRUCIBLE_LIBRARY")) options["library"] = library;
    return take(take(Backend::load(take(find_backend("cpu")), options))->open(""));
  }();
  return opened;
}

Buffer random_buffer(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::mt19937 generator(1);
  std::uniform_real_distribution<float> distribution(-1, 1);
  for (float& value : values) value = distribution(generator);
  Buffer buffer = take(Buffer::allocate(device(), values.size() * 4 + 64, 64));
  if (!buffer.write(0, std::as_bytes(std::span(values)))) std::abort();
  return buffer;
}

void replay(benchmark::State& state, Plan& plan) {
  for (int i = 0; i < 3; ++i) (void)static_cast<bool>(plan.replay());
  for (auto _ : state) {
    if (!plan.replay()) state.SkipWithError("replay failed");
  }
}

/// `range(0)` launches of `range(1)` floats each; the counter is the time of one launch.
void launches(benchmark::State& state) {
  crucible::kernel::IrBuilder b;
  b.add_buffer(crucible::DType::kF32, true);
  const auto item = b.open_grid(crucible::kernel::LoopMode::kVector);
  b.store(0, item, b.add(b.let(b.load(0, item)), b.real(1, crucible::DType::kF32)));
  b.close();
  const std::vector<KernelSource> kernels = {{"k_add", "", crucible::kernel::serialize_ir(b.finish())}};
  const Module module = take(Module::compile(device(), kernels));
  const Buffer buffer = random_buffer(state.range(1));
  const std::uint64_t address = buffer.address();
  crucible_op op{};
  op.struct_size = sizeof(op);
  op.kind = CRUCIBLE_OP_LAUNCH;
  op.kernel = take(module.kernel("k_add"));
  op.buffers = &address;
  op.buffer_count = 1;
  op.grid = state.range(1);
  op.grain = 1024;
  const std::vector<crucible_op> ops(static_cast<std::size_t>(state.range(0)), op);
  Plan plan = take(Plan::build(device(), ops, 0));
  replay(state, plan);
  state.counters["per_launch"] = benchmark::Counter(
      static_cast<double>(state.range(0)), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(launches)
    ->ArgNames({"launches", "floats"})
    ->Args({100, 16})
    ->Args({100, 4096})
    ->Args({100, 65536})
    ->Args({1, 16})
    ->UseRealTime();

crucible_view view(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides) {
  crucible_view result{};
  result.rank = static_cast<std::uint32_t>(sizes.size());
  result.dtype = 8;
  std::copy(sizes.begin(), sizes.end(), result.sizes);
  std::copy(strides.begin(), strides.end(), result.strides);
  return result;
}

crucible_view dense(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t stride = 1;
  for (std::size_t i = sizes.size(); i-- > 0; stride *= sizes[i]) strides[i] = stride;
  return view(sizes, strides);
}

std::int64_t count(const crucible_view& v) {
  std::int64_t result = 1;
  for (std::uint32_t i = 0; i < v.rank; ++i) result *= v.sizes[i];
  return result;
}

/// Claims, builds and replays one library call.
void library(benchmark::State& state, const crucible_library_desc& desc, double flops) {
  std::uint64_t scratch = 0;
  if (const auto claimed =
          to_result(device()->backend().library_table().claim(device()->handle(), &desc, &scratch), "claim");
      !claimed) {
    state.SkipWithError(claimed.error().message.c_str());
    return;
  }
  std::vector<Buffer> buffers;
  std::vector<std::uint64_t> addresses;
  for (const crucible_view& v : desc.views) buffers.push_back(random_buffer(count(v)));
  buffers.push_back(take(Buffer::allocate(device(), scratch + 64, 64)));
  for (const Buffer& buffer : buffers) addresses.push_back(buffer.address());
  crucible_op op{};
  op.struct_size = sizeof(op);
  op.kind = CRUCIBLE_OP_LIBRARY;
  op.library = &desc;
  op.buffers = addresses.data();
  op.buffer_count = 4;
  op.scratch_bytes = scratch;
  Plan plan = take(Plan::build(device(), {&op, 1}, 0));
  replay(state, plan);
  state.counters["FLOP/s"] = benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}

/// (batch, m, n, k, transposition of b)
void sgemm(benchmark::State& state) {
  const std::int64_t b = state.range(0), m = state.range(1), n = state.range(2), k = state.range(3);
  crucible_library_desc desc{};
  desc.struct_size = sizeof(desc);
  desc.kind = CRUCIBLE_LIB_MATMUL;
  desc.views[0] = dense({b, m, k});
  desc.views[1] = state.range(4) != 0 ? view({b, k, n}, {k * n, 1, k}) : dense({b, k, n});
  desc.views[2] = dense({b, m, n});
  desc.alpha_f64_bits = std::bit_cast<std::uint64_t>(1.0);
  library(state, desc, 2.0 * static_cast<double>(b * m * n * k));
}
BENCHMARK(sgemm)
    ->ArgNames({"batch", "m", "n", "k", "bt"})
    ->Args({1, 32, 32, 32, 0})
    ->Args({1, 64, 64, 64, 1})
    ->Args({1, 64, 512, 256, 1})
    ->Args({1, 64, 10, 512, 1})
    ->Args({1, 512, 1024, 256, 1})
    ->Args({1, 512, 256, 1024, 1})
    ->Args({1, 512, 2048, 256, 1})
    ->Args({1, 1024, 1024, 1024, 0})
    ->Args({32, 128, 128, 32, 1})
    ->Args({32, 128, 32, 128, 0})
    ->UseRealTime();

struct Conv {
  std::int64_t in, out, size, kernel, stride, padding;
  int times;  // in one step of ResNet-18
};
constexpr Conv kResNet18[] = {{3, 64, 64, 7, 2, 3, 1},   {64, 64, 16, 3, 1, 1, 4},  {64, 128, 16, 3, 2, 1, 1},
                              {64, 128, 16, 1, 2, 0, 1}, {128, 128, 8, 3, 1, 1, 3}, {128, 256, 8, 3, 2, 1, 1},
                              {128, 256, 8, 1, 2, 0, 1}, {256, 256, 4, 3, 1, 1, 3}, {256, 512, 4, 3, 2, 1, 1},
                              {256, 512, 4, 1, 2, 0, 1}, {512, 512, 2, 3, 1, 1, 3}};

crucible_library_desc describe(const Conv& c, std::uint32_t kind) {
  const std::int64_t size = (c.size + 2 * c.padding - c.kernel) / c.stride + 1;
  const crucible_view x = dense({8, c.in, c.size, c.size}), weight = dense({c.out, c.in, c.kernel, c.kernel}),
                      y = dense({8, c.out, size, size});
  crucible_library_desc desc{};
  desc.struct_size = sizeof(desc);
  desc.kind = kind;
  desc.views[0] = kind == CRUCIBLE_LIB_CONV2D ? x : y;
  desc.views[1] = kind == CRUCIBLE_LIB_CONV2D_BACKWARD_WEIGHT ? x : weight;
  desc.views[2] = kind == CRUCIBLE_LIB_CONV2D ? y : kind == CRUCIBLE_LIB_CONV2D_BACKWARD_INPUT ? x : weight;
  for (int i = 0; i < 2; ++i) desc.stride[i] = c.stride, desc.padding[i] = c.padding, desc.dilation[i] = 1;
  desc.groups = 1;
  return desc;
}

double flops_of(const Conv& c) {
  const std::int64_t size = (c.size + 2 * c.padding - c.kernel) / c.stride + 1;
  return 2.0 * 8 * static_cast<double>(c.out * size * size * c.in * c.kernel * c.kernel);
}

constexpr const char* kKindNames[] = {"forward", "backward_input", "backward_weight"};

void convolution(benchmark::State& state) {
  const Conv& c = kResNet18[state.range(1)];
  state.SetLabel(std::string(kKindNames[state.range(0)]) + " " + std::to_string(c.in) + "->" + std::to_string(c.out) +
                 " " + std::to_string(c.size) + "^2 k" + std::to_string(c.kernel) + " s" + std::to_string(c.stride));
  library(state, describe(c, static_cast<std::uint32_t>(CRUCIBLE_LIB_CONV2D + state.range(0))), flops_of(c));
}
BENCHMARK(convolution)
    ->ArgNames({"kind", "shape"})
    ->ArgsProduct({{0, 1, 2}, benchmark::CreateDenseRange(0, 10, 1)})
    ->UseRealTime();

/// All convolutions of one training step, one after the other, as one plan.
void resnet18_convolutions(benchmark::State& state) {
  std::vector<crucible_library_desc> descs;
  double flops = 0;
  for (std::uint32_t kind = 0; kind < 3; ++kind) {
    if (state.range(0) < 3 && kind != static_cast<std::uint32_t>(state.range(0))) continue;
    for (const Conv& c : kResNet18) {
      if (kind == 1 && c.in == 3) continue;  // nobody needs the gradient of the picture
      for (int i = 0; i < c.times; ++i) descs.push_back(describe(c, CRUCIBLE_LIB_CONV2D + kind)), flops += flops_of(c);
    }
  }
  std::vector<Buffer> buffers;
  std::vector<std::vector<std::uint64_t>> addresses;
  std::vector<crucible_op> ops;
  std::uint64_t most = 0;
  for (const crucible_library_desc& desc : descs) {
    std::uint64_t scratch = 0;
    if (!to_result(device()->backend().library_table().claim(device()->handle(), &desc, &scratch), "claim")) {
      state.SkipWithError("no library");
      return;
    }
    most = std::max(most, scratch);
  }
  const Buffer scratch = take(Buffer::allocate(device(), most + 64, 64));
  for (const crucible_library_desc& desc : descs) {
    addresses.emplace_back();
    for (const crucible_view& v : desc.views) {
      buffers.push_back(random_buffer(count(v)));
      addresses.back().push_back(buffers.back().address());
    }
    addresses.back().push_back(scratch.address());
    crucible_op& op = ops.emplace_back();
    op.struct_size = sizeof(op);
    op.kind = CRUCIBLE_OP_LIBRARY;
    op.library = &desc;
    op.buffer_count = 4;
    op.scratch_bytes = most;
  }
  for (std::size_t i = 0; i < ops.size(); ++i) ops[i].buffers = addresses[i].data();
  Plan plan = take(Plan::build(device(), ops, 0));
  replay(state, plan);
  state.SetLabel(state.range(0) < 3 ? kKindNames[state.range(0)] : "all");
  state.counters["FLOP/s"] = benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(resnet18_convolutions)->ArgName("kind")->DenseRange(0, 3)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
