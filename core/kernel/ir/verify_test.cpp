// The verifier of the kernel IR must refuse each kind of broken kernel and take the sound ones.
#include "core/kernel/ir/read_ir.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/kernel/ir/ir_builder.hpp"

namespace crucible::kernel {
namespace {

using ::testing::HasSubstr;

/// y[i * stride] = x[i] + 1 for every item i.
KernelIr copy_kernel(std::int64_t stride) {
  IrBuilder b;
  const BufferId x = b.add_buffer(DType::kF32, false), y = b.add_buffer(DType::kF32, true);
  const ExprId i = b.open_grid(LoopMode::kVector);
  const ExprId value = b.let(b.load(x, i));
  b.store(y, b.multiply(i, stride), b.add(value, b.real(1, DType::kF32)));
  b.close();
  return b.finish();
}

std::string reason(const KernelIr& kernel, std::vector<std::int64_t> elements, std::int64_t grid) {
  const auto verified = verify_kernel(kernel, elements, grid);
  return verified ? "" : verified.error().message;
}

TEST(KernelVerify, TakesAccessesThatReachTheLastElement) {
  EXPECT_EQ(reason(copy_kernel(1), {8, 8}, 8), "");
  EXPECT_EQ(reason(copy_kernel(2), {8, 15}, 8), "");
}

TEST(KernelVerify, RefusesLoadsAndStoresOutsideTheirBuffer) {
  EXPECT_THAT(reason(copy_kernel(1), {7, 8}, 8), HasSubstr("buffer 0 of 7 elements is reached at [0, 7]"));
  EXPECT_THAT(reason(copy_kernel(2), {8, 14}, 8), HasSubstr("buffer 1 of 14 elements is reached at [0, 14]"));
}

TEST(KernelVerify, RefusesVariablesOutsideTheirBlock) {
  IrBuilder b;
  const BufferId y = b.add_buffer(DType::kF32, true);
  const ExprId item = b.open_grid(LoopMode::kSerial);
  b.open_for(b.integer(0), b.integer(4), LoopMode::kSerial);
  const ExprId inner = b.let(b.convert(item, DType::kF32));
  b.close();
  b.store(y, item, inner);
  b.close();
  EXPECT_THAT(reason(b.finish(), {8}, 8), HasSubstr("used outside its block"));
}

TEST(KernelVerify, RefusesMixedTypes) {
  IrBuilder b;
  const BufferId x = b.add_buffer(DType::kF32, false), y = b.add_buffer(DType::kF32, true);
  const ExprId i = b.open_grid(LoopMode::kVector);
  b.store(y, i, b.binary(Operation::kAdd, b.let(b.load(x, i)), b.real(1, DType::kF64)));
  b.close();
  EXPECT_THAT(reason(b.finish(), {8, 8}, 8), HasSubstr("operands of types f32 and f64"));
}

TEST(KernelVerify, RefusesStoresOfAnotherType) {
  IrBuilder b;
  const BufferId y = b.add_buffer(DType::kF32, true);
  const ExprId i = b.open_grid(LoopMode::kVector);
  b.store(y, i, b.real(1, DType::kF64));
  b.close();
  EXPECT_THAT(reason(b.finish(), {8}, 8), HasSubstr("buffer 0 of f32 is stored to with f64"));
}

TEST(KernelVerify, RefusesStoresToBuffersThatAreOnlyRead) {
  IrBuilder b;
  const BufferId y = b.add_buffer(DType::kF32, false);
  const ExprId i = b.open_grid(LoopMode::kVector);
  b.store(y, i, b.real(1, DType::kF32));
  b.close();
  EXPECT_THAT(reason(b.finish(), {8}, 8), HasSubstr("not marked as written"));
}

TEST(KernelVerify, RefusesFusedMultiplyAddsOfTwoTypes) {
  const auto kernel = [](DType third) {
    IrBuilder b;
    const BufferId x = b.add_buffer(DType::kF32, false), y = b.add_buffer(third, true);
    const ExprId i = b.open_grid(LoopMode::kVector);
    const ExprId value = b.let(b.load(x, i));
    b.store(y, i, b.fma(value, value, b.real(1, third)));
    b.close();
    return b.finish();
  };
  EXPECT_EQ(reason(kernel(DType::kF32), {8, 8}, 8), "");
  EXPECT_THAT(reason(kernel(DType::kF64), {8, 8}, 8), HasSubstr("fuses three values of f32 or f64"));
}

TEST(KernelVerify, RefusesKernelsWithoutAGrid) {
  IrBuilder b;
  b.let(b.scalar(b.add_scalar(), DType::kF32));
  EXPECT_THAT(reason(b.finish(), {}, 1), HasSubstr("has 0 grid loops, needs 1"));
}

TEST(KernelVerify, RefusesScratchOutOfBoundsAndSetsOfConstants) {
  IrBuilder b;
  const ArrayId a = b.add_array(DType::kF32, 4);
  b.open_grid(LoopMode::kSerial);
  const ExprId i = b.open_for(b.integer(0), b.integer(5), LoopMode::kVector);
  b.store_element(a, i, b.real(0, DType::kF32));
  b.close();
  b.close();
  EXPECT_THAT(reason(b.finish(), {}, 1), HasSubstr("array 0 of 4 elements is reached at [0, 4]"));
  IrBuilder c;
  c.open_grid(LoopMode::kSerial);
  const ExprId fixed = c.let(c.scalar(c.add_scalar(), DType::kF32));
  c.set(c.at(fixed).id, c.real(0, DType::kF32));
  c.close();
  EXPECT_THAT(reason(c.finish(), {}, 1), HasSubstr("not a mutable one in scope"));
}

TEST(KernelVerify, FollowsDivisionsRemaindersAndGuards) {
  IrBuilder b;
  const BufferId x = b.add_buffer(DType::kF32, false), ids = b.add_buffer(DType::kI64, false),
                 y = b.add_buffer(DType::kF32, true);
  const ExprId item = b.open_grid(LoopMode::kSerial);
  const ExprId row = b.let(b.binary(Operation::kDivide, item, b.integer(4)));
  const ExprId column = b.let(b.binary(Operation::kRemainder, item, b.integer(4)));
  const ExprId id = b.let(b.load(ids, row));
  const ExprId value = b.let(b.load(x, b.add(b.multiply(b.guard(id, 0, 9), 4), column)));
  b.store(y, b.add(b.multiply(row, 4), column), value);
  b.close();
  const KernelIr kernel = b.finish();
  EXPECT_EQ(reason(kernel, {40, 3, 12}, 12), "");
  EXPECT_THAT(reason(kernel, {39, 3, 12}, 12), HasSubstr("buffer 0 of 39"));
}

/// Puts a number at an id from memory, behind the condition that `condition` makes of it, and afterwards at `after` of
/// it.
template <class Condition>
std::string reason_of_chosen(Condition condition, bool is_mutable = false, bool after = false) {
  IrBuilder b;
  const BufferId ids = b.add_buffer(DType::kI64, false), y = b.add_buffer(DType::kF32, true);
  const ExprId item = b.open_grid(LoopMode::kSerial);
  const ExprId first = b.let(b.multiply(item, 4)),
               last = b.let(b.binary(Operation::kMinimum, b.add(first, b.integer(4)), b.integer(10)));
  const ExprId loaded = b.load(ids, item);
  const ExprId id = is_mutable ? b.variable(b.declare(loaded)) : b.let(loaded);
  b.open_if(condition(b, first, id, last));
  b.store(y, id, b.real(1, DType::kF32));
  b.close();
  if (after) b.store(y, id, b.real(1, DType::kF32));
  b.close();
  return reason(b.finish(), {3, 10}, 3);
}

TEST(KernelVerify, AConditionGuardsWhatStandsBehindIt) {
  const auto within = [](Operation from, Operation join, Operation to, bool turned = false) {
    return [=](IrBuilder& b, ExprId first, ExprId id, ExprId last) {
      const ExprId above = turned ? b.binary(from, id, first) : b.binary(from, first, id);
      return b.binary(join, above, b.binary(to, id, last));
    };
  };
  constexpr auto kLess = Operation::kLess, kLessEqual = Operation::kLessEqual, kAnd = Operation::kAnd;
  EXPECT_EQ(reason_of_chosen(within(kLessEqual, kAnd, kLess)), "");
  EXPECT_EQ(reason_of_chosen(within(kLess, kAnd, kLess)), "");
  EXPECT_THAT(reason_of_chosen(within(kLessEqual, kAnd, kLessEqual)), HasSubstr("reached at [0, 10]")) << "one too far";
  EXPECT_THAT(reason_of_chosen(within(kLessEqual, Operation::kOr, kLess)), HasSubstr("is reached at")) << "either";
  EXPECT_THAT(reason_of_chosen(within(kLessEqual, kAnd, kLess, true)), HasSubstr("is reached at")) << "below the first";
  EXPECT_THAT(reason_of_chosen(within(kLessEqual, kAnd, kLess), true), HasSubstr("is reached at"))
      << "a variable that may be set";
  EXPECT_THAT(reason_of_chosen(within(kLessEqual, kAnd, kLess), false, true), HasSubstr("is reached at"))
      << "behind the end of the condition";
  EXPECT_THAT(
      reason_of_chosen([](IrBuilder& b, ExprId first, ExprId id, ExprId) { return b.binary(kLessEqual, first, id); }),
      HasSubstr("is reached at [0, 9223372036854775807]"))
      << "half of it";
  EXPECT_THAT(reason_of_chosen([&](IrBuilder& b, ExprId first, ExprId id, ExprId last) {
                return b.unary(Operation::kNot, within(kLessEqual, kAnd, kLess)(b, first, id, last));
              }),
              HasSubstr("is reached at"))
      << "the other ones";
}

/// y[0] = x[an assumed index], where `index` makes the number that is assumed.
template <class Index>
std::string reason_of_assumed(Index index) {
  IrBuilder b;
  const BufferId x = b.add_buffer(DType::kF32, false), ids = b.add_buffer(DType::kI64, false),
                 y = b.add_buffer(DType::kF32, true);
  b.open_grid(LoopMode::kSerial);
  b.store(y, b.integer(0), b.let(b.load(x, b.assume(index(b, ids), 0, 9))));
  b.close();
  return reason(b.finish(), {10, 10, 1}, 1);
}

TEST(KernelVerify, RefusesAssumptionsAboutWhatComesFromMemoryOrTheLaunch) {
  EXPECT_THAT(reason_of_assumed([](IrBuilder& b, BufferId ids) { return b.load(ids, b.integer(3)); }),
              HasSubstr("guard it"));
  EXPECT_THAT(
      reason_of_assumed([](IrBuilder& b, BufferId) { return b.scalar(b.add_scalar(DType::kI64), DType::kI64); }),
      HasSubstr("guard it"));
  EXPECT_THAT(reason_of_assumed([](IrBuilder& b, BufferId ids) { return b.guard(b.load(ids, b.integer(3)), 0, 9); }),
              HasSubstr("guard it"));
  // By way of a variable that is set later in the text, of an array, of a loop's end.
  EXPECT_THAT(reason_of_assumed([](IrBuilder& b, BufferId ids) {
                const VariableId first = b.declare(b.integer(0)), second = b.declare(b.integer(0));
                b.open_for(b.integer(0), b.integer(2), LoopMode::kSerial);
                b.set(first, b.variable(second));
                b.set(second, b.load(ids, b.integer(3)));
                b.close();
                return b.variable(first);
              }),
              HasSubstr("guard it"));
  EXPECT_THAT(reason_of_assumed([](IrBuilder& b, BufferId ids) {
                const ArrayId kept = b.add_array(DType::kI64, 2);
                b.store_element(kept, b.integer(1), b.load(ids, b.integer(3)));
                return b.let(b.element(kept, b.integer(0)));
              }),
              HasSubstr("guard it"));
  EXPECT_THAT(reason_of_assumed([](IrBuilder& b, BufferId ids) {
                const VariableId place = b.declare(b.integer(0));
                const ExprId last = b.let(b.load(ids, b.integer(3)));
                const ExprId i = b.open_for(b.integer(0), last, LoopMode::kSerial);
                b.set(place, i);
                b.close();
                return b.variable(place);
              }),
              HasSubstr("guard it"));
}

TEST(KernelVerify, TakesAssumptionsAboutLoopsThatDataChoosesFrom) {
  EXPECT_EQ(reason_of_assumed([](IrBuilder& b, BufferId ids) {
              const VariableId place = b.declare(b.integer(0));
              const ExprId i = b.open_for(b.integer(0), b.integer(10), LoopMode::kSerial);
              const ExprId takes = b.binary(Operation::kLess, b.integer(2), b.load(ids, i));
              b.set(place, b.select(takes, i, b.variable(place)));
              b.close();
              return b.variable(place);
            }),
            "");
}

}  // namespace
}  // namespace crucible::kernel
