#include "runtime/plan/plan_ops.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "runtime/testing/test_programs.hpp"
#include "plugins/abi/sized_launch.hpp"

namespace crucible::runtime {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kArena = 1 << 20;

class PlanOpsTest : public testing::Test {
 protected:
  void SetUp() override {
    schedule_ = naive_schedule(program_, false);
    schedule_.kernels = {{"k"}};
    std::vector<std::uint64_t> scratch(schedule_.steps.size(), 0);
    schedule_.steps[0].kind = kernel::StepKind::kLibrary;
    schedule_.steps[0].library.attributes.alpha = 2.5;
    scratch[0] = 300;
    schedule_.steps[1].scalars.resize(2);
    schedule_.steps[1].scalars[0].slot = 0;
    schedule_.steps[1].scalars[1].is_integer = true;
    schedule_.steps[1].scalars[1].integer = -7;
    Result<Placement> placed = place(program_, schedule_, scratch);
    ASSERT_TRUE(placed) << placed.error().message;
    placement_ = *std::move(placed);
  }

  Result<PlanOps> build(bool poison, const StepRange& range = {}) {
    const FindKernel find = [this](std::string_view name) -> Result<crucible_kernel*> {
      if (name != "k") return Error{ErrorCode::kInternal, "no such kernel"};
      return reinterpret_cast<crucible_kernel*>(&kernel_);
    };
    return PlanOps::build(program_, schedule_, placement_, kArena, find, poison, range);
  }

  std::uint64_t address(graph::ValueId value) const {
    return kArena + placement_.plan.offsets[placement_.buffer_of[value]];
  }

  const graph::Program program_ = training_step();
  kernel::Schedule schedule_;
  Placement placement_;
  int kernel_ = 0;
};

TEST_F(PlanOpsTest, ListsStepsThenCopiesHome) {
  const Result<PlanOps> listed = build(false);
  ASSERT_TRUE(listed) << listed.error().message;
  const auto ops = listed->ops();
  ASSERT_EQ(placement_.home_copies.size(), 2u);
  ASSERT_EQ(ops.size(), schedule_.steps.size() + 2);
  for (std::size_t step = 0; step < schedule_.steps.size(); ++step) EXPECT_EQ(listed->op_of_step()[step], step);
  for (std::size_t i = schedule_.steps.size(); i < ops.size(); ++i) {
    const HomeCopy& copy = placement_.home_copies[i - schedule_.steps.size()];
    EXPECT_EQ(ops[i].kind, CRUCIBLE_OP_COPY);
    EXPECT_EQ(ops[i].buffers[0], kArena + placement_.plan.offsets[copy.to]);
    EXPECT_EQ(ops[i].buffers[1], kArena + placement_.plan.offsets[copy.from]);
    EXPECT_EQ(ops[i].size, copy.size_bytes);
  }
}

TEST_F(PlanOpsTest, PassesAddressesScratchAndDescription) {
  const Result<PlanOps> listed = build(false);
  ASSERT_TRUE(listed) << listed.error().message;
  const crucible_op& call = listed->ops()[0];
  EXPECT_EQ(call.kind, CRUCIBLE_OP_LIBRARY);
  ASSERT_EQ(call.buffer_count, schedule_.steps[0].buffers.size() + 1);
  EXPECT_EQ(call.buffers[0], address(schedule_.steps[0].buffers[0].value));
  EXPECT_EQ(call.buffers[call.buffer_count - 1], kArena + placement_.plan.offsets[placement_.scratch_of[0]]);
  EXPECT_EQ(call.scratch_bytes, 300u);
  ASSERT_NE(call.library, nullptr);
  EXPECT_EQ(std::bit_cast<double>(call.library->alpha_f64_bits), 2.5);
  EXPECT_EQ(listed->ops()[1].library, nullptr);
}

TEST_F(PlanOpsTest, PassesScalarsAndSlots) {
  const Result<PlanOps> listed = build(false);
  ASSERT_TRUE(listed) << listed.error().message;
  const crucible_op& launch = listed->ops()[1];
  EXPECT_EQ(launch.kind, CRUCIBLE_OP_LAUNCH);
  ASSERT_EQ(launch.scalar_count, 2u);
  EXPECT_EQ(launch.scalars[0].slot, 0u);
  EXPECT_EQ(launch.scalars[1].slot, CRUCIBLE_SLOT_NONE);
  EXPECT_EQ(launch.scalars[0].type, CRUCIBLE_SCALAR_F64);
  EXPECT_EQ(launch.scalars[1].type, CRUCIBLE_SCALAR_I64);
  EXPECT_EQ(static_cast<std::int64_t>(launch.scalars[1].bits), -7);
}

TEST_F(PlanOpsTest, SizesOfBuffersStandBehindTheScalars) {
  const Result<PlanOps> listed = build(false, {.has_sizes = true});
  ASSERT_TRUE(listed) << listed.error().message;
  EXPECT_EQ(listed->ops()[0].scalar_count, 0u);  // a library call
  const crucible_op& launch = listed->ops()[1];
  const std::vector<kernel::BufferArgument>& buffers = schedule_.steps[1].buffers;
  ASSERT_EQ(launch.scalar_count, 2 + buffers.size());
  EXPECT_EQ(launch.scalars[1].slot, CRUCIBLE_SLOT_NONE);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(program_.values[buffers[i].value].elements) * 4;
    EXPECT_EQ(launch.scalars[2 + i].slot, abi::kBufferBytesSlot);
    EXPECT_EQ(launch.scalars[2 + i].bits, abi::buffer_bits(bytes, buffers[i].written)) << i;
  }
}

