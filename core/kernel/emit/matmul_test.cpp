// Generated products keep their named order of summation: one ascending chain of fused multiply-adds per chunk of 256
// steps, chunks added in order. So the bits are known beforehand, whatever sizes, layouts and blocks the kernel has.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "core/kernel/ir/ir_builder.hpp"
#include "core/kernel/ir/read_ir.hpp"
#include "core/kernel/testing/test_program.hpp"

namespace crucible::kernel {
namespace {

using graph::Operand;
using graph::OpKind;
using ::testing::HasSubstr;

struct Case {
  std::int64_t batch, m, k, n;
  bool left_across = false, right_across = false;  // stored with rows and columns swapped
  DType dtype = DType::kF32;
};

std::string describe(const Case& c) {
  return fmt::format("{} x ({} x {} by {} x {}){}{}{}", c.batch, c.m, c.k, c.k, c.n,
                     c.left_across ? ", left across" : "", c.right_across ? ", right across" : "",
                     c.dtype == DType::kF64 ? ", f64" : "");
}

/// An input of these sizes, in memory the other way round when `across`.
Operand matrix(TestProgram& t, const Case& c, std::int64_t rows, std::int64_t columns, bool across) {
  if (!across) return t.input(c.dtype, {c.batch, rows, columns});
  return permuted(t.input(c.dtype, {c.batch, columns, rows}), {0, 2, 1});
}

template <class T>
T element(const graph::Bytes& bytes, const graph::View& view, std::int64_t b, std::int64_t i, std::int64_t j) {
  const std::int64_t at = view.offset + b * view.strides[0] + i * view.strides[1] + j * view.strides[2];
  T value;
  std::memcpy(&value, bytes.data() + static_cast<std::size_t>(at) * sizeof(T), sizeof(T));
  return value;
}

template <class T>
T in_order(const graph::Bytes& left, const graph::View& a, const graph::Bytes& right, const graph::View& b,
           std::int64_t batch, std::int64_t i, std::int64_t j) {
  const std::int64_t steps = a.sizes[2];
  T total = T(-0.0);
  for (std::int64_t k0 = 0; k0 < std::max<std::int64_t>(steps, 1); k0 += 256) {
    T sum = 0;
    for (std::int64_t k = k0; k < std::min(steps, k0 + 256); ++k)
      sum = std::fma(element<T>(left, a, batch, i, k), element<T>(right, b, batch, k, j), sum);
    total += sum;
  }
  return total;
}

/// Every element of a case's product in row-major order. Devices and ways to cut a product are many, so it is computed
/// once.
template <class T>
const std::vector<T>& product_in_order(const Case& c, const TestProgram& t, const Operand& left, const Operand& right) {
  static std::map<std::string, std::vector<T>> products;
  std::vector<T>& all = products[describe(c)];
  if (!all.empty()) return all;
  for (std::int64_t b = 0; b < c.batch; ++b) {
    for (std::int64_t i = 0; i < c.m; ++i) {
      for (std::int64_t j = 0; j < c.n; ++j)
        all.push_back(in_order<T>(t.values[left.value], left.view, t.values[right.value], right.view, b, i, j));
    }
  }
  return all;
}

template <class T>
void expect_bits(const Case& c, Numerics numerics = Numerics::kFast, const DeviceShape& device = {}) {
  SCOPED_TRACE(describe(c));
  TestProgram t(static_cast<std::uint64_t>(c.m * 1000003 + c.k * 1009 + c.n));
  const Operand left = matrix(t, c, c.m, c.k, c.left_across), right = matrix(t, c, c.k, c.n, c.right_across);
  const Operand product = t.op(OpKind::kMatMul, {left, right}, {c.batch, c.m, c.n}, c.dtype);
  t.keep(product);
  const auto scheduled = schedule(t.program, {.claims = nullptr, .numerics = numerics, .device = device});
  ASSERT_TRUE(scheduled) << scheduled.error().message;
  const auto kernels = HostKernels::compile({&*scheduled});
  ASSERT_TRUE(kernels) << kernels.error().message;
  const std::vector<T>& wanted = product_in_order<T>(c, t, left, right);
  for (const int pieces : {1, 5}) {
    const auto got = run_on_host(t.program, *scheduled, *kernels, t.values, t.slots, {.pieces = pieces});
    ASSERT_TRUE(got) << got.error().message;
    int different = 0;
    auto want = wanted.begin();
    for (std::int64_t b = 0; b < c.batch; ++b) {
      for (std::int64_t i = 0; i < c.m; ++i) {
        for (std::int64_t j = 0; j < c.n; ++j, ++want) {
          const T found = element<T>((*got)[product.value], product.view, b, i, j);
          different += std::memcmp(&*want, &found, sizeof(T)) != 0;
        }
      }
    }
    EXPECT_EQ(different, 0) << "of " << c.batch * c.m * c.n << " in " << pieces << " pieces";
  }
}

TEST(MatMul, HasTheBitsOfItsNamedOrder) {
  if (HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  const std::vector<Case> cases = {
      {1, 12, 32, 32},                                 // one tile
      {1, 13, 17, 33},                                 // one more than a tile, each way
      {1, 11, 31, 31},                                 // one less
      {1, 64, 256, 96, true, false},                   // rows side by side in memory
      {1, 64, 256, 96, false, true},                   // columns far apart
      {2, 40, 257, 48, true, true},                    // one step behind a chunk
      {1, 30, 512, 64},                                // two chunks
      {1, 37, 700, 37, true, false},                   // two and a part
      {3, 5, 9, 7},                                    // smaller than anything
      {1, 300, 20, 10},                                // few columns: the sides change places
      {1, 2, 300, 130, false, true},                   // few rows
      {1, 521, 64, 70},                                // a prime number of rows in blocks
      {2, 260, 513, 40, true, true},                   //
      {1, 800, 20, 1000},                              // several blocks each way, and what is left of both
      {1, 30, 300, 1500, true, true},                  //
      {1, 450, 520, 450, false, true},                 // totals of several items
      {1, 3, 40, 64, true, true},                      // less than a tile, and than a block of a transposed copy
      {1, 70, 9, 64, false, true},                     //
      {1, 24, 64, 40, false, false, DType::kF64},
      {2, 29, 270, 21, true, true, DType::kF64},
  };
  for (const Case& c : cases) c.dtype == DType::kF64 ? expect_bits<double>(c) : expect_bits<float>(c);
}

/// Registers of AVX-512, AVX2 and SSE2, and of nothing that there is.
constexpr std::int64_t kRegisterBytes[] = {2048, 512, 256, 16};

TEST(MatMul, TilesOfOtherDevicesChangeNoBit) {
  if (HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  const std::vector<Case> cases = {{1, 13, 17, 33}, {2, 40, 257, 48, true, true}, {1, 450, 520, 47, false, true}};
  for (const std::int64_t bytes : kRegisterBytes) {
    SCOPED_TRACE(bytes);
    for (const Case& c : cases) expect_bits<float>(c, Numerics::kStrict, {.workers = 7, .register_bytes = bytes});
    expect_bits<double>({2, 29, 270, 21, true, true, DType::kF64}, Numerics::kStrict,
                        {.workers = 1, .register_bytes = bytes});
  }
}

/// On such a device a work item is a thread with a few elements (thread_product.cpp).
TEST(MatMul, ThreadsInStepChangeNoBit) {
  if (HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  const std::vector<Case> cases = {{1, 64, 256, 96, true, false},
                                   {2, 40, 257, 48, true, true},
                                   {1, 37, 700, 37, false, true},
                                   {3, 5, 9, 7},
                                   {1, 300, 20, 10},
                                   {1, 1, 300, 130},
                                   {1, 130, 515, 1},
                                   {1, 17, 3, 5}};
  for (std::size_t cut = 0; cut < 4; ++cut) {
    for (const int workers : {0, 1, 100000}) {
      const DeviceShape device{.workers = workers, .lanes = 32, .cut = cut};
      for (const Case& c : cases) expect_bits<float>(c, Numerics::kStrict, device);
      expect_bits<double>({2, 29, 270, 21, true, true, DType::kF64}, Numerics::kStrict, device);
    }
  }
}

/// What two threads compute, one of them stores: the others' would be seen twice by an update in place.
TEST(MatMul, ThreadsInStepStoreEachElementOnce) {
  for (const Case& c : {Case{2, 37, 70, 37}, Case{1, 17, 300, 5, true, true}, Case{3, 5, 9, 7}}) {
    SCOPED_TRACE(describe(c));
    for (std::size_t cut = 0; cut < 4; ++cut) {
      TestProgram t(7);
      t.keep(t.op(OpKind::kMatMul, {matrix(t, c, c.m, c.k, c.left_across), matrix(t, c, c.k, c.n, c.right_across)},
                  {c.batch, c.m, c.n}));
      const auto scheduled =
          schedule(t.program, {.numerics = Numerics::kStrict, .device = {.workers = 1, .lanes = 32, .cut = cut}});
      ASSERT_TRUE(scheduled) << scheduled.error().message;
      const auto interpreter = ScheduleInterpreter::create(t.program, *scheduled);
      ASSERT_TRUE(interpreter) << interpreter.error().message;
      const auto done = interpreter->run(t.program, *scheduled, t.values, t.slots, {}, true);
      EXPECT_TRUE(done) << done.error().message;
    }
  }
}

/// What lies in scratch of a thread lies in memory, far away: only sums do that wait for the next chunk.
TEST(MatMul, ThreadsInStepCopyNothing) {
  TestProgram t(5);
  t.keep(t.op(OpKind::kMatMul, {t.input(DType::kF32, {900, 300}), t.input(DType::kF32, {300, 800})}, {900, 800}));
  const auto scheduled = schedule(t.program, {.device = {.workers = 2048, .lanes = 32}});
  ASSERT_TRUE(scheduled) << scheduled.error().message;
  ASSERT_EQ(scheduled->kernels.size(), 1u);
  const auto ir = read_ir(scheduled->kernels[0].ir);
  ASSERT_TRUE(ir) << ir.error().message;
  EXPECT_TRUE(ir->tiles.empty());
  ASSERT_EQ(ir->arrays.size(), 1u);
  EXPECT_EQ(ir->arrays[0].size, 64);
  const std::vector<ProductCut>& cuts = scheduled->steps[0].cuts;
  ASSERT_EQ(cuts.size(), 4u);
  EXPECT_EQ(cuts[0].tile_rows * cuts[0].tile_columns, 64);
  // Few results are shared among more threads.
  TestProgram few(5);
  few.keep(few.op(OpKind::kMatMul, {few.input(DType::kF32, {64, 300}), few.input(DType::kF32, {300, 64})}, {64, 64}));
  const auto small = schedule(few.program, {.device = {.workers = 2048, .lanes = 32}});
  ASSERT_TRUE(small) << small.error().message;
  EXPECT_LT(small->steps[0].cuts[0].tile_rows * small->steps[0].cuts[0].tile_columns, 8);
}

/// What a measurement may choose among: other tiles and other items.
TEST(MatMul, WaysToCutAProductChangeNoBit) {
  if (HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  for (const Case& c : {Case{1, 13, 17, 100}, Case{2, 50, 257, 120, true, true}, Case{1, 450, 300, 401, false, true}}) {
    for (std::size_t cut = 0; cut < 5; ++cut)
      expect_bits<float>(c, Numerics::kStrict, {.workers = 2, .register_bytes = 2048, .cut = cut});
  }
  for (std::size_t cut = 0; cut < 5; ++cut)
    expect_bits<double>({2, 29, 270, 70, true, true, DType::kF64}, Numerics::kFast,
                        {.workers = 1, .register_bytes = 2048, .cut = cut});
}

TEST(MatMul, WaysToCutAProductDifferAndStandBestScoreFirst) {
  TestProgram t(5);
  t.keep(t.op(OpKind::kMatMul, {t.input(DType::kF32, {900, 300}), t.input(DType::kF32, {300, 800})}, {900, 800}));
  std::vector<std::string> names;
  std::vector<ProductCut> cuts;
  for (std::size_t cut = 0; cut == 0 || cut < cuts.size(); ++cut) {
    const auto scheduled = schedule(t.program, {.device = {.workers = 2, .register_bytes = 2048, .cut = cut}});
    ASSERT_TRUE(scheduled) << scheduled.error().message;
    cuts = scheduled->steps[0].cuts;
    EXPECT_THAT(names, ::testing::Not(::testing::Contains(scheduled->kernels[0].name)));
    names.push_back(scheduled->kernels[0].name);
  }
  ASSERT_GE(cuts.size(), 4u);
  EXPECT_EQ(cuts[0].tile_rows, 12);  // the usual one
  for (std::size_t i = 2; i < cuts.size(); ++i) EXPECT_LE(cuts[i - 1].score, cuts[i].score);
  // Options say it per call; beyond the last there is none.
  const Schedule last = *schedule(t.program, {.device = {.workers = 2, .register_bytes = 2048},
                                              .cut = [](const LibraryCall&) { return std::size_t{99}; }});
  EXPECT_EQ(last.kernels[0].name, names.back());
}

/// A tile whose sums do not stay in registers is slow, and nothing else tells.
TEST(MatMul, TilesFitIntoTheRegisters) {
  TestProgram t(5);
  t.keep(t.op(OpKind::kMatMul, {t.input(DType::kF32, {100, 64}), t.input(DType::kF32, {64, 200})}, {100, 200}));
  for (const std::int64_t bytes : {2048, 512, 256}) {
    for (std::size_t cut = 0; cut < 5; ++cut) {
      const auto scheduled = schedule(t.program, {.device = {.workers = 2, .register_bytes = bytes, .cut = cut}});
      ASSERT_TRUE(scheduled) << scheduled.error().message;
      ASSERT_EQ(scheduled->kernels.size(), 1u);
      const auto ir = read_ir(scheduled->kernels[0].ir);
      ASSERT_TRUE(ir) << ir.error().message;
      ASSERT_FALSE(ir->tiles.empty());
      for (const Tile& tile : ir->tiles)
        EXPECT_LE((tile.rows + 1) * tile.columns * 4, bytes) << tile.rows << " x " << tile.columns;
    }
  }
}

/// A product of bf16 numbers is scaled in f32 and rounded once: rounded first, a tenth of the results would be others.
TEST(MatMul, IsScaledBeforeItIsRounded) {
  if (HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  const Case c{1, 20, 30, 40, false, false, DType::kBF16};
  const float alpha = 0.3f;
  TestProgram t(5);
  const Operand left = matrix(t, c, c.m, c.k, false), right = matrix(t, c, c.k, c.n, false);
  graph::Attributes attributes;
  attributes.alpha = alpha;
  const Operand product = t.op(OpKind::kMatMul, {left, right}, {c.batch, c.m, c.n}, c.dtype, attributes);
  t.keep(product);
  const auto scheduled = schedule(t.program, {});
  ASSERT_TRUE(scheduled) << scheduled.error().message;
  const auto kernels = HostKernels::compile({&*scheduled});
  ASSERT_TRUE(kernels) << kernels.error().message;
  const auto got = run_on_host(t.program, *scheduled, *kernels, t.values, t.slots, {});
  ASSERT_TRUE(got) << got.error().message;
  const auto wide = [](std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); };
  const auto narrow = [](float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  };
  int different = 0;
  for (std::int64_t i = 0; i < c.m; ++i) {
    for (std::int64_t j = 0; j < c.n; ++j) {
      float sum = 0;
      for (std::int64_t k = 0; k < c.k; ++k) {
        sum = std::fma(wide(element<std::uint16_t>(t.values[left.value], left.view, 0, i, k)),
                       wide(element<std::uint16_t>(t.values[right.value], right.view, 0, k, j)), sum);
      }
      different += narrow(sum * alpha) != element<std::uint16_t>((*got)[product.value], product.view, 0, i, j);
    }
  }
  EXPECT_EQ(different, 0);
}

/// Fast, they are dot products.
TEST(MatMul, StrictProductsOfFewElementsHaveItToo) {
  if (HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  expect_bits<float>({2, 4, 300, 4, false, true}, Numerics::kStrict);
  expect_bits<float>({1, 1, 1000, 1, false, true}, Numerics::kStrict);
}

TEST(MatMul, RandomShapesHaveTheBitsOfTheNamedOrder) {
  if (HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  std::uint64_t state = 88172645463325252ull;
  const auto below = [&](std::int64_t limit) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return static_cast<std::int64_t>(state % static_cast<std::uint64_t>(limit));
  };
  for (int i = 0; i < 12; ++i) {
    Case c{1 + below(3), 5 + below(150), 1 + below(600), 5 + below(150)};
    c.left_across = below(2) == 1;
    c.right_across = below(2) == 1;
    expect_bits<float>(c);
  }
}

/// Item i copies two rows of 4 of buffer 0 into columns of an array, and says that it will write element i of buffer 1.
KernelIr transposing_kernel(Transpose copy, std::int64_t steps, std::int64_t expected) {
  IrBuilder b;
  b.add_buffer(DType::kF32, false);
  const BufferId y = b.add_buffer(DType::kF32, true);
  b.add_array(DType::kF32, 12);
  const ExprId item = b.open_grid(LoopMode::kSerial);
  copy.to_base = b.integer(0);
  copy.from_base = b.multiply(item, 8);
  b.transpose(copy, b.integer(steps));
  b.prefetch(y, b.add(item, b.integer(expected)));
  b.store(y, item, b.let(b.element(0, b.integer(5))));
  b.close();
  return b.finish();
}

TEST(KernelVerify, RefusesTransposedCopiesThatReachTooFar) {
  const Transpose good{.to = 0, .from = 0, .columns = 2, .to_step = 3, .from_step = 4};
  const auto reason = [](const Transpose& copy, std::int64_t steps = 4, std::int64_t expected = 0) {
    const std::vector<std::int64_t> elements{24, 3};
    const auto verified = verify_kernel(transposing_kernel(copy, steps, expected), elements, 3);
    return verified ? "" : verified.error().message;
  };
  EXPECT_EQ(reason(good), "");
  EXPECT_THAT(reason(good, 5), HasSubstr("beyond the 12 elements of array 0"));
  Transpose bad = good;
  bad.from_step = 5;
  EXPECT_THAT(reason(bad), HasSubstr("beyond the 24 elements of buffer 0"));
  bad = good;
  bad.columns = 4;
  EXPECT_THAT(reason(bad), HasSubstr("4 columns, 3 apart"));
  bad = good;
  bad.from = 1;
  EXPECT_THAT(reason(bad), HasSubstr("buffer 1, which is written"));
  bad = good;
  bad.to = 1;
  EXPECT_THAT(reason(bad), HasSubstr("from buffer 0 to array 1"));
  bad = good;
  bad.from_step = -4;
  EXPECT_THAT(reason(bad), HasSubstr("backwards"));
  EXPECT_THAT(reason(good, 4, 1), HasSubstr("buffer 1"));
}

/// sums (2 x 16) += x[i * 8 + q] * y[q * 16 + j] over `steps` steps.
KernelIr tile_kernel(Tile tile, std::int64_t steps, std::int64_t sums = 32, std::int64_t base = 0) {
  IrBuilder b;
  b.add_buffer(DType::kF32, false);
  b.add_buffer(DType::kF32, false);
  const BufferId z = b.add_buffer(DType::kF32, true);
  b.add_array(DType::kF32, sums);
  const ExprId item = b.open_grid(LoopMode::kSerial);
  tile.left.base = tile.right.base = b.integer(0);
  tile.base = b.integer(base);
  b.tile(tile, b.integer(steps));
  b.store(z, item, b.let(b.element(0, b.integer(0))));
  b.close();
  return b.finish();
}

TEST(KernelVerify, RefusesTilesThatReachTooFarOrDoNotFit) {
  const Tile good{.sums = 0,
                  .rows = 2,
                  .columns = 16,
                  .left = {.id = 0, .row_step = 8, .step = 1},
                  .right = {.id = 1, .step = 16}};
  const auto reason = [](const KernelIr& kernel) {
    const std::vector<std::int64_t> elements{16, 128, 1};
    const auto verified = verify_kernel(kernel, elements, 1);
    return verified ? "" : verified.error().message;
  };
  EXPECT_EQ(reason(tile_kernel(good, 8)), "");
  EXPECT_THAT(reason(tile_kernel(good, 9)), HasSubstr("buffer 0 of 16 elements"));
  Tile bad = good;
  bad.right.step = 17;
  EXPECT_THAT(reason(tile_kernel(bad, 8)), HasSubstr("buffer 1 of 128 elements"));
  EXPECT_THAT(reason(tile_kernel(good, 8, 31)), HasSubstr("a tile of 2 x 16 with 31 sums"));
  bad = good;
  bad.columns = 12;
  EXPECT_THAT(reason(tile_kernel(bad, 8)), HasSubstr("a tile of 2 x 12"));
  bad = good;
  bad.left.step = -1;
  EXPECT_THAT(reason(tile_kernel(bad, 8)), HasSubstr("lead backwards"));
  bad = good;
  bad.left.id = 2;
  EXPECT_THAT(reason(tile_kernel(bad, 8)), HasSubstr("buffer 2, which is written"));
  bad = good;
  bad.left = {.is_array = true, .id = 0, .row_step = 8, .step = 1};
  EXPECT_THAT(reason(tile_kernel(bad, 8)), HasSubstr("reads its own sums"));
  bad = good;
  bad.right.id = 7;
  EXPECT_THAT(reason(tile_kernel(bad, 8)), HasSubstr("buffer 7"));
  EXPECT_THAT(reason(tile_kernel(good, 8, 33, 2)), HasSubstr("beyond the 33 elements"));
}

}  // namespace
}  // namespace crucible::kernel
