// The interpreter of the kernel IR finds what it promises to find, and mutants of sound kernels show that the verifier
// lets nothing out of bounds through.
#include "core/kernel/ir/interpreter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <functional>

#include "core/kernel/ir/ir_builder.hpp"
#include "core/kernel/testing/test_program.hpp"

namespace crucible::kernel {
namespace {

using ::testing::HasSubstr;

/// Buffers of f32, all numbers there from the start but for those of which `is_defined` is false.
struct Memory {
  std::vector<std::vector<float>> numbers;
  std::vector<MemoryWatch> watches;

  void add(std::vector<float> values, bool is_defined = true) {
    watches.emplace_back(static_cast<std::int64_t>(values.size()), is_defined);
    numbers.push_back(std::move(values));
  }
  /// "" or what the interpreter found.
  std::string run(const KernelIr& kernel, std::int64_t items, InterpretedWork* work = nullptr) {
    std::vector<InterpretedBuffer> buffers;
    for (std::size_t i = 0; i < numbers.size(); ++i)
      buffers.push_back(
          {reinterpret_cast<std::byte*>(numbers[i].data()), static_cast<std::int64_t>(numbers[i].size()), &watches[i]});
    const std::vector<std::uint64_t> scalars(kernel.scalars.size(), std::bit_cast<std::uint64_t>(2.0));
    std::uint64_t pass = 0;
    const auto done = interpret(kernel, buffers, scalars, 0, items, {0, &pass});
    if (done && work != nullptr) *work = *done;
    return done ? "" : done.error().message;
  }
};

/// y[write(i)] = x[read(i)] * 2 + 1 in a grid.
KernelIr copy_kernel(const std::function<ExprId(IrBuilder&, ExprId)>& read,
                     const std::function<ExprId(IrBuilder&, ExprId)>& write) {
  IrBuilder b;
  const BufferId x = b.add_buffer(DType::kF32, false), y = b.add_buffer(DType::kF32, true);
  const ExprId i = b.open_grid(LoopMode::kVector);
  const ExprId value = b.let(b.load(x, read(b, i)));
  const ExprId doubled = b.binary(Operation::kMultiply, value, b.scalar(b.add_scalar(), DType::kF32));
  b.store(y, write(b, i), b.add(doubled, b.real(1, DType::kF32)));
  b.close();
  return b.finish();
}
ExprId same(IrBuilder&, ExprId i) { return i; }

TEST(Interpreter, ComputesAndCounts) {
  Memory memory;
  memory.add({1, 2, 3, 4});
  memory.add({0, 0, 0, 0}, false);
  InterpretedWork work;
  EXPECT_EQ(memory.run(copy_kernel(same, same), 4, &work), "");
  EXPECT_EQ(memory.numbers[1], (std::vector<float>{3, 5, 7, 9}));
  EXPECT_EQ(work.items, 4u);
  EXPECT_EQ(work.loads, 4u);
  EXPECT_EQ(work.stores, 4u);
  EXPECT_EQ(work.arithmetic, 8u);
}

/// 1 + e squared less 1 and 2e is e squared: nothing, were the product rounded before the sum.
TEST(Interpreter, FusedMultiplyAddsRoundOnce) {
  IrBuilder b;
  const BufferId x = b.add_buffer(DType::kF32, false), y = b.add_buffer(DType::kF32, true);
  const ExprId i = b.open_grid(LoopMode::kVector);
  const ExprId value = b.let(b.load(x, i));
  b.store(y, i, b.fma(value, value, b.real(-1 - 0x1p-11, DType::kF32)));
  b.close();
  Memory memory;
  memory.add({1 + 0x1p-12f});
  memory.add({0}, false);
  InterpretedWork work;
  EXPECT_EQ(memory.run(b.finish(), 1, &work), "");
  EXPECT_EQ(memory.numbers[1][0], 0x1p-24f);
  EXPECT_EQ(work.multiply_adds, 1u);
}

TEST(Interpreter, FindsIndicesOutside) {
  Memory memory;
  memory.add({1, 2, 3});
  memory.add({0, 0, 0, 0}, false);
  EXPECT_THAT(memory.run(copy_kernel(same, same), 4), HasSubstr("buffer 0 of 3 elements is reached at 3 (item 3)"));
}

TEST(Interpreter, FindsNumbersThatNobodyWrote) {
  Memory memory;
  memory.add({1, 2, 3, 4}, false);
  memory.add({0, 0, 0, 0}, false);
  EXPECT_THAT(memory.run(copy_kernel(same, same), 4),
              HasSubstr("element 0 of buffer 0 is read before anything was written there"));
}

TEST(Interpreter, FindsItemsThatWriteTheSameElement) {
  Memory memory;
  memory.add({1, 2, 3, 4});
  memory.add({0, 0, 0, 0}, false);
  const auto half = [](IrBuilder& b, ExprId i) { return b.binary(Operation::kDivide, i, b.integer(2)); };
  EXPECT_THAT(memory.run(copy_kernel(same, half), 4),
              HasSubstr("element 0 of buffer 1 is written, which another item or pass wrote (item 1)"));
}

TEST(Interpreter, FindsWritesOverWhatAnotherItemRead) {
  const auto turned = [](IrBuilder& b, ExprId i) { return b.binary(Operation::kSubtract, b.integer(3), i); };
  const KernelIr kernel = copy_kernel(same, turned);
  std::vector<float> numbers = {1, 2, 3, 4};
  MemoryWatch watch(4, true);
  const InterpretedBuffer buffer{reinterpret_cast<std::byte*>(numbers.data()), 4, &watch};
  const std::array buffers = {buffer, buffer};  // in place, but not at the index that was read
  const auto scalar = std::bit_cast<std::uint64_t>(2.0);
  std::uint64_t pass = 0;
  const auto done = interpret(kernel, buffers, {&scalar, 1}, 0, 4, {0, &pass});
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("which another item or pass"));
}

TEST(Interpreter, TakesTheSameIndexInPlace) {
  std::vector<float> numbers = {1, 2, 3, 4};
  MemoryWatch watch(4, true);
  const InterpretedBuffer buffer{reinterpret_cast<std::byte*>(numbers.data()), 4, &watch};
  const std::array buffers = {buffer, buffer};
  const auto scalar = std::bit_cast<std::uint64_t>(2.0);
  std::uint64_t pass = 0;
  ASSERT_TRUE(interpret(copy_kernel(same, same), buffers, {&scalar, 1}, 0, 4, {0, &pass}));
  EXPECT_EQ(numbers, (std::vector<float>{3, 5, 7, 9}));
}

/// a[j] = x[j], then y = a[4 - j - 1] + a[j], in two loops or, wrongly, in one that may be vectorised.
KernelIr turned_array(bool in_one_loop) {
  IrBuilder b;
  const BufferId x = b.add_buffer(DType::kF32, false), y = b.add_buffer(DType::kF32, true);
  const ArrayId a = b.add_array(DType::kF32, 4);
  const ExprId item = b.open_grid(LoopMode::kSerial);
  const ExprId at = b.let(b.multiply(item, 4));
  ExprId j = b.open_for(b.integer(0), b.integer(4), LoopMode::kVector);
  const ExprId from = b.let(b.load(x, b.add(at, j)));
  b.store_element(a, j, from);
  if (!in_one_loop) {
    b.close();
    j = b.open_for(b.integer(0), b.integer(4), LoopMode::kVector);
  }
  const ExprId other = b.let(b.element(a, in_one_loop ? b.binary(Operation::kDivide, j, b.integer(2))
                                                      : b.binary(Operation::kSubtract, b.integer(3), j)));
  b.store(y, b.add(at, j), other);
  b.close();
  b.close();
  return b.finish();
}

TEST(Interpreter, FindsPassesOfAVectorLoopThatNeedEachOther) {
  Memory memory;
  memory.add({1, 2, 3, 4, 5, 6, 7, 8});
  memory.add(std::vector<float>(8), false);
  EXPECT_EQ(memory.run(turned_array(false), 2), "");
  EXPECT_EQ(memory.numbers[1], (std::vector<float>{4, 3, 2, 1, 8, 7, 6, 5}));
  EXPECT_THAT(memory.run(turned_array(true), 2),
              HasSubstr("element 0 of array 0 is read, which another item or pass wrote"));
}

TEST(Interpreter, GivesEachItemArraysOfItsOwn) {
  IrBuilder b;
  const BufferId y = b.add_buffer(DType::kF32, true);
  const ArrayId a = b.add_array(DType::kF32, 1);
  const ExprId item = b.open_grid(LoopMode::kSerial);
  b.open_if(b.binary(Operation::kEqual, item, b.integer(0)));
  b.store_element(a, b.integer(0), b.real(1, DType::kF32));
  b.close();
  b.store(y, item, b.let(b.element(a, b.integer(0))));
  b.close();
  Memory memory;
  memory.add(std::vector<float>(2), false);
  EXPECT_THAT(memory.run(b.finish(), 2),
              HasSubstr("element 0 of array 0 is read before anything was written there (item 1)"));
}

TEST(Interpreter, FindsAssumptionsThatDoNotHoldAndDivisionsByZero) {
  Memory memory;
  memory.add({1, 2, 3, 4});
  memory.add(std::vector<float>(4), false);
  const auto assumed = [](IrBuilder& b, ExprId i) { return b.assume(i, 0, 2); };
  EXPECT_THAT(memory.run(copy_kernel(assumed, same), 4), HasSubstr("3 is assumed to lie in [0, 2] (item 3)"));
  const auto divided = [](IrBuilder& b, ExprId i) { return b.binary(Operation::kRemainder, i, i); };
  EXPECT_THAT(memory.run(copy_kernel(divided, same), 4), HasSubstr("an integer is divided by 0 (item 0)"));
}

/// Kernels are told apart by their text; once, two that read tables of different heights were one, with the IR of the
/// first.
TEST(Interpreter, KernelsThatAssumeDifferentThingsAreDifferentKernels) {
  TestProgram t(4);
  for (const std::int64_t rows : {3, 9}) {
    const auto table = t.input(DType::kF32, {rows, 4}), ids = t.input(DType::kI64, {5}, 0, static_cast<double>(rows));
    t.keep(t.op(graph::OpKind::kGatherRows, {table, ids}, {5, 4}));
  }
  EXPECT_THAT(run_and_compare({&t}, nullptr, Numerics::kStrict, Executors::kInterpreted), ::testing::IsEmpty());
}

}  // namespace
}  // namespace crucible::kernel
