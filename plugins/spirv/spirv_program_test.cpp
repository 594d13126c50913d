// Kernels of random programs as SPIR-V: each module is valid, and on a device it ends with the bits of the kernel IR's
// interpreter.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "core/graph/random_program.hpp"
#include "core/graph/whole_slot_program.hpp"
#include "core/kernel/run_schedule.hpp"
#include "core/kernel/schedule.hpp"
#include "plugins/spirv/ordered_loops.hpp"
#include "plugins/spirv/testing.hpp"

namespace crucible::spirv {
namespace {

using namespace crucible;

struct Emitted {
  Words words;
  std::map<std::string, std::vector<Parameter>> kernels;
  std::map<std::string, sdk::Team> teams;  // of those that teams do
  bool by_subgroups = false;
  /// Work-items of a group; of several sub-groups where there is room.
  std::size_t group_of(const sdk::Team& team) const {
    return std::size_t{team.lanes} * (by_subgroups ? std::min(team.most, 3u) : 1);
  }
};

Emitted emit(const kernel::Schedule& schedule, std::uint32_t lanes = 1, bool by_subgroups = false) {
  KernelModule module;
  Emitted emitted;
  emitted.by_subgroups = by_subgroups;
  for (const kernel::Kernel& kernel : schedule.kernels) {
    if (emitted.kernels.contains(kernel.name)) continue;
    const sdk::Kernel read = sdk::read_kernel(kernel.ir.data(), kernel.ir.size());
    sdk::Team team = sdk::plan_team(read, lanes, by_subgroups);
    emitted.kernels[kernel.name] = module.add(read, kernel.name, {.team = &team, .by_subgroups = by_subgroups});
    if (team.lanes > 1) emitted.teams[kernel.name] = std::move(team);
  }
  emitted.words = module.words();
  return emitted;
}

Result<std::vector<graph::Bytes>> run_on_device(const graph::RandomProgram& random, const kernel::Schedule& schedule,
                                                const Emitted& emitted, const kernel::RunOptions& options) {
  testing::DeviceProgram program(emitted.words);
  return kernel::run_schedule(random.program, schedule, random.values, random.slots, options,
                              [&](const kernel::Launch& launch) -> Result<void> {
                                const std::string& name = schedule.kernels[launch.step.kernel].name;
                                const auto team = emitted.teams.find(name);
                                const std::size_t group =
                                    team == emitted.teams.end() ? 0 : emitted.group_of(team->second);
                                program.run(name, emitted.kernels.at(name), launch.buffers, launch.scalars,
                                            launch.begin, launch.end, group == 0 ? 24 : 5 * group, group);
                                return {};
                              });
}

/// How many seeds; more by the environment.
std::uint64_t seeds(std::uint64_t usual) {
  const char* wanted = std::getenv("CRUCIBLE_SPIRV_PROGRAMS");
  return wanted == nullptr ? usual : std::strtoull(wanted, nullptr, 10);
}

/// `lanes`: of a device whose work-items run in step; teams of as many do items together.
void compare(kernel::Numerics numerics, bool fuse, std::uint64_t first_seed, std::uint64_t count,
             std::uint32_t lanes = 1, bool by_subgroups = false) {
  if (const std::string reason = testing::DeviceProgram::no_device(); !reason.empty()) GTEST_SKIP() << reason;
  std::size_t teams = 0;
  for (std::uint64_t seed = first_seed; seed < first_seed + count; ++seed) {
    const graph::RandomProgram random = graph::random_program({.seed = seed, .ops = 40});
    const auto schedule = kernel::schedule(
        random.program,
        {.claims = {}, .fuse = fuse, .numerics = numerics, .device = {.lanes = static_cast<int>(lanes)}});
    ASSERT_TRUE(schedule) << schedule.error().message;
    const Emitted emitted = emit(*schedule, lanes, by_subgroups);
    teams += emitted.teams.size();
    const auto interpreter = kernel::ScheduleInterpreter::create(random.program, *schedule);
    ASSERT_TRUE(interpreter) << interpreter.error().message;
    const kernel::RunOptions options = {.in_place = seed % 2 == 0, .pieces = seed % 3 == 0 ? 3 : 1};
    const auto expected = interpreter->run(random.program, *schedule, random.values, random.slots, options, false);
    ASSERT_TRUE(expected) << expected.error().message;
    const auto got = run_on_device(random, *schedule, emitted, options);
    ASSERT_TRUE(got) << got.error().message;
    for (std::size_t v = 0; v < expected->size(); ++v)
      EXPECT_EQ((*got)[v], (*expected)[v]) << "seed " << seed << " value " << v;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_EQ(teams > count, lanes > 1) << teams;  // else this says nothing of teams
}

TEST(SpirvProgram, EveryModuleIsValid) {
  if (const std::string reason = testing::no_validator(); !reason.empty()) GTEST_SKIP() << reason;
  for (std::uint64_t seed = 600; seed < 600 + seeds(40); ++seed) {
    const graph::RandomProgram random = graph::random_program({.seed = seed, .ops = 60});
    const auto schedule = kernel::schedule(
        random.program, {.claims = {},
                         .fuse = seed % 3 != 0,
                         .numerics = seed % 2 == 0 ? kernel::Numerics::kStrict : kernel::Numerics::kFast,
                         .device = {}});
    ASSERT_TRUE(schedule) << schedule.error().message;
    const Words words = emit(*schedule).words;
    ASSERT_EQ(testing::validate(words), "") << "seed " << seed;
    ASSERT_EQ(testing::validate(with_ordered_loops(words)), "") << "seed " << seed;
    ASSERT_EQ(testing::validate(emit(*schedule, 16).words), "") << "seed " << seed << ", teams";
    const Words subgroups = emit(*schedule, 16, true).words;
    ASSERT_EQ(testing::validate(subgroups), "") << "seed " << seed << ", sub-groups";
    ASSERT_EQ(testing::validate(with_ordered_loops(subgroups)), "") << "seed " << seed << ", sub-groups";
  }
}

TEST(SpirvProgram, WholeSlotsKeepEveryDigit) {
  const graph::WholeSlotProgram made = graph::whole_slot_program();
  for (const bool fuse : {true, false}) {
    const auto schedule =
        kernel::schedule(made.program, {.claims = {}, .fuse = fuse, .numerics = kernel::Numerics::kFast, .device = {}});
    ASSERT_TRUE(schedule) << schedule.error().message;
    const Emitted emitted = emit(*schedule);
    if (testing::no_validator().empty()) {
      EXPECT_EQ(testing::validate(emitted.words), "");
    }
    if (!testing::DeviceProgram::no_device().empty()) continue;
    for (std::size_t i = 0; i < graph::kWholeNumbers.size(); ++i) {
      const auto got = run_on_device({made.program, made.values, made.slots[i]}, *schedule, emitted, {});
      ASSERT_TRUE(got) << got.error().message;
      EXPECT_EQ(graph::difference(made, i, made.program, *got), "");
    }
  }
}

TEST(SpirvProgram, StrictBitsAreTheInterpreters) { compare(kernel::Numerics::kStrict, true, 700, seeds(12)); }

TEST(SpirvProgram, UnfusedStrictBitsAreTheInterpreters) { compare(kernel::Numerics::kStrict, false, 800, seeds(4)); }

TEST(SpirvProgram, TeamsHaveTheInterpretersBits) {
  compare(kernel::Numerics::kStrict, true, 1000, seeds(6), 16);
  compare(kernel::Numerics::kStrict, true, 1100, seeds(3), 32);
}

TEST(SpirvProgram, TeamsThatAreSubgroupsHaveTheInterpretersBits) {
  compare(kernel::Numerics::kStrict, true, 1200, seeds(6), 16, true);
  compare(kernel::Numerics::kStrict, true, 1300, seeds(3), 32, true);
}

TEST(SpirvProgram, FastBitsAreTheInterpretersToo) { compare(kernel::Numerics::kFast, true, 900, seeds(6)); }

}  // namespace
}  // namespace crucible::spirv
