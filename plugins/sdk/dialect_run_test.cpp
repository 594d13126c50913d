// The form of kernels that devices get, one call per thread, does what the C form does, bit by bit: the OpenCL and CUDA
// texts of random programs run here as C, with a few macros for what a device has, under several numbers of threads.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/graph/random_program.hpp"
#include "core/graph/whole_slot_program.hpp"
#include "core/kernel/schedule.hpp"
#include "core/kernel/testing/host_executor.hpp"
#include "plugins/sdk/batch_kernel.hpp"
#include "plugins/sdk/c_dialect.hpp"

namespace crucible::sdk {
namespace {

/// Makes the texts of a dialect C: the numbers of threads and of the current one are variables.
constexpr std::string_view kOpenClAsC = R"(
#define bool _Bool
#define __kernel static
#define __global
static int64_t thread_, threads_;
#define get_global_id(d) thread_
#define get_global_size(d) threads_
#define as_float(u) crucible_float(u)
#define as_double(u) crucible_double(u)
#define crucible_f16_to_f32(h) ((float)(h))
#define crucible_f32_to_f16(x) ((crucible_f16)(x))
#define crucible_f64_to_f16(x) ((crucible_f16)(x))
#define START_(thread, threads) thread_ = (thread); threads_ = (threads);
)";
constexpr std::string_view kCudaAsC = R"(
#define bool _Bool
static struct { int64_t x; } blockIdx, blockDim, gridDim, threadIdx;
#define __cvta_global_to_generic(p) (p)
#define __int_as_float(u) crucible_float(u)
#define __longlong_as_double(u) crucible_double(u)
#define crucible_f16_to_f32(h) ((float)(h))
#define crucible_f32_to_f16(x) ((crucible_f16)(x))
#define crucible_f64_to_f16(x) ((crucible_f16)(x))
#define check_(n, p) if ((uint64_t)(p) % ((n) * sizeof(*(p))) != 0) __builtin_trap()
#define crucible_read(n, to, from) check_(n, from); __builtin_memcpy(to, from, (n) * sizeof(*(to)))
#define crucible_write(n, to, from) check_(n, to); __builtin_memcpy(to, from, (n) * sizeof(*(to)))
#define crucible_quotient(a, b) ((int64_t)(a) / (int32_t)(b))
#define crucible_remainder(a, b) ((int64_t)(a) % (int32_t)(b))
/* blocks of two threads */
#define START_(thread, threads) blockDim.x = 2; gridDim.x = (threads) / 2; blockIdx.x = (thread) / 2; threadIdx.x = (thread) % 2;
)";

/// A kernel of many launches, and a function NAME of the C form that does the kernel's items by three of them at once,
/// of one, two and three blocks of two threads. Mixed, there is another kernel in it, which is asked for nothing.
std::string batched(const kernel::Kernel& source, const Dialect& dialect, bool is_mixed) {
  const Kernel kernel = read_kernel(source.ir.data(), source.ir.size());
  std::string row;
  for (std::size_t i = 0; i < kernel.buffers.size(); ++i) row += fmt::format("*row++ = (uint64_t)buffers[{}]; ", i);
  for (std::size_t i = 0; i < kernel.scalars.size(); ++i)
    row += fmt::format("*row++ = ((const uint64_t*)scalars)[{}]; ", i);
  std::vector<BatchPart> parts = {print_thread_kernel(kernel, dialect, source.name).batch};
  if (is_mixed)
    parts.insert(parts.begin(), {fmt::format("CRUCIBLE_FN void other_{}(void) {{ __builtin_trap(); }}\n", source.name),
                                 fmt::format("other_{}()", source.name)});
  return print_batch_kernel(parts, dialect, source.name + "_batch") +
         fmt::format(
             "void {0}(void* const* buffers, const double* scalars, int64_t begin, int64_t end) {{\n"
             "  uint64_t table[1000] = {{0, 1, 3}}, *row = table + 6;\n"
             "  for (int64_t i = 0; i < 3; ++i) {{\n"
             "    table[3 + i] = row - table;\n"
             "    *row++ = {1}; *row++ = i + 1;\n"
             "    *row++ = begin + (end - begin) * i / 3; *row++ = begin + (end - begin) * (i + 1) / 3;\n"
             "    {2}\n  }}\n"
             "  blockDim.x = 2; gridDim.x = 6;\n"
             "  for (blockIdx.x = 0; blockIdx.x < 6; ++blockIdx.x)\n"
             "    for (threadIdx.x = 0; threadIdx.x < 2; ++threadIdx.x) {0}_batch(table, 3);\n}}\n",
             source.name, parts.size() - 1, row);
}

