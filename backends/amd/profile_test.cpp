// What rocprofiler-sdk tells of plans, on the emulated runtime and the emulated rocprofiler-sdk: times by dispatches,
// counters, and what is said where neither can be had. Each case is a process of its own: the library is configured
// once in a process, and an emulator reads its rules once.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "plugins/loader/capability.hpp"
#include "plugins/sdk/testing/device_products.hpp"
#include "plugins/sdk/testing/profiled_work.hpp"

namespace crucible::backend {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceProducts);  // amd_products_test's
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceEpilogues);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceMatrixProducts);

const std::filesystem::path kFolder = CRUCIBLE_TEST_HIP_FOLDER;
const std::filesystem::path kProfiler = kFolder / "librocprofiler-sdk.so.1";
const std::vector<std::string> kWaves = {"SQ_WAVES"};

PluginUnderTest with_profiler(const Options& more = {}) {
  Options options = {{"library", kFolder / "libamdhip64.so.6"},
                     {"hiprtc", kFolder / "libhiprtc.so.6"},
                     {"rocblas", kFolder / "librocblas.so.4"},
                     {"profiler", "auto"},
                     {"rocprofiler", kProfiler}};
  for (const auto& [name, value] : more) options[name] = value;
  return {"amd", "hip", options};
}

// Profiles are by dispatches here: of plans with slots, copies and ops that do nothing too.
INSTANTIATE_TEST_SUITE_P(AmdTraced, DevicePlugin, ::testing::Values(with_profiler()),
                         ::testing::PrintToStringParamName());

class AmdProfile : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kProfiler))
      GTEST_SKIP() << "no emulated rocprofiler-sdk was built (crucible_emulated_rocprofiler)";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

std::shared_ptr<Device> open(const char* rules, const Options& more = {}) {
  setenv("CRUCIBLE_EMU_FAULTS", rules, 1);
  return take(try_open(with_profiler(more)));
}

/// No event can be recorded, so times are those of dispatches.
constexpr const char* kNoEvents = "fail@record(hipEventRecord)";

TEST_F(AmdProfile, DispatchesTimeOneReplayOfTheWholeGraph) {
  expect_run([] {
    const auto device = open(kNoEvents);
    Work work(device);
    EXPECT_EQ(work.plan().times_from(), "");
    EXPECT_THAT(take(work.plan().profile()), ElementsAre(Gt(0u), Gt(0u), 0u, Gt(0u)));
    EXPECT_EQ(work.plan().times_from(), "rocprofiler-sdk's records of one replay of the whole graph, node after node");
  });
  expect_run([] {
    const auto device = open(kNoEvents, {{"profiler", "none"}});
    const auto times = Work(device).plan().profile();
    ASSERT_FALSE(times);
    EXPECT_THAT(times.error().message, HasSubstr("hipEventRecord"));
  });
}

TEST_F(AmdProfile, ALibrarysLaunchesAreItsOwn) {
  if (!std::filesystem::exists(kFolder / "librocblas.so.4"))
    GTEST_SKIP() << "no emulated rocBLAS was built (crucible_emulated_rocblas)";
  expect_run([] {
    const crucible_view square = view_of({64, 64}, {64, 1});
    EXPECT_THAT(times_around(open(kNoEvents, {{"blas", "auto"}}), product_of(square, square, square)),
                ElementsAre(Gt(0u), Gt(0u), Gt(0u)));
  });
}

/// Fills of so many bytes each, one after the other.
std::vector<std::uint64_t> times_of_fills(const std::shared_ptr<Device>& device, std::size_t count,
                                          std::uint64_t bytes) {
  const Buffer memory = take(Buffer::allocate(device, bytes, 256));
  const std::uint64_t place = memory.address();
  crucible_op fill = {};
  fill.struct_size = sizeof(fill);
  fill.kind = CRUCIBLE_OP_FILL;
  fill.buffers = &place;
  fill.buffer_count = 1;
  fill.size = bytes;
  fill.grain = 1;
  return take(take(Plan::build(device, std::vector<crucible_op>(count, fill), 0)).profile());
}

TEST_F(AmdProfile, AFillMayBeSeveralKernelsAndSeveralInARowCannotBeToldApart) {
  expect_run([] {
    const auto device = open(kNoEvents);
    EXPECT_THAT(times_of_fills(device, 1, 4000), ElementsAre(Gt(0u)));
    EXPECT_THAT(times_of_fills(device, 2, 4000), ElementsAre(Gt(0u), Gt(0u)));
    EXPECT_THAT(times_of_fills(device, 1, 4004), ElementsAre(Gt(0u))) << "two kernels";
  });
  expect_run([] { EXPECT_EQ(times_of_fills(open(""), 2, 4004).size(), 2u); },
             "times per op are those of events: rocprofiler-sdk tells of 4 activities of a plan that has 2");
}

