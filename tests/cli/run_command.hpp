// Running the built `crucible` from a test, as a shell would.
#pragma once

#include <stdlib.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace crucible {

struct CommandOutcome {
  int code = -1;  // of the process, or 128 + the signal that ended it
  std::string out, err;
};

/// A line of the shell. Threads: one at a time.
inline CommandOutcome run_line(const std::string& line) {
  std::string pattern = (std::filesystem::temp_directory_path() / "crucible-command-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) std::abort();
  const std::filesystem::path folder = pattern;
  const std::string command = "( " + line + " ) >" + (folder / "out").string() + " 2>" + (folder / "err").string();
  const int status = std::system(command.c_str());
  const auto read = [&](const char* name) {
    std::ifstream file(folder / name, std::ios::binary);
    return std::string((std::istreambuf_iterator<char>(file)), {});
  };
  CommandOutcome outcome{WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read("out"), read("err")};
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  return outcome;
}

/// `crucible ARGUMENTS` with `environment` ("NAME=value ...") in front. Threads: one at a time.
inline CommandOutcome run_command(const std::string& arguments, const std::string& environment = "") {
  return run_line(environment + " " CRUCIBLE_COMMAND " " + arguments);
}

}  // namespace crucible
