// Operands that lie across are copied (turn_operands.hpp) where a product on a device with lanes is worth it, and no
// bit changes.
#include "core/kernel/fuse/turn_operands.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/kernel/schedule_check.hpp"
#include "core/kernel/testing/test_program.hpp"

namespace crucible::kernel {
namespace {

using graph::Operand;
using graph::OpKind;

constexpr DeviceShape kLanes{.workers = 4, .lanes = 32};  // so few that nothing is taken in pieces

/// x [rows, steps] by the transposed [columns, steps] weight of a linear layer.
struct Layer {
  explicit Layer(std::int64_t rows, std::int64_t columns, std::int64_t steps, std::int64_t batch = 1) {
    x = t.input(DType::kF32, {batch, rows, steps});
    weight = t.input(DType::kF32, {1, columns, steps});
    turned = expanded(permuted(weight, {0, 2, 1}), {batch, steps, columns});
    y = t.op(OpKind::kMatMul, {x, turned}, {batch, rows, columns});
    t.keep(y);
  }
  TestProgram t;
  Operand x, weight, turned, y;
};

std::size_t copies(const graph::Program& program) {
  return static_cast<std::size_t>(
      std::ranges::count_if(program.ops, [](const graph::Op& op) { return op.kind == OpKind::kCopy; }));
}

TEST(TurnOperands, ACopyOfTheWeightChangesNoBit) {
  Layer layer(66, 64, 515, 4);
  const auto turned = turn_operands(layer.t.program, {.device = kLanes});
  ASSERT_TRUE(turned);
  EXPECT_EQ(copies(*turned), 1u);
  EXPECT_EQ(turned->ops[1].inputs[1].view.strides, (std::vector<std::int64_t>{0, 64, 1}));  // one copy for all four
  EXPECT_EQ(turned->values[turned->ops[1].inputs[1].value].elements, 64 * 515);
  const auto verified = graph::verify(*turned);
  ASSERT_TRUE(verified) << verified.error().message;
  const auto whole = schedule(layer.t.program, {.numerics = Numerics::kStrict});
  const auto prepared = prepare(layer.t.program, {.numerics = Numerics::kStrict, .device = kLanes});
  ASSERT_TRUE(whole && prepared);
  ASSERT_TRUE(prepared->program);
  const auto checked = check_schedule(*prepared->program, prepared->schedule);
  ASSERT_TRUE(checked) << checked.error().message;
  if (HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  std::vector<graph::Bytes> values = layer.t.values;
  const auto run = [&](const graph::Program& program, const Schedule& schedule) {
    const auto kernels = HostKernels::compile({&schedule});
    EXPECT_TRUE(kernels) << kernels.error().message;
    values.resize(program.values.size());
    auto got = run_on_host(program, schedule, *kernels, values, layer.t.slots, {});
    EXPECT_TRUE(got) << got.error().message;
    return std::move(*got)[layer.y.value];
  };
  const graph::Bytes wanted = run(layer.t.program, *whole);
  EXPECT_TRUE(run(*prepared->program, prepared->schedule) == wanted);
}

TEST(TurnOperands, ProductsThatReadTheSameShareACopy) {
  Layer layer(128, 128, 512);
  layer.t.keep(layer.t.op(OpKind::kMatMul, {layer.t.input(DType::kF32, {1, 128, 512}), layer.turned}, {1, 128, 128}));
  const auto turned = turn_operands(layer.t.program, {.device = kLanes});
  ASSERT_TRUE(turned);
  EXPECT_EQ(copies(*turned), 1u);
}

TEST(TurnOperands, OnlyWhereItIsWorthIt) {
  const Layer layer(128, 128, 512);
  EXPECT_TRUE(turn_operands(layer.t.program, {.device = kLanes}));
  EXPECT_FALSE(turn_operands(layer.t.program, {}));                                 // a processor copies into scratch
  EXPECT_FALSE(turn_operands(Layer(128, 128, 500).t.program, {.device = kLanes}));  // too little work
  EXPECT_FALSE(turn_operands(Layer(31, 1024, 512).t.program, {.device = kLanes}));  // few rows
  EXPECT_FALSE(turn_operands(Layer(2048, 15, 512).t.program, {.device = kLanes}));  // few columns
  const auto claims = [](const LibraryCall&) { return true; };
  EXPECT_FALSE(turn_operands(layer.t.program, {.claims = claims, .device = kLanes}));
  EXPECT_TRUE(turn_operands(layer.t.program, {.claims = claims, .numerics = Numerics::kStrict, .device = kLanes}));
  TestProgram lies_well;
  const Operand a = lies_well.input(DType::kF32, {128, 512}), b = lies_well.input(DType::kF32, {512, 128});
  lies_well.keep(lies_well.op(OpKind::kMatMul, {a, b}, {128, 128}));
  EXPECT_FALSE(turn_operands(lies_well.program, {.device = kLanes}));
}

}  // namespace
}  // namespace crucible::kernel
