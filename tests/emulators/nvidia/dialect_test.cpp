// Crucible's own kernels, as CUDA C++ through NVIDIA's real compiler and the translator, do what their C texts do, bit
// by bit: random programs with all that the kernel IR can say. No driver takes part.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <string>

#include "core/graph/random_program.hpp"
#include "core/graph/whole_slot_program.hpp"
#include "core/kernel/schedule.hpp"
#include "core/kernel/testing/host_executor.hpp"
#include "plugins/sdk/mathematics.hpp"
#include "plugins/sdk/thread_kernel.hpp"
#include "tests/emulators/core/grid.hpp"
#include "tests/emulators/nvidia/testing/cuda_session.hpp"
#include "tests/emulators/ptx/load.hpp"

namespace crucible::emulators::nvidia::testing {
namespace {

/// Kernels on the emulated device, called through functions of the C form.
struct Emulated {
  ptx::Library library;
  std::vector<std::uint32_t> scalars;  // of each kernel, how many
};

/// All arguments have 8 bytes: pointers, doubles, and the two ends of the items.
void run(const Emulated* emulated, int index, void* const* buffers, const double* scalars, std::int64_t begin,
         std::int64_t end) {
  const auto i = static_cast<std::size_t>(index);
  const std::size_t count = emulated->library.translation().kernels[i].parameters.size(),
                    buffer_count = count - 2 - emulated->scalars[i];
  std::vector<std::uint64_t> arguments(count);
  for (std::size_t k = 0; k < count; ++k) {
    if (k < buffer_count) {
      arguments[k] = reinterpret_cast<std::uint64_t>(buffers[k]) | EMU_TAG;
    } else if (k < count - 2) {
      std::memcpy(&arguments[k], &scalars[k - buffer_count], 8);
    } else {
      arguments[k] = static_cast<std::uint64_t>(k == count - 2 ? begin : end);
    }
  }
  const emulator::Launch launch = {{3, 1, 1}, {32, 1, 1}, 0, reinterpret_cast<const char*>(arguments.data())};
  EXPECT_EQ(emulator::run_grid(emulated->library.code(i), launch), emulator::Outcome::kDone)
      << emulated->library.translation().kernels[i].name;
}

/// A program's kernels by the C text and by CUDA's on the emulator: the same bits, of which `judge` gets the device's.
void compare(const graph::RandomProgram& random, const kernel::Options& options, const std::string& what,
             const std::function<std::string(const std::vector<graph::Bytes>&)>& judge) {
  sdk::Dialect plain_c = sdk::dialect_c();
  plain_c.vector_loop = plain_c.wide_vector_loop = "";  // those may sum in any order
  const auto scheduled = kernel::schedule(random.program, options);
  ASSERT_TRUE(scheduled) << scheduled.error().message;
  std::string plain, cuda = sdk::math_text(sdk::dialect_cuda());
  std::map<std::string, std::uint32_t> scalar_counts;
  std::size_t teams = 0;
  for (const kernel::Kernel& kernel : scheduled->kernels) {
    const sdk::Kernel read = sdk::read_kernel(kernel.ir.data(), kernel.ir.size());
    plain += sdk::print_kernel(read, plain_c, kernel.name);
    const sdk::Team team = sdk::plan_threads(read, options.device.lanes);
    teams += team.lanes > 1;
    cuda += sdk::print_kernel(read, sdk::dialect_cuda(), kernel.name, team);
    scalar_counts[kernel.name] = static_cast<std::uint32_t>(read.scalars.size());
  }
  EXPECT_EQ(teams > 0, options.device.lanes > 1) << what;
  const auto expected_kernels = kernel::HostKernels::compile_text(plain);
  ASSERT_TRUE(expected_kernels) << expected_kernels.error().message;
  ptx::Translation translation;
  ASSERT_NO_THROW(translation = ptx::translate(compile_cuda(cuda, "compute_90", {"-fmad=false"}))) << what;
  auto library = ptx::Library::load(std::move(translation));
  ASSERT_TRUE(library) << library.error();
  Emulated emulated = {std::move(*library), {}};
  std::string calls;
  for (const auto& kernel : emulated.library.translation().kernels) {
    calls += fmt::format(
        "void {}(void* const* buffers, const double* scalars, int64_t begin, int64_t end) {{\n"
        "  ((void (*)(const void*, int, void* const*, const double*, int64_t, int64_t)){}ull)((const void*){}ull, {}, "
        "buffers, scalars, "
        "begin, end);\n}}\n",
        kernel.name, reinterpret_cast<std::uintptr_t>(&run), reinterpret_cast<std::uintptr_t>(&emulated),
        emulated.scalars.size());
    emulated.scalars.push_back(scalar_counts.at(kernel.name));
  }
  const auto device_kernels = kernel::HostKernels::compile_text(calls);
  ASSERT_TRUE(device_kernels) << device_kernels.error().message;
  // In place, an item that is done twice shows.
  const auto expected = kernel::run_on_host(random.program, *scheduled, *expected_kernels, random.values, random.slots,
                                            {.in_place = true});
  ASSERT_TRUE(expected) << expected.error().message;
  const auto got =
      kernel::run_on_host(random.program, *scheduled, *device_kernels, random.values, random.slots, {.in_place = true});
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(*got, *expected) << what;
  EXPECT_EQ(judge(*got), "") << what;
}

TEST(EmulatedCudaDialect, CudaTextOnTheEmulatorComputesWhatTheCTextDoes) {
  if (kernel::HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  for (std::uint64_t seed = 310; seed < 316; ++seed) {
    compare(graph::random_program({.seed = seed, .ops = 40}), {}, fmt::format("seed {}", seed),
            [](const auto&) { return ""; });
  }
}

// Warps in strict numerics: items by 32 lanes that tell each other numbers, loops by several turns.
TEST(EmulatedCudaDialect, WarpsComputeWhatTheCTextDoes) {
  if (kernel::HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  for (std::uint64_t seed = 320; seed < 324; ++seed) {
    compare(graph::random_program({.seed = seed, .ops = 40}),
            {.numerics = kernel::Numerics::kStrict, .device = {.workers = 4096, .register_bytes = 1020, .lanes = 32}},
            fmt::format("seed {}", seed), [](const auto&) { return ""; });
  }
}

TEST(EmulatedCudaDialect, WholeSlotsKeepEveryDigit) {
  if (kernel::HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  const graph::WholeSlotProgram made = graph::whole_slot_program();
  for (std::size_t i = 0; i < graph::kWholeNumbers.size(); ++i) {
    compare({made.program, made.values, made.slots[i]}, {.fuse = i % 2 == 0},
            fmt::format("{}", graph::kWholeNumbers[i]),
            [&](const std::vector<graph::Bytes>& values) { return graph::difference(made, i, made.program, values); });
  }
}

}  // namespace
}  // namespace crucible::emulators::nvidia::testing
