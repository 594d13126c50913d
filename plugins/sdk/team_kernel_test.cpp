// Kernels whose items a team of threads does together compute what the C form computes, bit by bit, in whatever order
// the lanes run. The CUDA texts of random programs in strict numerics run here as C: lanes are contexts of one thread,
// and one runs until it meets the others before the next begins, so that a missing meeting shows in one of the two
// orders.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/graph/random_program.hpp"
#include "core/kernel/schedule.hpp"
#include "core/kernel/testing/host_executor.hpp"
#include "core/kernel/testing/test_program.hpp"
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
#define crucible_assume_aligned(p, n)
static struct { int64_t x; } blockIdx, blockDim = {8}, gridDim = {3}, threadIdx;
#define __int_as_float(u) crucible_float(u)
#define __longlong_as_double(u) crucible_double(u)
#define crucible_f16_to_f32(h) ((float)(h))
#define crucible_f32_to_f16(x) ((crucible_f16)(x))
#define crucible_f64_to_f16(x) ((crucible_f16)(x))
static ucontext_t scheduler_, lane_[64];
static _Alignas(64) char stack_[64][1 << 17];
static int meetings_[64], done_[64], lanes_;
static void* const* buffers_;
static const double* scalars_;
static int64_t begin_, end_;
static void __attribute__((noinline)) meet_(void) {
  const int64_t self = threadIdx.x;
  ++meetings_[self];
  swapcontext(&lane_[self], &scheduler_);
}
#define __syncwarp() meet_()
#define __syncthreads() meet_()
static char offered_[64][8];
#define crucible_from_lane(number, lane, which) ({ \
  __typeof__(number) x_ = (number); const int64_t which_ = (which), self_ = threadIdx.x; \
  __builtin_memcpy(offered_[self_], &x_, sizeof(x_)); \
  meet_(); \
  if (which_ >= 0 && which_ < 4) __builtin_memcpy(&x_, offered_[self_ / 4 * 4 + which_], sizeof(x_)); \
  meet_(); \
  x_; })
#define crucible_lane_xor(number, lane, width) crucible_from_lane(number, lane, (lane) ^ (width))
#define crucible_lane_above(number, lane, distance) crucible_from_lane(number, lane, (lane) + (distance))
#define check_(n, p) if ((uint64_t)(p) % ((n) * sizeof(*(p))) != 0) __builtin_trap()
#define crucible_read(n, to, from) check_(n, from); __builtin_memcpy(to, from, (n) * sizeof(*(to)))
#define crucible_write(n, to, from) check_(n, to); __builtin_memcpy(to, from, (n) * sizeof(*(to)))
#define crucible_quotient(a, b) ((int64_t)(a) / (int32_t)(b))
#define crucible_remainder(a, b) ((int64_t)(a) % (int32_t)(b))
static void __attribute__((noinline)) run_block_(void (*lane)(void), int is_reversed) {
  const int threads = blockDim.x;
  for (int i = 0; i < threads; ++i) {
    getcontext(&lane_[i]);
    lane_[i].uc_stack.ss_sp = stack_[i];
    lane_[i].uc_stack.ss_size = sizeof(stack_[i]);
    lane_[i].uc_link = &scheduler_;
    meetings_[i] = done_[i] = 0;
    makecontext(&lane_[i], lane, 0);
  }
  for (int left = threads; left > 0;) {
    for (int i = 0; i < threads; ++i) {
      const int at = is_reversed ? threads - 1 - i : i;
      if (done_[at]) continue;
      threadIdx.x = at;
      swapcontext(&scheduler_, &lane_[at]);
      left -= done_[at];
    }
    for (int i = 1; i < threads; ++i) {
      if (i / lanes_ == (i - 1) / lanes_ && (done_[i] != done_[i - 1] || meetings_[i] != meetings_[i - 1])) __builtin_trap();
    }
  }
}
static void run_grid_(void (*lane)(void), int is_reversed, int lanes, void* const* buffers, const double* scalars, int64_t begin, int64_t end) {
  lanes_ = lanes, blockDim.x = lanes > 8 ? lanes : 8;
  buffers_ = buffers, scalars_ = scalars, begin_ = begin, end_ = end;
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) run_block_(lane, is_reversed);
}
)";

