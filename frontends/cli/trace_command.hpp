// What the subcommands of `crucible trace` share: registration of those that read one file, and small texts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "core/trace/trace.hpp"
#include "frontends/cli/command.hpp"

namespace crucible::cli {

/// The arguments that every subcommand on one file has.
struct FileOptions {
  std::string file;
  bool json = false;
};

/// Adds `crucible trace NAME FILE [--json]`; `Options` has the fields of FileOptions. The caller adds its own options.
/// Owns: the returned options live as long as the command line.
template <class Options>
CLI::App* add_file_command(CLI::App& trace, Commands& commands, const std::shared_ptr<Options>& options,
                           const char* name, const char* description, const char* example,
                           Result<int> (*run)(const Options&)) {
  CLI::App* command = add_reading_subcommand(trace, name, description, example);
  command->add_option("FILE", options->file, "the .crtrace file")->required();
  command->add_flag("--json", options->json, "print one JSON document");
  command->callback([&commands, options, run] { commands.run = [options, run] { return run(*options); }; });
  return command;
}

/// The arguments of a subcommand that writes a file.
struct OutputOptions : FileOptions {
  std::string output;
  bool force = false;
};

/// Adds `-o OUT` and `--force`.
void add_output_options(CLI::App& command, OutputOptions& options);

/// Errors: kUsage when there is something under that name already and `force` is not set.
Result<void> check_output(const std::filesystem::path& output, bool force);

/// The folder that the blobs of `file`, read as `trace`, lie in; empty when they are in the file.
std::filesystem::path blob_folder_of(const std::filesystem::path& file, const trace::Trace& trace);

/// "1 op", "2 ops".
std::string plural(std::uint64_t count, std::string_view noun);

}  // namespace crucible::cli
