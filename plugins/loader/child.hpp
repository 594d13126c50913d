// A child process with a time limit whose three outputs are collected: the mechanics below the probe.
#pragma once

#include <sys/resource.h>

#include <chrono>
#include <string>
#include <vector>

#include "core/base/result.hpp"

namespace crucible::backend {

struct ChildResult {
  bool timed_out = false;
  bool wrote_too_much = false;  // more than a mebibyte: it was ended
  bool status_known = true;     // false when the host lets the system reap its children (SIGCHLD ignored)
  int status = 0;               // as of waitpid
  rusage usage{};
  std::string answers;  // what it wrote to descriptor 3
  std::string output;   // to standard output
  std::string errors;   // to standard error
};

/// Runs `arguments[0]` with standard input empty, `file` as descriptor 4 and in a process group of its own, which is
/// ended with the child. Threads: any. Errors: kUnavailable with the system's reason.
Result<ChildResult> run_child(const std::vector<std::string>& arguments, int file,
                              std::chrono::milliseconds time_limit);

}  // namespace crucible::backend
