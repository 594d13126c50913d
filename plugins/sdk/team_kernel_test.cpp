// Kernels whose items a team of threads does together compute what the C form computes, bit by bit, in whatever order the lanes run. The
// CUDA texts of random programs in strict numerics run here as C: lanes are contexts of one thread, and one runs until it meets the
// others before the next begins, so that a missing meeting shows in one of the two orders.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/graph/random_program.hpp"
#include "core/kernel/host_executor.hpp"
#include "core/kernel/schedule.hpp"
#include "core/kernel/test_program.hpp"
#include "plugins/sdk/c_dialect.hpp"
#include "plugins/sdk/thread_kernel.hpp"

namespace crucible::sdk {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint32_t kLanes = 4;

/// Two teams of four lanes in a block. A team whose lanes do not meet equally often is a trap.
constexpr std::string_view kTeamsAsC = R"(
#include <ucontext.h>
#define bool _Bool
#define __shared__ static
static struct { int64_t x; } blockIdx, blockDim = {8}, gridDim = {3}, threadIdx;
#define __int_as_float(u) crucible_float(u)
#define __longlong_as_double(u) crucible_double(u)
#define crucible_f16_to_f32(h) ((float)(h))
#define crucible_f32_to_f16(x) ((crucible_f16)(x))
#define crucible_f64_to_f16(x) ((crucible_f16)(x))
static ucontext_t scheduler_, lane_[8];
static _Alignas(64) char stack_[8][1 << 17];
static int meetings_[8], done_[8];
static void* const* buffers_;
static const double* scalars_;
static int64_t begin_, end_;
static void __attribute__((noinline)) meet_(void) {
  const int64_t self = threadIdx.x;
  ++meetings_[self];
  swapcontext(&lane_[self], &scheduler_);
}
#define __syncwarp() meet_()
static void __attribute__((noinline)) run_block_(void (*lane)(void), int is_reversed) {
  for (int i = 0; i < 8; ++i) {
    getcontext(&lane_[i]);
    lane_[i].uc_stack.ss_sp = stack_[i];
    lane_[i].uc_stack.ss_size = sizeof(stack_[i]);
    lane_[i].uc_link = &scheduler_;
    meetings_[i] = done_[i] = 0;
    makecontext(&lane_[i], lane, 0);
  }
  for (int left = 8; left > 0;) {
    for (int i = 0; i < 8; ++i) {
      const int at = is_reversed ? 7 - i : i;
      if (done_[at]) continue;
      threadIdx.x = at;
      swapcontext(&scheduler_, &lane_[at]);
      left -= done_[at];
    }
    for (int i = 1; i < 8; ++i) {
      if (i / 4 == (i - 1) / 4 && (done_[i] != done_[i - 1] || meetings_[i] != meetings_[i - 1])) __builtin_trap();
    }
  }
}
static void run_grid_(void (*lane)(void), int is_reversed, void* const* buffers, const double* scalars, int64_t begin, int64_t end) {
  buffers_ = buffers, scalars_ = scalars, begin_ = begin, end_ = end;
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) run_block_(lane, is_reversed);
}
)";

struct Printed {
  std::string text;
  bool is_team = false;
};

/// The kernel as threads would run it, and a function of the C form that runs three blocks of eight of them.
Printed printed(const kernel::Kernel& source, bool is_reversed) {
  Dialect dialect = dialect_cuda();
  dialect.kernel = "static void ";  // extern "C" __global__ is no C
  const Kernel kernel = read_kernel(source.ir.data(), source.ir.size());
  const ThreadKernel threads = print_thread_kernel(kernel, dialect, "threads_" + source.name, kLanes);
  std::string arguments;
  for (std::size_t i = 0; i < kernel.buffers.size(); ++i) arguments += fmt::format("buffers_[{}], ", i);
  for (std::uint32_t i = 0; i < kernel.scalar_count; ++i) arguments += fmt::format("scalars_[{}], ", i);
  return {threads.text + fmt::format("static void lane_{0}(void) {{ threads_{0}({1}begin_, end_); done_[threadIdx.x] = 1; }}\n"
                                     "void {0}(void* const* buffers, const double* scalars, int64_t begin, int64_t end) {{\n"
                                     "  run_grid_(lane_{0}, {2:d}, buffers, scalars, begin, end);\n}}\n",
                                     source.name, arguments, is_reversed),
          threads.lanes > 1};
}

/// How many kernels there are, and how many of them teams do.
struct Count {
  std::size_t kernels = 0, teams = 0;
};

