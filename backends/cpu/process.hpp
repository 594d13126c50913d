// Child processes without a shell: start several, wait for all. Used for the C compiler.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace crucible_cpu {

struct Command {
  std::vector<std::string> arguments;  // the first one is the program's path
  std::filesystem::path output;        // file that gets what the program prints on both streams
};

/// Runs all commands at the same time and waits for all. One exit status per command; 128 + n when signal n ended it.
/// Threads: any. Errors: UNAVAILABLE when a program cannot be started (after the started ones have ended).
std::vector<int> run_all(std::span<const Command> commands);

}  // namespace crucible_cpu