/// Without vector loops: those may sum in any order.
Dialect plain_c() {
  Dialect dialect = dialect_c();
  dialect.vector_loop = dialect.wide_vector_loop = "";
  return dialect;
}

/// The kernel in the thread form as "threads_NAME", and a function NAME of the C form that runs `threads` of them.
std::string threaded(const kernel::Kernel& source, const Dialect& dialect, int threads) {
  const Kernel kernel = read_kernel(source.ir.data(), source.ir.size());
  std::string call;
  for (std::size_t i = 0; i < kernel.buffers.size(); ++i) call += fmt::format("buffers[{}], ", i);
  for (std::size_t i = 0; i < kernel.scalars.size(); ++i)
    call += fmt::format("((const {}*)scalars)[{}], ", scalar_type(kernel.scalars[i]), i);
  const Team alone = dialect.meet.empty() ? Team() : plan_threads(kernel, 1);
  return print_kernel(kernel, dialect, "threads_" + source.name, alone) +
         fmt::format(
             "void {0}(void* const* buffers, const double* scalars, int64_t begin, int64_t end) {{\n"
             "  for (int64_t t = 0; t < {1}; ++t) {{ START_(t, {1}) threads_{0}({2}begin, end); }}\n}}\n",
             source.name, threads, call);
}

