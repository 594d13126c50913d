// What is going on, on a terminal.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>

namespace crucible::cli {

/// One line on a terminal that says what is going on, and vanishes.
class Progress {
 public:
  explicit Progress(bool quiet) : shown_(!quiet && isatty(2) == 1) {}
  ~Progress() { say(""); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void say(std::string_view text) {
    if (shown_) fmt::print(stderr, "\r\033[K{}", text);
    if (shown_) std::fflush(stderr);
  }

 private:
  bool shown_;
};

}  // namespace crucible::cli
