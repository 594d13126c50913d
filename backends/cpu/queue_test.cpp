// Queues and timelines: order, waiting across queues, poison, refusals; and that submitting gives the bits of
// replaying.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "backends/cpu/testing.hpp"

namespace crucible::backend {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kSecond = 1'000'000'000;

class CpuQueue : public CpuTest {
 protected:
  void SetUp() override {
    device_ = open({{"threads", "2"}});
    EXPECT_EQ(message(table().create(device_->handle(), &queue_)), "");
    EXPECT_EQ(message(table().timeline_create(device_->handle(), 0, &done_)), "");
  }
  void TearDown() override {
    EXPECT_EQ(message(table().destroy(queue_)), "");
    EXPECT_EQ(message(table().timeline_destroy(done_)), "");
  }
  const crucible_if_queue& table() const { return device_->backend().tables().queue; }
  static std::string message(crucible_status status) {
    const Result<void> result = to_result(status, "call");
    return result ? "" : result.error().message;
  }
  static crucible_code code(crucible_status status) {
    if (status == nullptr) return CRUCIBLE_OK;
    const auto functions = abi::error_functions(status);
    const crucible_code result = functions.code(status);
    functions.destroy(status);
    return result;
  }
  std::string submit(crucible_plan* plan, std::vector<crucible_point> waits, std::vector<crucible_point> signals) {
    return message(table().submit(queue_, plan, waits.data(), static_cast<std::uint32_t>(waits.size()), signals.data(),
                                  static_cast<std::uint32_t>(signals.size())));
  }
  crucible_plan* build(const OpList& list) {
    crucible_plan* plan = nullptr;
    EXPECT_EQ(message(device_->backend().plan_table().build(device_->handle(), list.ops().data(),
                                                            static_cast<std::uint32_t>(list.ops().size()), 0, &plan)),
              "");
    return plan;
  }
  void destroy(crucible_plan* plan) { EXPECT_EQ(message(device_->backend().plan_table().destroy(plan)), ""); }

  std::shared_ptr<Device> device_;
  crucible_queue* queue_ = nullptr;
  crucible_timeline* done_ = nullptr;
};

// The queue's thread stays behind: work that a child submits would never be done, and the thread never be joined.
TEST_F(CpuQueue, AForkedChildIsTold) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer does not go along with a fork";
#endif
  const Buffer buffer = make_buffer(device_, 4096);
  OpList list;
  list.fill(buffer.address(), 4096, 7);
  crucible_plan* plan = build(list);
  const auto is_told = [](const std::string& message) {
    return message.find("was forked from the one that opened the device") != std::string::npos;
  };
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);
    if (!is_told(submit(plan, {}, {{done_, 1}}))) _exit(1);
    if (!is_told(message(table().timeline_wait(done_, 1, UINT64_MAX)))) _exit(2);
    if (!is_told(message(device_->backend().tables().device.wait_idle(device_->handle(), UINT64_MAX)))) _exit(3);
    crucible_queue* another = nullptr;
    if (!is_told(message(table().create(device_->handle(), &another)))) _exit(4);
    _exit(message(table().destroy(queue_)) + message(table().timeline_destroy(done_)) == "" ? 0 : 5);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "which step went wrong";
  EXPECT_EQ(submit(plan, {}, {{done_, 1}}), "");
  EXPECT_EQ(message(table().timeline_wait(done_, 1, 60 * kSecond)), "");
  destroy(plan);
}

TEST_F(CpuQueue, RunsInOrderOfSubmission) {
  const Buffer a = make_buffer(device_, 4096), b = make_buffer(device_, 4096);
  OpList first, second;
  first.fill(a.address(), 4096, 7);
  second.copy(b.address(), a.address(), 4096);
  crucible_plan* const plans[] = {build(first), build(second)};
  EXPECT_EQ(submit(plans[0], {}, {}), "");
  EXPECT_EQ(submit(plans[1], {}, {{done_, 1}}), "");
  EXPECT_EQ(message(table().timeline_wait(done_, 1, 60 * kSecond)), "");
  EXPECT_EQ(download<std::uint8_t>(b, 4096), std::vector<std::uint8_t>(4096, 7));
  std::uint64_t value = 0;
  EXPECT_EQ(message(table().timeline_query(done_, &value)), "");
  EXPECT_EQ(value, 1u);
  for (crucible_plan* plan : plans) destroy(plan);
}

