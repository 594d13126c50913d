// Kernels get whole numbers with all of their digits: interpreted, and compiled from the C text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "core/graph/whole_slot_program.hpp"
#include "core/kernel/run_schedule.hpp"
#include "core/kernel/schedule_check.hpp"
#include "core/kernel/testing/host_executor.hpp"

namespace crucible::kernel {
namespace {

using testing::HasSubstr;

struct Way {
  bool fuse = true;
  Numerics numerics = Numerics::kFast;
};

void PrintTo(const Way& way, std::ostream* out) {
  *out << (way.fuse ? "Fused" : "PerOp") << (way.numerics == Numerics::kStrict ? "Strict" : "Fast");
}

class WholeSlotKernels : public testing::TestWithParam<Way> {};

TEST_P(WholeSlotKernels, KeepEveryDigit) {
  const graph::WholeSlotProgram made = graph::whole_slot_program();
  const auto scheduled = schedule(made.program, {.fuse = GetParam().fuse, .numerics = GetParam().numerics});
  ASSERT_TRUE(scheduled) << scheduled.error().message;
  const auto checked = check_schedule(made.program, *scheduled);
  ASSERT_TRUE(checked) << checked.error().message;
  const auto interpreter = ScheduleInterpreter::create(made.program, *scheduled);
  ASSERT_TRUE(interpreter) << interpreter.error().message;
  std::optional<HostKernels> compiled;
  if (!HostKernels::compiler().empty()) {
    auto kernels = HostKernels::compile({&*scheduled});
    ASSERT_TRUE(kernels) << kernels.error().message;
    compiled = *std::move(kernels);
  }
  for (std::size_t i = 0; i < graph::kWholeNumbers.size(); ++i) {
    const auto interpreted =
        interpreter->run(made.program, *scheduled, made.values, made.slots[i], {.pieces = 2}, true);
    ASSERT_TRUE(interpreted) << interpreted.error().message;
    EXPECT_EQ(graph::difference(made, i, made.program, *interpreted), "") << "interpreted";
    if (!compiled) continue;
    const auto ran = run_on_host(made.program, *scheduled, *compiled, made.values, made.slots[i], {.pieces = 3});
    ASSERT_TRUE(ran) << ran.error().message;
    EXPECT_EQ(graph::difference(made, i, made.program, *ran), "") << "compiled";
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, WholeSlotKernels,
                         testing::Values(Way{true, Numerics::kFast}, Way{false, Numerics::kFast},
                                         Way{true, Numerics::kStrict}, Way{false, Numerics::kStrict}),
                         testing::PrintToStringParamName());

TEST(WholeSlots, AStepThatReadsASlotInAnotherTypeIsRefused) {
  const graph::WholeSlotProgram made = graph::whole_slot_program();
  auto scheduled = schedule(made.program, {});
  ASSERT_TRUE(scheduled) << scheduled.error().message;
  for (Step& step : scheduled->steps) {
    for (graph::Scalar& scalar : step.scalars) {
      if (scalar.slot == 1) scalar.is_integer = false;
    }
  }
  const auto checked = check_schedule(made.program, *scheduled);
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message, HasSubstr("reads slot 1 as a number of another type"));
}

}  // namespace
}  // namespace crucible::kernel
