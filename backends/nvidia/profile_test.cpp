// What CUPTI tells of plans, on the emulated driver and the emulated CUPTI: times by activities, counters, and what is
// said where neither can be had. Each case with rules is a process of its own, because an emulator reads its rules
// once.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "backends/nvidia/testing.hpp"
#include "plugins/loader/capability.hpp"
#include "plugins/loader/counters.hpp"
#include "plugins/sdk/testing/device_products.hpp"
#include "plugins/sdk/testing/profiled_work.hpp"
#include "plugins/sdk/testing/told_health.hpp"

namespace crucible::backend {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceProducts);  // nvidia_products_test's
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceMatrixProducts);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceEpilogues);

const std::vector<std::string> kThreads = {"smsp__threads_launched.sum"};

std::filesystem::path emulated_cupti() {
  return std::filesystem::path(CRUCIBLE_TEST_CUDA).parent_path() / "libcupti.so.13";
}

PluginUnderTest with_cupti(const Options& more = {}) {
  Options options = {{"cupti", emulated_cupti().string()}};
  for (const auto& [name, value] : more) options[name] = value;
  return emulated_nvidia(options);
}

// Profiles are by activities here: of plans with slots, copies and ops that do nothing too.
INSTANTIATE_TEST_SUITE_P(NvidiaTraced, DevicePlugin, ::testing::Values(with_cupti()),
                         ::testing::PrintToStringParamName());

class NvidiaProfile : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(emulated_cupti()))
      GTEST_SKIP() << "no emulated CUPTI was built (crucible_emulated_cupti)";
    if (!std::filesystem::exists(CRUCIBLE_TEST_NVRTC))
      GTEST_SKIP() << "no NVRTC was found for the tests (CRUCIBLE_TEST_NVRTC)";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

std::shared_ptr<Device> open(const char* rules, const Options& more = {}) {
  setenv("CRUCIBLE_EMU_FAULTS", rules, 1);
  return take(try_open(with_cupti(more)));
}

/// No event can be recorded, so times are those of activities.
constexpr const char* kNoEvents = "fail@record(cuEventRecord)";

TEST_F(NvidiaProfile, ActivitiesTimeOneReplayOfTheWholeGraph) {
  expect_run([] {
    const auto device = open(kNoEvents);
    Work work(device);
    EXPECT_EQ(work.plan().times_from(), "");
    EXPECT_THAT(take(work.plan().profile()), ElementsAre(Gt(0u), Gt(0u), 0u, Gt(0u)));
    EXPECT_EQ(work.plan().times_from(), "CUPTI's records of one replay of the whole graph, node after node");
  });
  expect_run([] {
    const auto device = open(kNoEvents, {{"profiler", "none"}});
    const auto times = Work(device).plan().profile();
    ASSERT_FALSE(times);
    EXPECT_THAT(times.error().message, HasSubstr("cuEventRecord"));
  });
}

TEST_F(NvidiaProfile, AProductsLaunchesAreItsOwn) {
  if (!std::filesystem::exists(emulated_cublas()))
    GTEST_SKIP() << "no emulated cuBLASLt was built (crucible_emulated_cublaslt)";
  expect_run([] {
    const crucible_view square = view_of({64, 64}, {64, 1});
    EXPECT_THAT(times_around(open(kNoEvents), product_of(square, square, square)), ElementsAre(Gt(0u), Gt(0u), Gt(0u)));
  });
}

TEST_F(NvidiaProfile, EveryLaunchOfAProductForTheTensorCoresIsItsOwn) {
  expect_run([] {
    const auto heads = [](std::vector<std::int64_t> sizes, std::vector<std::int64_t> strides) {
      return view_of(std::move(sizes), std::move(strides), 0, 7);
    };
    const auto product = product_of(heads({2, 3, 24, 16}, {1152, 16, 48, 1}), heads({2, 3, 16, 24}, {1152, 16, 1, 48}),
                                    heads({2, 3, 24, 24}, {1728, 576, 24, 1}));
    EXPECT_THAT(times_around(open(kNoEvents, {{"blas", "none"}}), product), ElementsAre(Gt(0u), Gt(0u), Gt(0u)));
  });
}

