// An end to waiting for a device: one that does not finish in the time that the user gives it is suspect. Nothing more
// is asked of it, and what it holds is abandoned, because giving it back would wait as well.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

#include "plugins/sdk/error.hpp"
#include "plugins/sdk/options.hpp"

namespace crucible::sdk {

/// The option of a plugin that gives up on devices.
inline constexpr OptionSpec kTimeoutOption = {
    .name = "timeout_s",
    .type = OptionType::kU64,
    .default_value = "0",
    .max = 1'000'000,
    .help = "seconds after which a device that does not finish is given up as suspect; 0: it is waited for",
    .from_folder = FromFolder::kHarmless};

/// Why the device `id` was given up in this process; "" when it was not. Threads: any.
std::string suspicion_of(const std::string& id);

/// From now on the device is not opened again in this process. The first reason stays. Threads: any.
void never_again(const std::string& id, const std::string& why);

/// Keeps an object reachable for ever instead of giving it back. Threads: any.
void abandon(void* object);

/// Of one open device. Threads: any.
class Watchdog {
 public:
  /// `seconds` 0: no limit, wait() must not be called. Errors: UNAVAILABLE when the device was given up before in this
  /// process.
  void start(const std::string& id, std::uint64_t seconds);
  std::uint64_t limit_ns() const { return limit_ns_; }
  bool is_on() const { return limit_ns_ != 0; }
  bool is_suspect() const { return is_suspect_; }
  /// Errors: DEVICE_LOST when it is suspect.
  void require_alive() const;
  /// From now on the device is suspect. Errors: DEVICE_LOST, always.
  [[noreturn]] void give_up(std::string_view what);
  /// Asks `is_done` until it says so. It spins at first and then sleeps for a sixty-fourth of what it has waited, at
  /// most a millisecond, so that waiting takes 2 % longer than the device. Errors: DEVICE_LOST when the time is over.
  template <class IsDone>
  void wait(std::string_view what, IsDone&& is_done) {
    using Clock = std::chrono::steady_clock;
    constexpr auto kSpin = std::chrono::microseconds(200);
    constexpr std::chrono::nanoseconds kLongest = std::chrono::milliseconds(1);
    const auto start = Clock::now();
    while (!is_done()) {
      const std::chrono::nanoseconds waited = Clock::now() - start;
      if (waited >= std::chrono::nanoseconds(limit_ns_)) give_up(what);
      if (waited < kSpin) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::min(waited / 64, kLongest));
      }
    }
  }

 private:
  std::string id_;
  std::uint64_t limit_ns_ = 0;
  std::atomic<bool> is_suspect_ = false;
};

void log_second_try(const std::string& id, std::uint64_t bytes, bool is_granted);

/// Asks for memory; where `is_full` says of the answer that there was none, `trim` frees what can be freed and it is
/// asked once more, with a line in the log.
template <class Ask, class IsFull, class Trim>
auto ask_twice(const std::string& id, std::uint64_t bytes, Ask&& ask, IsFull&& is_full, Trim&& trim)
    -> decltype(ask()) {
  auto answer = ask();
  if (!is_full(answer)) return answer;
  trim();
  answer = ask();
  log_second_try(id, bytes, !is_full(answer));
  return answer;
}

}  // namespace crucible::sdk
