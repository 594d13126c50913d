// Devices that are given up, a second try for memory, and which kernels a compiler's words are about.
#include "plugins/sdk/watchdog.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/sdk/named_kernels.hpp"

namespace crucible::sdk {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

template <class Body>
std::pair<crucible_code, std::string> failure_of(Body&& body) {
  try {
    body();
  } catch (const Failure& failure) {
    return {failure.code(), failure.what()};
  }
  return {CRUCIBLE_OK, ""};
}

TEST(SdkWatchdog, ADeviceThatFinishesIsNotSuspect) {
  Watchdog watchdog;
  watchdog.start("acme:0", 100);
  EXPECT_TRUE(watchdog.is_on());
  int asked = 0;
  watchdog.wait("queue.submit", [&] { return ++asked == 1000; });
  EXPECT_EQ(asked, 1000);
  EXPECT_FALSE(watchdog.is_suspect());
  EXPECT_EQ(suspicion_of("acme:0"), "");
  EXPECT_EQ(failure_of([&] { watchdog.require_alive(); }).first, CRUCIBLE_OK);
}

TEST(SdkWatchdog, WithoutALimitItIsOff) {
  Watchdog watchdog;
  watchdog.start("acme:0", 0);
  EXPECT_FALSE(watchdog.is_on());
}

TEST(SdkWatchdog, ADeviceThatDoesNotFinishIsLostAndNotOpenedAgain) {
  Watchdog watchdog, again, other;
  watchdog.start("acme:1", 1);
  const auto words = AllOf(HasSubstr("acme:1 was lost (queue.submit did not finish within 1 s, the option timeout_s)"),
                           HasSubstr("suspect"));
  EXPECT_THAT(failure_of([&] { watchdog.wait("queue.submit", [] { return false; }); }),
              Pair(CRUCIBLE_E_DEVICE_LOST, words));
  EXPECT_TRUE(watchdog.is_suspect());
  EXPECT_THAT(failure_of([&] { watchdog.require_alive(); }), Pair(CRUCIBLE_E_DEVICE_LOST, words));
  EXPECT_THAT(failure_of([&] { again.start("acme:1", 1); }),
              Pair(CRUCIBLE_E_UNAVAILABLE, HasSubstr("not used again before a new process")));
  EXPECT_EQ(failure_of([&] { other.start("acme:2", 1); }).first, CRUCIBLE_OK);
}

TEST(SdkWatchdog, ADeviceThatWasLostIsNotOpenedAgain) {
  Watchdog again, other;
  never_again("acme:3", "queue.submit: a trap");
  never_again("acme:3", "what came of it");
  EXPECT_THAT(failure_of([&] { again.start("acme:3", 0); }),
              Pair(CRUCIBLE_E_UNAVAILABLE,
                   AllOf(HasSubstr("queue.submit: a trap"), HasSubstr("not used again before a new process"))));
  EXPECT_EQ(failure_of([&] { other.start("acme:4", 0); }).first, CRUCIBLE_OK);
}

TEST(SdkAskTwice, TrimsOnceAndTellsTheSecondAnswer) {
  for (const int given_at : {1, 2, 3}) {
    int asked = 0, trimmed = 0;
    const int answer = ask_twice(
        "acme:0", 64, [&] { return ++asked >= given_at ? 7 : 0; }, [](int code) { return code == 0; },
        [&] { ++trimmed; });
    EXPECT_EQ(answer, given_at <= 2 ? 7 : 0);
    EXPECT_EQ(trimmed, given_at == 1 ? 0 : 1);
    EXPECT_EQ(asked, given_at == 1 ? 1 : 2);
  }
}

TEST(SdkNamedKernels, OnlyWholeNamesCount) {
  const Failure failure(CRUCIBLE_E_INTERNAL, "error in items_of_k12: and k3_more, then k4", {{"where", "here"}});
  const Failure named = naming_kernels(failure, {"k1", "k12", "k3", "k4", ""});
  EXPECT_STREQ(named.what(), failure.what());
  EXPECT_THAT(named.payload(), ElementsAre(Pair("where", "here"), Pair("kernel", "k12, k4")));
  EXPECT_THAT(naming_kernels(failure, {"k9"}).payload(), ElementsAre(Pair("where", "here")));
}

}  // namespace
}  // namespace crucible::sdk
