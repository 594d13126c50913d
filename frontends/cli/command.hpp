// What every command of `crucible` shares: registration, the --json switch, exit codes, terminal questions.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/base/result.hpp"

namespace crucible::cli {

/// The command line being built, and the command that the user chose.
struct Commands {
  CLI::App app;
  /// Set by the chosen subcommand's callback; returns the exit code (docs/cli.md), or an error to be printed.
  std::function<Result<int>()> run;
  /// What comes before, while the process has one thread: an exit code ends the command there (sandbox.hpp). Mostly none.
  std::function<Result<std::optional<int>>()> before;
};

/// Adds a subcommand to `parent` with `example` in its --help. The caller adds its options and sets commands.run in the
/// subcommand's callback.
CLI::App* add_subcommand(CLI::App& parent, const std::string& name, const std::string& description,
                         const std::string& example);

/// The same for one that reads recordings, with --table-limit (core/trace/limits.hpp).
CLI::App* add_reading_subcommand(CLI::App& parent, const std::string& name, const std::string& description, const std::string& example);

// One per file cmd_NAME.cpp.
void add_record(Commands& commands);
void add_trace(Commands& commands);
void add_replay(Commands& commands);
void add_compare(Commands& commands);
void add_bench(Commands& commands);
void add_memplan(Commands& commands);
void add_plan(Commands& commands);
void add_graph(Commands& commands);
void add_kernels(Commands& commands);
void add_devices(Commands& commands);
void add_health(Commands& commands);
void add_doctor(Commands& commands);
void add_plugin(Commands& commands);
void add_config(Commands& commands);

// Subcommands of `crucible trace`, one per file cmd_trace_NAME.cpp.
void add_trace_check(Commands& commands, CLI::App& trace);
void add_trace_diff(Commands& commands, CLI::App& trace);
void add_trace_export(Commands& commands, CLI::App& trace);
void add_trace_info(Commands& commands, CLI::App& trace);
void add_trace_merge(Commands& commands, CLI::App& trace);
void add_trace_ops(Commands& commands, CLI::App& trace);
void add_trace_recover(Commands& commands, CLI::App& trace);
void add_trace_optimize(Commands& commands, CLI::App& trace);
void add_trace_strip(Commands& commands, CLI::App& trace);
void add_trace_trim(Commands& commands, CLI::App& trace);

// `crucible config trust`, in cmd_config_trust.cpp.
void add_config_trust(Commands& commands, CLI::App& config);

// Subcommands of `crucible plugin`, one per file cmd_plugin_NAME.cpp.
void add_plugin_explain(Commands& commands, CLI::App& plugin);
void add_plugin_check(Commands& commands, CLI::App& plugin);
void add_plugin_list(Commands& commands, CLI::App& plugin);
void add_plugin_new(Commands& commands, CLI::App& plugin);

/// The exit code of an error's code: 1 check failed, 2 usage, 3 bad input, 4 unavailable, 5 our own fault.
int exit_code(ErrorCode code);

/// True when standard output (1) or error (2) is a terminal and NO_COLOR is not set.
bool use_colour(int descriptor);

/// "1.5 MiB", "312 B"; three significant digits.
std::string format_bytes(std::uint64_t bytes);
/// "1.234 ms", "12.3 us", "4.56 s".
std::string format_ns(double nanoseconds);

/// Prints `document` with two spaces of indentation and a newline on standard output.
void print_json(const nlohmann::ordered_json& document);

/// Rows of text in aligned columns; numbers (columns whose every cell below the header starts with a digit, '-' or '+')
/// are right-aligned. The first row is the header.
std::string format_table(std::vector<std::vector<std::string>> rows);

}  // namespace crucible::cli
