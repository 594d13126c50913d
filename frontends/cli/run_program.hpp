// Running a program as it is: its own environment but for two variables, signals passed on, its exit code kept.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.hpp"

namespace crucible::cli {

struct Launch {
  std::vector<std::string> command;  // what to run, at least one word
  std::string start_folder;          // goes in front of PYTHONPATH
  std::string config;                // what start/sitecustomize.py reads, as CRUCIBLE_RECORDING
  bool output_to_error = false;      // the program's standard output becomes our standard error
  int lock = -1;                     // a descriptor that the program inherits as `lock_in_child`; -1: none
  int lock_in_child = -1;
};

/// Runs the program to its end; its exit code, or 128 + the number of the signal that ended it, as shells say it.
/// Signals sent to us alone are passed on to it. Threads: one call per process. Errors: kBadInput when it cannot be
/// started.
Result<int> run_program(const Launch& launch);

}  // namespace crucible::cli
