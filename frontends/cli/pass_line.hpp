// Which pass a command is in, on a terminal, when it takes long.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "core/base/progress.hpp"

namespace crucible::cli {

/// While it lives: one line on standard error that names the pass and the share of it that is done, from a second after
/// work began until it ends. Nothing where standard error is no terminal. A thread of its own writes it, for passes
/// that are one call - a compiler's - report nothing while they go on; of those the line says for how long.
class PassLine {
 public:
  PassLine();
  ~PassLine();
  PassLine(const PassLine&) = delete;
  PassLine& operator=(const PassLine&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  void hear(std::string_view pass, std::uint64_t done, std::uint64_t all);
  void write_until_stopped(const std::stop_token& stopped);
  /// With mutex_ held.
  void show(Clock::time_point now);
  void clear();

  std::mutex mutex_;  // of all that follows, between who works and who writes
  std::condition_variable_any wake_;
  std::string pass_;
  std::uint64_t done_ = 0, all_ = 0;
  std::optional<Clock::time_point> begun_;
  Clock::time_point pass_begun_{};
  bool is_shown_ = false;
  std::optional<ListenToProgress> listening_;
  std::jthread writer_;
};

}  // namespace crucible::cli