TEST_F(AmdProfile, TheDeviceIsFoundByItsPlaceOnTheBus) {
  expect_run([] {
    setenv("CRUCIBLE_EMU_DEVICES", "2", 1);
    setenv("HIP_VISIBLE_DEVICES", "1", 1);
    const auto device = open(kNoEvents);
    EXPECT_THAT(take(Work(device).plan().profile()), ElementsAre(Gt(0u), Gt(0u), 0u, Gt(0u)));
  });
}

TEST_F(AmdProfile, WithoutRightsTimesAreThoseOfEventsAndThatIsSaidOnce) {
  // The second start: the first is that of the context for kernels' names.
  expect_run(
      [] {
        const auto device = open("deny@query(rocprofiler_start_context)#2+");
        Work work(device);
        ::testing::internal::CaptureStderr();
        EXPECT_THAT(take(work.plan().profile()), ElementsAre(Gt(0u), Gt(0u), 0u, Gt(0u)));
        const std::string first = ::testing::internal::GetCapturedStderr();
        ::testing::internal::CaptureStderr();
        EXPECT_EQ(take(work.plan().profile()).size(), 4u);
        EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
        EXPECT_EQ(work.plan().times_from(), "events around each op");
        std::fputs(first.c_str(), stderr);
      },
      "warning: amd .amd.: amd:0: times per op are those of events: rocprofiler_start_context: "
      "ROCPROFILER_STATUS_ERROR_PERMISSION_DENIED .*"
      "CAP_PERFMON");
}

TEST_F(AmdProfile, LostRecordsAreNoTimes) {
  expect_run([] {
    const auto device = open("fail@record(rocprofiler)");
    EXPECT_THAT(take(Work(device).plan().profile()), ElementsAre(Gt(0u), Gt(0u), 0u, Gt(0u)));
  }, "times per op are those of events: rocprofiler-sdk 1.0.0 lost 3 records");
}

TEST_F(AmdProfile, CountersAreThoseOfWhatRan) {
  expect_run([] {
    const auto device = open("", {{"teams", "false"}});
    Work work(device);
    auto counting = take(
        Counting::begin(device, std::vector<std::string>{"SQ_WAVES", "GRBM_GUI_ACTIVE", "SPI_CSN_NUM_THREADGROUPS"}));
    EXPECT_THAT(values_of(counting), ElementsAre(0u, 0u, 0u));
    ASSERT_TRUE(work.plan().replay());
    const std::vector<std::uint64_t> once = values_of(counting);
    ASSERT_EQ(once.size(), 3u);
    EXPECT_GE(once[0], std::uint64_t{2 * kItems / 4 / 64}) << "two launches, a thread for four items in waves of 64";
    EXPECT_LE(once[0], std::uint64_t{2 * (kItems / 4 + 256) / 64}) << "in blocks of at most 256";
    EXPECT_GT(once[1], 0u);
    EXPECT_GE(once[2], 2u);
    EXPECT_LE(once[2], once[0]);
    ASSERT_TRUE(work.plan().replay());
    ASSERT_TRUE(work.plan().replay());
    EXPECT_EQ(values_of(counting)[0], 3 * once[0]) << "since the begin";
    EXPECT_THAT(take(work.plan().profile()), ElementsAre(Gt(0u), Gt(0u), 0u, Gt(0u))) << "by events meanwhile";
    EXPECT_EQ(work.plan().times_from(), "events around each op");
  });
}

TEST_F(AmdProfile, ListedAreThoseOfTheDevice) {
  expect_run([] {
    const auto device = open("");
    const KnownCounters known = known_counters(device->backend(), "amd:0");
    ASSERT_EQ(known.counters.size(), 3u);
    EXPECT_EQ(known.counters[2].name, "SQ_WAVES");
    EXPECT_EQ(known.counters[2].what, "waves launched");
    EXPECT_THAT(capability_reason(device->backend(), "amd:0", "profile"), HasSubstr("rocprofiler-sdk 1.0.0 ("));
  });
}

void expect_none(const char* rules, const char* part, const Options& more = {}) {
  expect_run([&] {
    const KnownCounters known = known_counters(open(rules, more)->backend(), "amd:0");
    EXPECT_TRUE(known.counters.empty());
    EXPECT_THAT(known.why_none, HasSubstr(part));
  });
}

