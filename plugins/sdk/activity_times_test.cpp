// Records of a device given to the ops that they are of.
#include "plugins/sdk/activity_times.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace crucible::sdk {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<Activity> kHeard = {{"k_0", 10, 30}, {"", 30, 34}, {"other", 40, 60}, {"more", 50, 55}};

std::string refusal(const std::vector<OpActivities>& ops) {
  try {
    (void)times_of_ops(kHeard, ops, {"plugin", "PROF"});
    return "";
  } catch (const Failure& failure) {
    return failure.what();
  }
}

TEST(ActivityTimes, AnOpsTimeIsFromItsFirstBeginToItsLastEnd) {
  const std::vector<OpActivities> ops = {{1, "k_0"}, {0, ""}, {1, ""}, {2, ""}};
  EXPECT_THAT(times_of_ops(kHeard, ops, {"plugin", "PROF"}), ElementsAre(20u, 0u, 4u, 20u));
}

TEST(ActivityTimes, RecordsThatDoNotAgreeAreRefused) {
  EXPECT_THAT(refusal({{1, "k_0"}}), HasSubstr("PROF tells of 4 activities of a plan that has 1"));
  EXPECT_THAT(refusal({{2, "k_0"}, {2, "k_2"}}),
              HasSubstr("PROF tells of the kernel 'other' in the place of op 1, which is k_2"));
}

struct TestDevice {
  struct {
    std::string id = "dev:0";
  } facts;
  struct {
    bool counts = false;
    bool is_counting() const { return counts; }
  } counters;
  std::atomic<bool> refuses_tracing = false;
};

TEST(ActivityTimes, ARefusalIsForGoodButForALostDevice) {
  TestDevice device;
  const auto good = [] { return std::vector<std::uint64_t>{1}; };
  EXPECT_TRUE(times_unless_refused(device, "plugin", good));
  device.counters.counts = true;
  EXPECT_FALSE(times_unless_refused(device, "plugin", good));
  device.counters.counts = false;
  const auto lost = []() -> std::vector<std::uint64_t> { throw Failure(CRUCIBLE_E_DEVICE_LOST, "gone"); };
  EXPECT_THROW((void)times_unless_refused(device, "plugin", lost), Failure);
  EXPECT_TRUE(times_unless_refused(device, "plugin", good));
  const auto refused = []() -> std::vector<std::uint64_t> { throw Failure(CRUCIBLE_E_PERMISSION, "no"); };
  EXPECT_FALSE(times_unless_refused(device, "plugin", refused));
  EXPECT_FALSE(times_unless_refused(device, "plugin", good));
}

}  // namespace
}  // namespace crucible::sdk
