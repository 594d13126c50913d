// Which pass a command is in, on a terminal, when it takes long.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/progress.hpp"

namespace crucible::cli {

/// While it lives: one line on standard error that names the pass and the share of it that is done, from a second after work began until it
/// ends. Nothing where standard error is no terminal.
class PassLine {
 public:
  PassLine();
  ~PassLine() { clear(); }
  PassLine(const PassLine&) = delete;
  PassLine& operator=(const PassLine&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  void hear(std::string_view pass, std::uint64_t done, std::uint64_t all);
  void clear();

  std::optional<Clock::time_point> begun_;
  Clock::time_point shown_{};
  bool is_shown_ = false;
  std::optional<ListenToProgress> listening_;
};

}  // namespace crucible::cli