TEST_F(AmdProfile, WithoutCountersTheReasonIsTold) {
  expect_none("fail@query(rocprofiler_get_version)", "rocprofiler-sdk 0.6.0 (");
  expect_none("fail@query(rocprofiler_get_version)", "is too old: rocprofiler-sdk 1.0 (ROCm 7) or newer is needed");
  expect_none("fail@query(rocprofiler_force_configure)", "another tool of this process profiles already");
  expect_none("deny@query(rocprofiler_query_available_agents)", "may open /dev/kfd");
  expect_none("", "cannot be loaded", {{"rocprofiler", "/nowhere/librocprofiler-sdk.so.1"}});
  expect_none("", "an emulated device takes only a rocprofiler-sdk that the option rocprofiler names",
              {{"rocprofiler", ""}});
  expect_none("", "none (the option profiler is none; times are those of events, and nothing is counted)",
              {{"profiler", "none"}});
}

TEST_F(AmdProfile, WhatComesTooLateIsSaidOnce) {
  expect_run([] { (void)Work(open("fail@query(rocprofiler_force_configure)")).plan().profile(); },
             "warning: amd .amd.: rocprofiler-sdk 1.0.0: rocprofiler_force_configure: "
             "ROCPROFILER_STATUS_ERROR_CONFIGURATION_LOCKED .*another tool");
  expect_run([] {
    (void)open("", {{"profiler", "none"}});  // the runtime has started
    const auto device = open("");
    EXPECT_THAT(take(Work(device).plan().profile()), ElementsAre(Gt(0u), Gt(0u), 0u, Gt(0u)));
    EXPECT_THAT(capability_reason(device->backend(), "amd:0", "profile"),
                HasSubstr("the HIP runtime was started in this process before"));
  }, "warning: amd .amd.: rocprofiler-sdk 1.0.0: the HIP runtime was started");
}

void expect_refused(const char* rules, const std::vector<std::string>& names, std::uint32_t code, const char* part) {
  expect_run([&] {
    const auto told = refusal(open(rules), names);
    EXPECT_EQ(told.first, code);
    EXPECT_THAT(told.second, HasSubstr(part));
  });
}

TEST_F(AmdProfile, WhatCannotBeCountedIsRefusedWithWhatToDo) {
  expect_refused("", {"cycles"}, CRUCIBLE_E_UNSUPPORTED,
                 "there is no counter 'cycles': this device has GRBM_GUI_ACTIVE, SPI_CSN_NUM_THREADGROUPS, SQ_WAVES");
  expect_refused("deny@query(rocprofiler_start_context)#2", kWaves, CRUCIBLE_E_PERMISSION, "run as root");
  expect_refused("deny@query(rocprofiler_sample_device_counting_service)", kWaves, CRUCIBLE_E_PERMISSION,
                 "CAP_PERFMON");
  expect_refused("fail:code=ROCPROFILER_STATUS_ERROR_EXCEEDS_HW_LIMIT@query(rocprofiler_create_counter_config)", kWaves,
                 CRUCIBLE_E_UNAVAILABLE, "ask for fewer counters at once");
  expect_refused("fail:code=ROCPROFILER_STATUS_ERROR_CONTEXT_CONFLICT@query(rocprofiler_start_context)#2", kWaves,
                 CRUCIBLE_E_UNAVAILABLE, "another tool of this process");
}

TEST_F(AmdProfile, ARefusedCounterLeavesNothingBehind) {
  expect_run([] {
    const auto device = open("deny@query(rocprofiler_sample_device_counting_service)#1");
    EXPECT_EQ(refusal(device, kWaves).first, static_cast<std::uint32_t>(CRUCIBLE_E_PERMISSION));
    EXPECT_EQ(refusal(device, kWaves).second, "");
    EXPECT_THAT(refusal(device, kWaves).second, HasSubstr("counters are counted already"));
    EXPECT_TRUE(to_result(device->backend().tables().profile.end(device->handle()), "end"));
  });
}

TEST_F(AmdProfile, ADemandedLibraryThatIsNotThereIsRefused) {
  expect_run([] {
    const auto opened =
        try_open(with_profiler({{"profiler", "rocprofiler"}, {"rocprofiler", "/nowhere/librocprofiler-sdk.so.1"}}));
    ASSERT_FALSE(opened);
    EXPECT_THAT(opened.error().message, AllOf(HasSubstr("the option profiler demands rocprofiler-sdk: "),
                                              HasSubstr("rocprofiler-sdk of ROCm 7")));
  });
}

}  // namespace
}  // namespace crucible::backend