TEST_F(CpuQueue, WaitsForTheHost) {
  const Buffer buffer = make_buffer(device_, 64);
  OpList list;
  list.fill(buffer.address(), 64, 9);
  crucible_plan* const plan = build(list);
  crucible_timeline* go = nullptr;
  ASSERT_EQ(message(table().timeline_create(device_->handle(), 5, &go)), "");
  EXPECT_EQ(submit(plan, {{go, 6}}, {{done_, 1}}), "");
  EXPECT_EQ(code(table().timeline_wait(done_, 1, kSecond / 50)), CRUCIBLE_E_CANCELLED);
  EXPECT_EQ(code(device_->backend().device_table().wait_idle(device_->handle(), kSecond / 50)), CRUCIBLE_E_CANCELLED);
  EXPECT_EQ(download<std::uint8_t>(buffer, 1)[0], 0);
  EXPECT_EQ(message(table().timeline_signal(go, 6)), "");
  EXPECT_EQ(message(device_->backend().device_table().wait_idle(device_->handle(), 60 * kSecond)), "");
  EXPECT_EQ(download<std::uint8_t>(buffer, 1)[0], 9);
  EXPECT_EQ(message(table().timeline_destroy(go)), "");
  destroy(plan);
}

TEST_F(CpuQueue, TwoQueuesWaitForEachOther) {
  crucible_queue* other = nullptr;
  ASSERT_EQ(message(table().create(device_->handle(), &other)), "");
  const Buffer buffer = make_buffer(device_, 64);
  OpList one, two;
  one.fill(buffer.address(), 64, 1);
  two.fill(buffer.address(), 32, 2);
  crucible_plan* const plans[] = {build(one), build(two)};
  const crucible_point reached = {done_, 1}, last = {done_, 2};
  EXPECT_EQ(message(table().submit(other, plans[1], &reached, 1, &last, 1)), "");  // submitted first, runs second
  EXPECT_EQ(submit(plans[0], {}, {{done_, 1}}), "");
  EXPECT_EQ(message(table().timeline_wait(done_, 2, 60 * kSecond)), "");
  const auto bytes = download<std::uint8_t>(buffer, 64);
  EXPECT_EQ(bytes[0], 2);
  EXPECT_EQ(bytes[63], 1);
  EXPECT_EQ(message(table().destroy(other)), "");
  for (crucible_plan* plan : plans) destroy(plan);
}

TEST_F(CpuQueue, TimelinesOnlyGrow) {
  EXPECT_EQ(message(table().timeline_signal(done_, 3)), "");
  EXPECT_THAT(message(table().timeline_signal(done_, 3)), HasSubstr("the timeline is at 3 and cannot go to 3"));
  EXPECT_THAT(message(table().timeline_signal(done_, 2)), HasSubstr("cannot go to 2"));
  EXPECT_EQ(message(table().timeline_wait(done_, 3, 0)), "");
}

TEST_F(CpuQueue, AFailurePoisonsWhatWasToBeSignalled) {
  const Buffer buffer = make_buffer(device_, 64);
  OpList list;
  list.fill(buffer.address(), 64, 9);
  crucible_plan* const plan = build(list);
  EXPECT_EQ(message(table().timeline_signal(done_, 5)), "");
  crucible_timeline* next = nullptr;
  ASSERT_EQ(message(table().timeline_create(device_->handle(), 0, &next)), "");
  EXPECT_EQ(submit(plan, {}, {{done_, 4}, {next, 1}}), "");  // 4 is behind it: the signal fails
  EXPECT_EQ(code(table().timeline_wait(next, 1, 60 * kSecond)), CRUCIBLE_E_INVALID_ARGUMENT);
  std::uint64_t value = 77;
  EXPECT_EQ(code(table().timeline_query(next, &value)), CRUCIBLE_E_INVALID_ARGUMENT);
  EXPECT_EQ(value, 77u);
  EXPECT_EQ(submit(plan, {{next, 1}}, {{done_, 9}}), "");  // waiting for what failed fails
  EXPECT_EQ(message(device_->backend().device_table().wait_idle(device_->handle(), 60 * kSecond)), "");
  EXPECT_EQ(message(table().timeline_destroy(next)), "");
  destroy(plan);
}

TEST_F(CpuQueue, RefusesWhatIsMissing) {
  EXPECT_THAT(submit(nullptr, {}, {}), HasSubstr("no queue or no plan"));
  OpList empty;
  crucible_plan* const plan = build(empty);
  EXPECT_THAT(submit(plan, {{nullptr, 1}}, {}), HasSubstr("a point without a timeline"));
  EXPECT_THAT(message(table().submit(queue_, plan, nullptr, 2, nullptr, 0)), HasSubstr("the points are missing"));
  EXPECT_NE(message(table().timeline_query(nullptr, nullptr)), "");
  destroy(plan);
}

}  // namespace
}  // namespace crucible::backend