TEST_F(NvidiaProfile, WithoutRightsTimesAreThoseOfEventsAndThatIsSaidOnce) {
  expect_run(
      [] {
        const auto device = open("deny@query(cuptiActivityEnable)");
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
      "warning: nvidia .nvidia.: nvidia:0: times per op are those of events: cuptiActivityEnable: "
      "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES .*"
      "NVreg_RestrictProfilingToAdminUsers=0");
}

TEST_F(NvidiaProfile, LostRecordsAreNoTimes) {
  expect_run([] {
    const auto device = open("fail@record(cupti)");
    EXPECT_THAT(take(Work(device).plan().profile()), ElementsAre(Gt(0u), Gt(0u), 0u, Gt(0u)));
  }, "times per op are those of events: CUPTI 13.*lost 3 records");
}

TEST_F(NvidiaProfile, CountersAreThoseOfWhatRan) {
  expect_run([] {
    const auto device = open("", {{"teams", "false"}});
    Work work(device);
    auto counting =
        take(Counting::begin(device, std::vector<std::string>{"smsp__threads_launched.sum", "smsp__warps_launched.sum",
                                                              "gpu__time_duration.sum"}));
    EXPECT_THAT(values_of(counting), ElementsAre(0u, 0u, 0u));
    ASSERT_TRUE(work.plan().replay());
    const std::vector<std::uint64_t> once = values_of(counting);
    ASSERT_EQ(once.size(), 3u);
    EXPECT_GE(once[0], std::uint64_t{2 * kItems / 4}) << "two launches, a thread for four items, 16 bytes";
    EXPECT_LT(once[0], std::uint64_t{2 * kItems / 4 + 2 * 256}) << "in blocks of at most 256";
    EXPECT_EQ(once[1], once[0] / 32);
    EXPECT_GT(once[2], 0u);
    ASSERT_TRUE(work.plan().replay());
    ASSERT_TRUE(work.plan().replay());
    EXPECT_EQ(values_of(counting)[0], 3 * once[0]) << "since the begin";
    EXPECT_THAT(take(work.plan().profile()), ElementsAre(Gt(0u), Gt(0u), 0u, Gt(0u))) << "by events meanwhile";
  });
}

TEST_F(NvidiaProfile, ListedAreThoseOfTheChip) {
  expect_run([] {
    const auto device = open("");
    const KnownCounters known = known_counters(device->backend(), "nvidia:0");
    ASSERT_EQ(known.counters.size(), 3u);
    EXPECT_EQ(known.counters[0].name, "gpu__time_duration.sum");
    EXPECT_EQ(known.counters[0].what, "nanoseconds");
    EXPECT_THAT(capability_reason(device->backend(), "nvidia:0", "profile"), HasSubstr("CUPTI 13."));
  });
  expect_run([] {
    const KnownCounters known = known_counters(open("fail@query(cuptiGetVersion)")->backend(), "nvidia:0");
    EXPECT_TRUE(known.counters.empty());
    EXPECT_THAT(known.why_none, HasSubstr("CUPTI of CUDA 13 or newer is needed for counters"));
  });
  expect_run([] {
    const KnownCounters known = known_counters(open("fail@query(cuptiProfilerInitialize)")->backend(), "nvidia:0");
    EXPECT_TRUE(known.counters.empty());
    EXPECT_THAT(known.why_none, HasSubstr("cuptiProfilerInitialize: CUPTI_ERROR_UNKNOWN (999)"));
  });
  expect_run([] {
    setenv("CRUCIBLE_EMU_TIMING", "roofline", 1);
    const auto device = open("");
    Work work(device);
    auto counting = take(Counting::begin(device, std::vector<std::string>{"dram__bytes.sum"}));
    ASSERT_TRUE(work.plan().replay());
    EXPECT_GE(take(counting.read())[0].value, 5u * kItems * sizeof(float))
        << "a fill writes, two launches read and write";
  });
}

void expect_refused(const char* rules, const std::vector<std::string>& names, std::uint32_t code, const char* part,
                    const Options& more = {}) {
  expect_run([&] {
    const auto told = refusal(open(rules, more), names);
    EXPECT_EQ(told.first, code);
    EXPECT_THAT(told.second, HasSubstr(part));
  });
}

TEST_F(NvidiaProfile, WhatCannotBeCountedIsRefusedWithWhatToDo) {
  expect_refused("", {"cycles"}, CRUCIBLE_E_UNSUPPORTED,
                 "there is no counter 'cycles': this device has gpu__time_duration.sum, smsp__warps_launched.sum");
  expect_refused("deny@query(cuptiRangeProfilerEnable)", kThreads, CRUCIBLE_E_PERMISSION,
                 "NVreg_RestrictProfilingToAdminUsers=0");
  expect_refused("deny@query(cuptiProfilerGetCounterAvailability)", kThreads, CRUCIBLE_E_PERMISSION, "run as root");
  expect_refused("deny:code=CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES@query(cuptiRangeProfilerEnable)",
                 kThreads, CRUCIBLE_E_PERMISSION, "allowed for it on the machine that it belongs to");
  expect_refused("fail:code=CUPTI_ERROR_HARDWARE_BUSY@query(cuptiRangeProfilerEnable)", kThreads,
                 CRUCIBLE_E_UNAVAILABLE, "another profiler");
  expect_refused("fail:code=CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED@query(cuptiRangeProfilerEnable)", kThreads,
                 CRUCIBLE_E_UNAVAILABLE,
                 "CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED (43); CUPTI does not profile this kind of device");
  expect_refused("fail@query(cuptiProfilerHostGetNumOfPasses)", kThreads, CRUCIBLE_E_UNAVAILABLE,
                 "in 2 runs, and a replay is one: ask for fewer");
  expect_refused("fail@query(cuptiGetVersion)", kThreads, CRUCIBLE_E_UNSUPPORTED,
                 "CUPTI of CUDA 13 or newer is needed");
  expect_refused("", kThreads, CRUCIBLE_E_UNSUPPORTED, "none (the option profiler is none; times are those of events",
                 {{"profiler", "none"}});
  expect_refused("", kThreads, CRUCIBLE_E_UNSUPPORTED,
                 "an emulated device takes only a CUPTI that the option cupti names", {{"cupti", ""}});
}

TEST_F(NvidiaProfile, ARefusedCounterLeavesNothingBehind) {
  expect_run([] {
    const auto device = open("deny@query(cuptiRangeProfilerEnable)#1");
    EXPECT_EQ(refusal(device, kThreads).first, static_cast<std::uint32_t>(CRUCIBLE_E_PERMISSION));
    EXPECT_EQ(refusal(device, kThreads).second, "");
    EXPECT_THAT(refusal(device, kThreads).second, HasSubstr("counters are counted already"));
    const crucible_if_profile& table = device->backend().tables().profile;
    EXPECT_TRUE(to_result(table.end(device->handle()), "end"));
    EXPECT_THAT(to_result(table.end(device->handle()), "end").error().message, HasSubstr("nothing is counted"));
    EXPECT_THAT(to_result(table.read(device->handle(), take_health, nullptr), "read").error().message,
                HasSubstr("nothing is counted"));
    EXPECT_EQ(refusal(device, {}).second, "") << "no counter at all can be begun";
    EXPECT_TRUE(to_result(table.end(device->handle()), "end"));
  });
}

TEST_F(NvidiaProfile, ADemandedLibraryThatIsNotThereIsRefused) {
  const auto opened = try_open(with_cupti({{"profiler", "cupti"}, {"cupti", "/nowhere/libcupti.so.13"}}));
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message,
              AllOf(HasSubstr("the option profiler demands CUPTI: "), HasSubstr("nvidia-cuda-cupti")));
}

}  // namespace
}  // namespace crucible::backend