struct Printed {
  std::string text;
  bool is_team = false, is_block = false;
};

/// The kernel as threads would run it, and a function of the C form that runs three blocks of eight of them.
Printed printed(const kernel::Kernel& source, bool is_reversed) {
  Dialect dialect = dialect_cuda();
  dialect.kernel = "static void ";  // extern "C" __global__ is no C
  const Kernel kernel = read_kernel(source.ir.data(), source.ir.size());
  const ThreadKernel threads = print_thread_kernel(kernel, dialect, "threads_" + source.name, kLanes);
  std::string arguments;
  for (std::size_t i = 0; i < kernel.buffers.size(); ++i) arguments += fmt::format("buffers_[{}], ", i);
  for (std::size_t i = 0; i < kernel.scalars.size(); ++i)
    arguments += fmt::format("((const {}*)scalars_)[{}], ", scalar_type(kernel.scalars[i]), i);
  return {threads.text +
              fmt::format("static void lane_{0}(void) {{ threads_{0}({1}begin_, end_); done_[threadIdx.x] = 1; }}\n"
                          "void {0}(void* const* buffers, const double* scalars, int64_t begin, int64_t end) {{\n"
                          "  run_grid_(lane_{0}, {2:d}, {3}, buffers, scalars, begin, end);\n}}\n",
                          source.name, arguments, is_reversed, threads.lanes),
          threads.lanes > 1, threads.lanes > kLanes};
}

/// How many kernels there are, and how many of them teams do.
struct Count {
  std::size_t kernels = 0, teams = 0, blocks = 0, wide = 0, registers = 0;
};