template <class Print>
void compare(std::string_view macros, std::uint64_t first_seed, const Print& print) {
  if (kernel::HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  for (std::uint64_t seed = first_seed; seed < first_seed + 6; ++seed) {
    const graph::RandomProgram random = graph::random_program({.seed = seed, .ops = 40});
    const auto scheduled = kernel::schedule(random.program, {});
    ASSERT_TRUE(scheduled) << scheduled.error().message;
    std::string plain, device(macros);
    for (const kernel::Kernel& kernel : scheduled->kernels) {
      plain += print_kernel(read_kernel(kernel.ir.data(), kernel.ir.size()), plain_c(), kernel.name);
      device += print(kernel);
    }
    const auto expected_kernels = kernel::HostKernels::compile_text(plain);
    ASSERT_TRUE(expected_kernels) << expected_kernels.error().message;
    const auto device_kernels = kernel::HostKernels::compile_text(device);
    ASSERT_TRUE(device_kernels) << device_kernels.error().message;
    // In place, an item that is done twice shows.
    const auto expected = kernel::run_on_host(random.program, *scheduled, *expected_kernels, random.values,
                                              random.slots, {.in_place = true});
    ASSERT_TRUE(expected) << expected.error().message;
    for (const int pieces : {1, 3}) {
      const auto got = kernel::run_on_host(random.program, *scheduled, *device_kernels, random.values, random.slots,
                                           {.in_place = true, .pieces = pieces});
      ASSERT_TRUE(got) << got.error().message;
      EXPECT_EQ(*got, *expected) << "seed " << seed << " in " << pieces << " pieces";
    }
  }
}

/// Slots of whole numbers, in the C form and in the form of threads.
void keep_digits(const Dialect& dialect, std::string_view macros) {
  if (kernel::HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  const graph::WholeSlotProgram made = graph::whole_slot_program();
  for (const bool fuse : {true, false}) {
    const auto scheduled = kernel::schedule(made.program, {.fuse = fuse});
    ASSERT_TRUE(scheduled) << scheduled.error().message;
    std::string plain, device(macros);
    for (const kernel::Kernel& kernel : scheduled->kernels) {
      plain += print_kernel(read_kernel(kernel.ir.data(), kernel.ir.size()), plain_c(), kernel.name);
      device += threaded(kernel, dialect, 6);
    }
    for (const std::string& text : {plain, device}) {
      const auto kernels = kernel::HostKernels::compile_text(text);
      ASSERT_TRUE(kernels) << kernels.error().message;
      for (std::size_t i = 0; i < graph::kWholeNumbers.size(); ++i) {
        const auto got = kernel::run_on_host(made.program, *scheduled, *kernels, made.values, made.slots[i], {});
        ASSERT_TRUE(got) << got.error().message;
        EXPECT_EQ(graph::difference(made, i, made.program, *got), "");
      }
    }
  }
}

TEST(SdkDialects, OpenClTextRunAsCKeepsEveryDigitOfWholeSlots) { keep_digits(dialect_opencl(), kOpenClAsC); }

TEST(SdkDialects, CudaTextRunAsCKeepsEveryDigitOfWholeSlots) {
  Dialect dialect = dialect_cuda();
  dialect.kernel = "static void ";
  keep_digits(dialect, kCudaAsC);
}

TEST(SdkDialects, OpenClTextRunAsCComputesWhatTheCTextDoes) {
  compare(kOpenClAsC, 300, [](const kernel::Kernel& kernel) { return threaded(kernel, dialect_opencl(), 6); });
}

TEST(SdkDialects, CudaTextRunAsCComputesWhatTheCTextDoes) {
  Dialect dialect = dialect_cuda();
  dialect.kernel = "static void ";  // extern "C" __global__ is no C
  compare(kCudaAsC, 310, [&](const kernel::Kernel& kernel) { return threaded(kernel, dialect, 6); });
}

TEST(SdkDialects, ManyLaunchesAtOnceComputeWhatTheCTextDoes) {
  Dialect dialect = dialect_cuda();
  dialect.kernel = "static void ";
  bool is_mixed = false;  // every second kernel
  compare(kCudaAsC, 310, [&](const kernel::Kernel& kernel) { return batched(kernel, dialect, is_mixed = !is_mixed); });
}

TEST(SdkDialects, ATableOfManyLaunches) {
  const std::vector<std::uint64_t> buffers[] = {{100, 200}, {300}, {500, 600}}, scalars[] = {{7}, {}, {9}};
  const std::vector<BatchEntry> entries = {
      {buffers[0], scalars[0], 0, 10, 1}, {buffers[1], scalars[1], 0, 1000, 0}, {buffers[2], scalars[2], 5, 5, 1}};
  const BatchTable batch = make_batch(entries, 256, 10, 1);
  EXPECT_EQ(batch.shape.threads, 128u);  // of the largest, dealt out to ten
  EXPECT_EQ(batch.shape.blocks, 10u);
  const std::vector<std::uint64_t> heads = {0, 1, 9, 6, 13, 18}, first = {1, 1, 0, 10, 100, 200, 7},
                                   second = {0, 8, 0, 1000, 300}, third = {1, 1, 5, 5, 500, 600, 9};
  std::vector<std::uint64_t> words = heads;
  for (const auto& row : {first, second, third}) words.insert(words.end(), row.begin(), row.end());
  EXPECT_EQ(batch.words, words);
  EXPECT_EQ(batch.first_scalar, (std::vector<std::size_t>{12, 18, 24}));
}

TEST(SdkDialects, ALaunchWhoseThreadsDoSeveralItemsHasFewerBlocks) {
  const std::vector<std::uint64_t> buffers = {100}, scalars;
  const auto blocks_of = [&](std::int64_t items, std::uint32_t at_once) {
    const std::vector<BatchEntry> entries = {{buffers, scalars, 0, items, 0, at_once},
                                             {buffers, scalars, 0, 3, 0, at_once}};
    return make_batch(entries, 256, 10, 1).shape.blocks;
  };
  EXPECT_EQ(blocks_of(1 << 20, 1), (1 << 12) + 1);
  EXPECT_EQ(blocks_of(1 << 20, 4), (1 << 10) + 1);
  EXPECT_EQ(blocks_of((1 << 20) + 1, 4), (1 << 10) + 2);  // the last items are not left out
}

TEST(SdkDialects, ABatchIsNamedForItsKernels) {
  const std::vector<std::string> one = {"k_1"}, two = {"k_1", "k_2"}, others = {"k_1", "k_3"};
  EXPECT_EQ(batch_name(one), "k_1_batch");
  EXPECT_EQ(batch_name(two).substr(0, 10), "k_1_batch_");
  EXPECT_NE(batch_name(two), batch_name(others));
}

}  // namespace
}  // namespace crucible::sdk