/// Runs the program by the C texts, and by teams whose lanes run in either order: the same bits, in place.
void compare(const graph::Program& program, const std::vector<graph::Bytes>& values, const std::vector<double>& slots, kernel::Numerics numerics, Count& count) {
  const auto scheduled = kernel::schedule(program, {.numerics = numerics});
  ASSERT_TRUE(scheduled) << scheduled.error().message;
  std::string plain;
  for (const kernel::Kernel& kernel : scheduled->kernels)
    plain += print_kernel(read_kernel(kernel.ir.data(), kernel.ir.size()), dialect_c(), kernel.name);
  const auto expected_kernels = kernel::HostKernels::compile_text(plain);
  ASSERT_TRUE(expected_kernels) << expected_kernels.error().message;
  const auto expected = kernel::run_on_host(program, *scheduled, *expected_kernels, values, slots, {.in_place = true});
  ASSERT_TRUE(expected) << expected.error().message;
  for (const bool is_reversed : {false, true}) {
    std::string text(kTeamsAsC);
    for (const kernel::Kernel& kernel : scheduled->kernels) {
      const Printed one = printed(kernel, is_reversed);
      text += one.text;
      count.teams += one.is_team;
      ++count.kernels;
    }
    const auto device_kernels = kernel::HostKernels::compile_text(text);
    ASSERT_TRUE(device_kernels) << device_kernels.error().message;
    const auto got = kernel::run_on_host(program, *scheduled, *device_kernels, values, slots, {.in_place = true});
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(*got, *expected) << (is_reversed ? "lanes in reverse" : "");
  }
}

TEST(SdkTeams, ComputeWhatTheCTextDoesInAnyOrderOfLanes) {
  if (kernel::HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  Count count;
  for (std::uint64_t seed = 500; seed < 508; ++seed) {
    SCOPED_TRACE(seed);
    const graph::RandomProgram random = graph::random_program({.seed = seed, .ops = 40});
    compare(random.program, random.values, random.slots, kernel::Numerics::kStrict, count);
  }
  EXPECT_GT(count.teams, count.kernels / 10) << "of " << count.kernels << " kernels";  // else this says nothing
}

// In fast numerics a loop's turns update one variable: exactly, so that their order shows nowhere.
TEST(SdkTeams, JoinWhatEachLaneSummedUp) {
  if (kernel::HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  using graph::OpKind;
  kernel::TestProgram test;
  for (const std::int64_t columns : {2, 3, 5, 100}) {
    for (const DType type : {DType::kI64, DType::kI32, DType::kF32, DType::kBool}) {
      for (const OpKind kind : {OpKind::kReduceSum, OpKind::kReduceProduct, OpKind::kReduceMax, OpKind::kReduceMin}) {
        const bool is_exact = type == DType::kI64 || type == DType::kI32 || kind == OpKind::kReduceMax || kind == OpKind::kReduceMin;
        if (is_exact) test.keep(test.op(kind, {test.input(type, {37, columns}, -9, 9)}, {37, 1}, type, {.dims = {1}}));
      }
    }
  }
  // A loop around the vector loop: the lanes' sums are joined with what is there already.
  const auto x = test.input(DType::kI64, {7, 37, 12}, -9, 9);
  for (const OpKind kind : {OpKind::kReduceSum, OpKind::kReduceProduct, OpKind::kReduceMax})
    test.keep(test.op(kind, {x}, {1, 37, 1}, DType::kI64, {.dims = {0, 2}}));
  Count count;
  compare(test.program, test.values, test.slots, kernel::Numerics::kFast, count);
  EXPECT_GT(count.teams, count.kernels / 2) << "of " << count.kernels << " kernels";
}

/// The texts of all kernels of a program with one op, in strict numerics, for `lanes` in step.
std::vector<ThreadKernel> kernels_of(const kernel::TestProgram& test, std::uint32_t lanes) {
  const auto scheduled = kernel::schedule(test.program, {.numerics = kernel::Numerics::kStrict});
  std::vector<ThreadKernel> all;
  for (const kernel::Kernel& kernel : scheduled->kernels)
    all.push_back(print_thread_kernel(read_kernel(kernel.ir.data(), kernel.ir.size()), dialect_cuda(), "k", lanes));
  return all;
}

TEST(SdkTeams, DoWhatHasVectorLoops) {
  kernel::TestProgram sums, few, flat;
  sums.keep(sums.reduce(graph::OpKind::kReduceSum, sums.input(DType::kF32, {50, 1000}), {1}));
  few.keep(few.reduce(graph::OpKind::kReduceSum, few.input(DType::kF32, {50, 4}), {1}));
  flat.keep(flat.op(graph::OpKind::kExp, {flat.input(DType::kF32, {5000})}, {5000}));
  const auto warp = kernels_of(sums, 32), wave = kernels_of(sums, 64), one = kernels_of(sums, 1);
  ASSERT_EQ(warp.size(), 1u);
  EXPECT_EQ(warp[0].lanes, 32u);
  EXPECT_EQ(warp[0].most_threads, 256u);
  EXPECT_THAT(warp[0].text, HasSubstr("__shared__ float all_a0[8][32];"));  // 32 chains of each of eight teams
  EXPECT_THAT(warp[0].text, HasSubstr("__syncwarp();"));
  EXPECT_THAT(wave[0].text, HasSubstr("const int lane = threadIdx.x % 64;"));
  EXPECT_EQ(one[0].lanes, 1u);
  EXPECT_THAT(one[0].text, Not(HasSubstr("lane")));
  for (const ThreadKernel& kernel : kernels_of(few, 32)) EXPECT_EQ(kernel.lanes, 1u) << kernel.text;
  for (const ThreadKernel& kernel : kernels_of(flat, 32)) EXPECT_EQ(kernel.lanes, 1u) << kernel.text;
}

}  // namespace
}  // namespace crucible::sdk
