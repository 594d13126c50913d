// What every command of `crucible` shares: registration, exit codes, terminal questions. Without the headers of CLI11
// and of JSON, which take seconds in every file that has them: a command includes what it uses of them itself.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "core/base/figures.hpp"
#include "core/base/result.hpp"

namespace CLI {
class App;
}
namespace crucible::replay {}

namespace crucible::cli {

using namespace replay;  // the commands are written over frontends/replay: its names are used here as our own

/// The command line being built, and the command that the user chose.
struct Commands {
  CLI::App& app;  // main.cpp's
  /// Set by the chosen subcommand's callback; returns the exit code (docs/cli.md), or an error to be printed.
  std::function<Result<int>()> run;
  /// What comes before, while the process has one thread: an exit code ends the command there (sandbox.hpp). Mostly
  /// none.
  std::function<Result<std::optional<int>>()> before;
};

/// Adds a subcommand to `parent` with `example` in its --help. The caller adds its options and sets commands.run in the
/// subcommand's callback.
CLI::App* add_subcommand(CLI::App& parent, const std::string& name, const std::string& description,
                         const std::string& example);

/// The same for one that reads recordings, with --table-limit (core/trace/limits.hpp).
CLI::App* add_reading_subcommand(CLI::App& parent, const std::string& name, const std::string& description,
                                 const std::string& example);

// One per file cmd_NAME.cpp.
void add_record(Commands& commands);
void add_trace(Commands& commands);
void add_replay(Commands& commands);
void add_compare(Commands& commands);
void add_bench(Commands& commands);
void add_memplan(Commands& commands);
void add_plan(Commands& commands);
void add_diff(Commands& commands);
void add_graph(Commands& commands);
void add_show(Commands& commands);
void add_store(Commands& commands);
void add_kernels(Commands& commands);
void add_devices(Commands& commands);
void add_health(Commands& commands);
void add_log(Commands& commands);
void add_doctor(Commands& commands);
void add_plugin(Commands& commands);
void add_config(Commands& commands);

/// The exit code of an error's code: 1 check failed, 2 usage, 3 bad input, 4 unavailable, 5 our own fault or a
/// plugin's.
int exit_code(ErrorCode code);

/// True when standard output (1) or error (2) is a terminal and NO_COLOR is not set.
bool use_colour(int descriptor);

/// Prints `document` with two spaces of indentation and a newline on standard output.
void print_json(const nlohmann::ordered_json& document);
/// What print_json() prints.
std::string json_text(const nlohmann::ordered_json& document);

}  // namespace crucible::cli
