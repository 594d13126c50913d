// The subcommands of `crucible trace` without the command line: their arguments, what they do, and small texts that
// they share.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/trace/diff.hpp"
#include "core/trace/trace.hpp"
#include "frontends/cli/command.hpp"

namespace crucible::cli {

/// The arguments that every subcommand on one file has.
struct FileOptions {
  std::string file;
  bool json = false;
};

/// The arguments of a subcommand that writes a file.
struct OutputOptions : FileOptions {
  std::string output;
  bool force = false;
};

struct InfoOptions : FileOptions {
  bool is_private = false;
};

struct OpsOptions : FileOptions {
  bool all = false;
  bool summary = false;
  std::optional<std::uint32_t> iteration;
};

struct RecoverOptions {
  std::string file, output;
  bool json = false;
};

struct DiffArguments {
  std::string a, b;
  bool json = false;
  trace::DiffOptions options;
};

struct TrimOptions : OutputOptions {
  std::string iterations;
};

struct OptimizeOptions : OutputOptions {
  int level = 12;
  std::string blob_folder;
  bool embed = false;
};

struct ExportArguments {
  std::string file, format, output;
  bool force = false;
};

struct MergeArguments {
  std::vector<std::string> files;
  std::string output;
  bool force = false, json = false;
};

// What each does: its words, and its exit code. One per file cmd_trace_NAME.cpp.
Result<int> run_trace_info(const InfoOptions& options);
Result<int> run_trace_ops(const OpsOptions& options);
Result<int> run_trace_check(const FileOptions& options);
Result<int> run_trace_recover(const RecoverOptions& options);
Result<int> run_trace_diff(const DiffArguments& arguments);
Result<int> run_trace_trim(const TrimOptions& options);
Result<int> run_trace_optimize(const OptimizeOptions& options);
Result<int> run_trace_strip(const OutputOptions& options);
Result<int> run_trace_export(const ExportArguments& arguments);
Result<int> run_trace_merge(const MergeArguments& arguments);

/// Errors: kUsage when there is something under that name already and `force` is not set.
Result<void> check_output(const std::filesystem::path& output, bool force);

/// The folder that the blobs of `file`, read as `trace`, lie in; empty when they are in the file.
std::filesystem::path blob_folder_of(const std::filesystem::path& file, const trace::Trace& trace);

}  // namespace crucible::cli
