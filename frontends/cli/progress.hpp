// What is going on, on a terminal.
#pragma once

#include <unistd.h>

#include <string_view>

#include "core/base/terminal.hpp"

namespace crucible::cli {

/// One line on a terminal that says what is going on, and vanishes.
class Progress {
 public:
  explicit Progress(bool quiet) : shown_(!quiet && isatty(2) == 1) {}
  ~Progress() { say(""); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void say(std::string_view text) {
    if (shown_) rewrite_line(text);
  }

 private:
  bool shown_;
};

}  // namespace crucible::cli