/// Runs the program by the C texts as a processor gets them, and by teams whose lanes run in either order, as a device
/// gets them whose threads run in step: the same bits, in place.
void compare(const graph::Program& program, const std::vector<graph::Bytes>& values,
             const std::vector<graph::Number>& slots, kernel::Numerics numerics, Count& count) {
  const auto scheduled = kernel::schedule(program, {.numerics = numerics});
  ASSERT_TRUE(scheduled) << scheduled.error().message;
  std::string plain;
  for (const kernel::Kernel& kernel : scheduled->kernels)
    plain += print_kernel(read_kernel(kernel.ir.data(), kernel.ir.size()), dialect_c(), kernel.name);
  const auto expected_kernels = kernel::HostKernels::compile_text(plain);
  ASSERT_TRUE(expected_kernels) << expected_kernels.error().message;
  const auto expected = kernel::run_on_host(program, *scheduled, *expected_kernels, values, slots, {.in_place = true});
  ASSERT_TRUE(expected) << expected.error().message;
  const auto in_step = kernel::schedule(
      program, {.numerics = numerics, .device = {.workers = 24, .register_bytes = 1020, .lanes = kLanes}});
  ASSERT_TRUE(in_step) << in_step.error().message;
  for (const bool is_reversed : {false, true}) {
    std::string text(kTeamsAsC);
    for (const kernel::Kernel& kernel : in_step->kernels) {
      const Printed one = printed(kernel, is_reversed);
      text += one.text;
      count.teams += one.is_team;
      count.blocks += one.is_block;
      count.wide += one.text.find("crucible_read(") != std::string::npos;
      count.registers += one.text.find("crucible_lane_above(") != std::string::npos;
      ++count.kernels;
    }
    const auto device_kernels = kernel::HostKernels::compile_text(text);
    ASSERT_TRUE(device_kernels) << device_kernels.error().message;
    const auto got = kernel::run_on_host(program, *in_step, *device_kernels, values, slots, {.in_place = true});
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
  EXPECT_GT(count.wide, count.kernels / 10) << "of " << count.kernels << " kernels";
  EXPECT_GT(count.registers, 0u);
}

// In fast numerics a loop's turns update one variable: exactly, so that their order shows nowhere.
TEST(SdkTeams, JoinWhatEachLaneSummedUp) {
  if (kernel::HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  using graph::OpKind;
  kernel::TestProgram test;
  for (const std::int64_t columns : {2, 3, 5, 100, 300, 512}) {
    for (const DType type : {DType::kI64, DType::kI32, DType::kF32, DType::kBool}) {
      for (const OpKind kind : {OpKind::kReduceSum, OpKind::kReduceProduct, OpKind::kReduceMax, OpKind::kReduceMin}) {
        const bool is_exact =
            type == DType::kI64 || type == DType::kI32 || kind == OpKind::kReduceMax || kind == OpKind::kReduceMin;
        if (is_exact) test.keep(test.op(kind, {test.input(type, {37, columns}, -9, 9)}, {37, 1}, type, {.dims = {1}}));
      }
    }
  }
  Count count;
  compare(test.program, test.values, test.slots, kernel::Numerics::kFast, count);
  EXPECT_GT(count.teams, count.kernels / 2) << "of " << count.kernels << " kernels";
  EXPECT_GT(count.blocks, count.kernels / 4) << "of " << count.kernels << " kernels";
}

/// Rows that are long for four lanes: blocks of up to 32 do them, in which eight groups join.
TEST(SdkTeams, BlocksDoLongRows) {
  if (kernel::HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  kernel::TestProgram test;
  const auto x = test.input(DType::kI64, {7, 600}, -99, 99);
  const auto sum = test.op(graph::OpKind::kReduceSum, {x}, {7, 1}, DType::kI64, {.dims = {1}});
  const auto most = test.op(graph::OpKind::kReduceMax, {x}, {7, 1}, DType::kI64, {.dims = {1}});
  test.keep(test.op(graph::OpKind::kAdd, {x, test.op(graph::OpKind::kMultiply, {sum, most}, {7, 1}, DType::kI64)},
                    {7, 600}, DType::kI64));
  Count count;
  compare(test.program, test.values, test.slots, kernel::Numerics::kFast, count);
  EXPECT_GT(count.blocks, 0u);
}

/// All threads of a block meet there, so that a second team in it would have to do as many items.
TEST(SdkTeams, ABlockThatDoesAnItemIsOneTeam) {
  kernel::TestProgram test;
  const auto x = test.input(DType::kF32, {7, 4800});
  test.keep(test.op(graph::OpKind::kReduceSum, {x}, {7, 1}, DType::kF32, {.dims = {1}}));
  const auto scheduled = kernel::schedule(test.program, {.numerics = kernel::Numerics::kFast});
  ASSERT_TRUE(scheduled) << scheduled.error().message;
  std::size_t blocks = 0;
  for (const std::uint32_t lanes : {8u, 16u, 32u}) {
    for (const kernel::Kernel& source : scheduled->kernels) {
      const Kernel kernel = read_kernel(source.ir.data(), source.ir.size());
      const ThreadKernel threads = print_thread_kernel(kernel, dialect_cuda(), "k", lanes);
      if (threads.lanes <= lanes) continue;
      EXPECT_EQ(threads.most_threads, threads.lanes) << lanes;
      ++blocks;
    }
  }
  EXPECT_GE(blocks, 2u);
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
  EXPECT_THAT(warp[0].text, HasSubstr("float a0[1];"));  // a chain for each lane
  EXPECT_THAT(warp[0].text, HasSubstr("crucible_lane_above(a0[0], lane, 16)"));
  EXPECT_THAT(warp[0].text, Not(HasSubstr("__shared__")));
  EXPECT_THAT(warp[0].text, Not(HasSubstr("__syncwarp")));
  EXPECT_THAT(wave[0].text, HasSubstr("const int32_t lane = threadIdx.x % 64;"));
  EXPECT_EQ(one[0].lanes, 1u);
  EXPECT_THAT(one[0].text, Not(HasSubstr("lane")));
  for (const ThreadKernel& kernel : kernels_of(few, 32)) EXPECT_EQ(kernel.lanes, 1u) << kernel.text;
  for (const ThreadKernel& kernel : kernels_of(flat, 32)) EXPECT_EQ(kernel.lanes, 1u) << kernel.text;
}

/// An item: v1 = 5; for the turns v2 of a vector loop: v3 = b0[v2], v1 = v1 OP v3; then b1[item] = v1.
struct Handmade {
  Kernel kernel;
  std::uint32_t item, turn, sum, number;
  explicit Handmade(Op op = Op::kAdd, std::int64_t turns = 100) {
    kernel.buffers = {{Type::kI64, false, false}, {Type::kI64, true, false}};
    kernel.variables = {{Type::kI64, false}, {Type::kI64, true}, {Type::kI64, false}, {Type::kI64, false}};
    item = variable(0), sum = variable(1), turn = variable(2), number = variable(3);
    Stmt loop{
        .kind = StmtKind::kFor, .mode = LoopMode::kVector, .id = 2, .a = integer(0), .b = integer(turns), .body = {}};
    loop.body = {let(3, add({.operation = Op::kLoad, .type = Type::kI64, .in = {turn, kNoId, kNoId}, .id = 0})),
                 set(1, binary(op, sum, number))};
    Stmt grid{.kind = StmtKind::kGrid, .id = 0, .body = {}};
    grid.body = {let(1, integer(5)), loop, {.kind = StmtKind::kStore, .id = 1, .a = item, .b = sum, .body = {}}};
    kernel.body = {grid};
  }
  std::vector<Stmt>& in_item() { return kernel.body[0].body; }
  std::vector<Stmt>& in_loop() { return in_item()[1].body; }
  std::uint32_t add(const Expr& expr) {
    kernel.exprs.push_back(expr);
    return static_cast<std::uint32_t>(kernel.exprs.size() - 1);
  }
  std::uint32_t integer(std::int64_t value) {
    return add({.operation = Op::kInteger, .type = Type::kI64, .integer = value});
  }
  std::uint32_t variable(std::uint32_t id) { return add({.operation = Op::kVariable, .type = Type::kI64, .id = id}); }
  std::uint32_t binary(Op op, std::uint32_t a, std::uint32_t b) {
    return add({.operation = op, .type = Type::kI64, .in = {a, b, kNoId}});
  }
  static Stmt let(std::uint32_t id, std::uint32_t a) { return {.kind = StmtKind::kLet, .id = id, .a = a, .body = {}}; }
  static Stmt set(std::uint32_t id, std::uint32_t a) { return {.kind = StmtKind::kSet, .id = id, .a = a, .body = {}}; }
  ThreadKernel print() const {
    check_kernel(kernel);  // else the test is wrong
    return print_thread_kernel(kernel, dialect_cuda(), "k", 32);
  }
};

TEST(SdkTeams, GoOnWithTheOldValueInOneLane) {
  EXPECT_THAT(Handmade(Op::kAdd).print().text, HasSubstr("if (lane != 0) v1 = 0;"));
  EXPECT_THAT(Handmade(Op::kMultiply).print().text, HasSubstr("if (lane != 0) v1 = 1;"));
  EXPECT_THAT(Handmade(Op::kMaximum).print().text, Not(HasSubstr("if (lane != 0)")));
}

TEST(SdkTeams, LeaveToOneThreadWhatTheyCannotShare) {
  EXPECT_EQ(Handmade().print().lanes, 32u);
  EXPECT_EQ(Handmade(Op::kAdd, 16).print().lanes, 32u);
  EXPECT_EQ(Handmade(Op::kAdd, 15).print().lanes, 1u) << "most lanes have nothing to do";
  EXPECT_EQ(Handmade(Op::kSubtract).print().lanes, 1u) << "no operation that can be taken apart";

  Handmade reversed;
  reversed.in_loop()[1].a = reversed.binary(Op::kAdd, reversed.number, reversed.sum);
  EXPECT_EQ(reversed.print().lanes, 1u);

  Handmade two_operations;
  two_operations.in_loop().push_back(
      Handmade::set(1, two_operations.binary(Op::kMultiply, two_operations.sum, two_operations.number)));
  EXPECT_EQ(two_operations.print().lanes, 1u);

  Handmade read;  // a turn that asks what the sum is so far
  read.in_loop()[0].a = read.sum;
  EXPECT_EQ(read.print().lanes, 1u);

  Handmade serial;  // work outside of the vector loop
  serial.in_item().push_back(
      {.kind = StmtKind::kFor, .id = 4, .a = serial.integer(0), .b = serial.integer(17), .body = {}});
  serial.kernel.variables.push_back({Type::kI64, false});
  EXPECT_EQ(serial.print().lanes, 1u);
  serial.kernel.exprs[serial.in_item().back().b].integer = 16;
  EXPECT_EQ(serial.print().lanes, 32u);
}

TEST(SdkTeams, AreAsManyAsTheirArraysLeave) {
  Handmade test;
  const auto with_array = [&](std::int64_t elements) {
    test.kernel.arrays = {{Type::kI64, elements}};
    return test.print();
  };
  EXPECT_EQ(with_array(100).most_threads, 256u);
  EXPECT_EQ(with_array(1000).most_threads, 128u);
  EXPECT_EQ(with_array(4096).most_threads, 32u);
  EXPECT_EQ(with_array(4097).lanes, 1u);
}

// NVRTC refuses it, where others look away.
TEST(SdkThreadKernel, AnArrayWithoutElementsHasOne) {
  Handmade test;
  test.kernel.arrays = {{Type::kF32, 0}};
  EXPECT_THAT(print_kernel(test.kernel, dialect_cuda(), "k"), HasSubstr("float a0[1];"));
  EXPECT_THAT(test.print().text, HasSubstr("float all_a0[8][1];"));
}

TEST(SdkTeams, MeetWhereALaneMayReadWhatAnotherWrote) {
  const auto meetings = [](Handmade& test) {
    const std::string text = test.print().text;
    std::size_t count = 0;
    for (std::size_t at = text.find("__syncwarp"); at != std::string::npos; at = text.find("__syncwarp", at + 1))
      ++count;
    return count;
  };
  Handmade plain;
  const std::size_t joining = meetings(plain);
  Handmade own;  // each turn has an element of its own: nobody has to wait
  own.kernel.arrays = {{Type::kI64, 100}};
  own.in_loop().push_back({.kind = StmtKind::kElement, .id = 0, .a = own.turn, .b = own.number, .body = {}});
  EXPECT_EQ(meetings(own), joining);
  Handmade shifted;
  shifted.kernel.arrays = {{Type::kI64, 101}};
  shifted.in_loop().push_back({.kind = StmtKind::kElement,
                               .id = 0,
                               .a = shifted.binary(Op::kAdd, shifted.turn, shifted.integer(1)),
                               .b = shifted.number,
                               .body = {}});
  EXPECT_GT(meetings(shifted), joining);
  Handmade contested;  // the buffer that is read is written, too
  contested.kernel.buffers[0].written = true;
  EXPECT_GT(meetings(contested), joining);
  Handmade alias;
  alias.kernel.buffers[0].may_alias = alias.kernel.buffers[1].may_alias = true;
  EXPECT_GT(meetings(alias), joining);
}

}  // namespace
}  // namespace crucible::sdk
