// Where a command writes long text: a file that appears when it is complete, or standard output. Fails when the disk is
// full instead of printing half.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.hpp"
#include "core/trace/output_file.hpp"

namespace crucible::cli {

/// Threads: one.
class TextSink {
 public:
  /// Standard output when `path` is empty. Errors: kBadInput, as OutputFile.
  static Result<TextSink> open(const std::filesystem::path& path, trace::Readers readers = trace::Readers::kOwner);
  /// Buffers; an error of writing is kept for finish().
  void append(std::string_view text);
  /// Writes what is left and gives the file its name. Errors: kBadInput, naming the path and what to do.
  Result<void> finish();

 private:
  TextSink() = default;
  void flush();
  std::optional<trace::OutputFile> file_;
  std::string buffer_;
  std::optional<Error> error_;
};

}  // namespace crucible::cli