TEST_F(PlanOpsTest, PoisonFillsEveryBufferAfterItsLastStep) {
  const Result<PlanOps> listed = build(true);
  ASSERT_TRUE(listed) << listed.error().message;
  const auto ops = listed->ops();
  std::size_t fills = 0;
  for (std::uint32_t buffer = 0; buffer < placement_.buffers.size(); ++buffer) {
    const std::uint32_t end = placement_.buffers[buffer].end;
    if (end > schedule_.steps.size()) continue;  // alive to the end: filled before the next iteration
    ++fills;
    bool found = false;
    const std::size_t stop = end < schedule_.steps.size() ? listed->op_of_step()[end] : ops.size();
    for (std::size_t op = listed->op_of_step()[end - 1] + 1; op < stop; ++op) {
      found |= ops[op].kind == CRUCIBLE_OP_FILL && ops[op].pattern == kPoisonByte &&
               ops[op].size == placement_.buffers[buffer].size_bytes &&
               ops[op].buffers[0] == kArena + placement_.plan.offsets[buffer];
    }
    EXPECT_TRUE(found) << "buffer " << buffer << " dies after step " << end - 1;
  }
  EXPECT_GT(fills, 10u);
  EXPECT_EQ(ops.size(), schedule_.steps.size() + fills + placement_.home_copies.size());
}

TEST_F(PlanOpsTest, PassesEveryDigitOfAnInteger) {
  for (const std::int64_t integer : {(std::int64_t{1} << 53) + 1, std::numeric_limits<std::int64_t>::max(),
                                     std::numeric_limits<std::int64_t>::min()}) {
    schedule_.steps[1].scalars[1].integer = integer;
    const Result<PlanOps> listed = build(false);
    ASSERT_TRUE(listed) << listed.error().message;
    EXPECT_EQ(static_cast<std::int64_t>(listed->ops()[1].scalars[1].bits), integer);
  }
}

TEST_F(PlanOpsTest, RefusesAKernelThatIsNotThere) {
  schedule_.kernels[0].name = "other";
  const Result<PlanOps> listed = build(false);
  ASSERT_FALSE(listed);
  EXPECT_THAT(listed.error().message, HasSubstr("no such kernel"));
}

TEST_F(PlanOpsTest, AnAttentionIsDescribedWithItsFourthViewAndItsMask) {
  kernel::LibraryCall& call = schedule_.steps[0].library;
  call.kind = kernel::LibraryKind::kAttention;
  call.dtype = DType::kBF16;
  for (graph::View& view : call.views) view = graph::View::contiguous({1, 2, 3, 8});
  call.extra = {4, {1, 2, 3, 8}, {48, 8, 16, 1}};
  call.is_causal = true;
  const Result<PlanOps> listed = build(false);
  ASSERT_TRUE(listed) << listed.error().message;
  const crucible_library_desc* const desc = listed->ops()[0].library;
  ASSERT_NE(desc, nullptr);
  EXPECT_EQ(desc->kind, CRUCIBLE_LIB_ATTENTION);
  EXPECT_EQ(desc->mask, CRUCIBLE_MASK_CAUSAL);
  EXPECT_EQ(std::bit_cast<double>(desc->alpha_f64_bits), 2.5);
  EXPECT_EQ(desc->extra.rank, 4u);
  EXPECT_EQ(desc->extra.dtype, static_cast<std::uint32_t>(DType::kBF16));
  EXPECT_EQ(desc->extra.offset, 4);
  EXPECT_EQ(desc->extra.strides[2], 16);
}

TEST_F(PlanOpsTest, AGradientOfAnAttentionIsDescribedWithFiveViewsMore) {
  kernel::LibraryCall& call = schedule_.steps[0].library;
  call.kind = kernel::LibraryKind::kAttentionBackward;
  call.dtype = DType::kBF16;
  for (graph::View& view : call.views) view = graph::View::contiguous({1, 2, 3, 8});
  call.extra = graph::View::contiguous({1, 2, 3, 8});
  call.more = {graph::View::contiguous({1, 2, 3, 1})};
  for (std::int64_t i = 0; i < 4; ++i) call.more.push_back({i, {1, 2, 3, 8}, {48, 8, 16, 1}});
  const Result<PlanOps> listed = build(false);
  ASSERT_TRUE(listed) << listed.error().message;
  const crucible_library_desc* const desc = listed->ops()[0].library;
  EXPECT_EQ(desc->kind, CRUCIBLE_LIB_ATTENTION_BACKWARD);
  EXPECT_EQ(desc->more[0].dtype, static_cast<std::uint32_t>(DType::kF32)) << "logarithms are f32";
  EXPECT_EQ(desc->more[0].sizes[3], 1);
  for (int i = 1; i < 5; ++i) {
    EXPECT_EQ(desc->more[i].dtype, static_cast<std::uint32_t>(DType::kBF16)) << i;
    EXPECT_EQ(desc->more[i].offset, i - 1) << i;
  }
  call.more.push_back(call.extra);
  EXPECT_FALSE(build(false)) << "more views than the boundary has places for";
}

}  // namespace
}  // namespace crucible::runtime
