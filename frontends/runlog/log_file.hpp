// Writing a run log: at the end of a file that is whole, one line at once, never over what is there.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "frontends/runlog/log.hpp"

namespace crucible::runlog {

/// Holds the file alone while it lives (flock). Threads: one; a forked child must not use it.
class LogFile {
 public:
  /// Opens the log, or makes it (mode 0600), and reads the chain that is there. `key_file`: a secret Ed25519 key (PEM)
  /// that signs each line; "": none does. Errors: kBadInput where the file cannot be written, is no log, is damaged or
  /// torn (it is left as it is), or another run is writing to it; those of the key.
  static Result<LogFile> open(const std::filesystem::path& file, const std::string& key_file);
  LogFile(LogFile&& other) noexcept;
  LogFile& operator=(LogFile&&) = delete;
  ~LogFile();

  /// Appends a line. After an error nothing more is written, and finish() tells it: a run does not end because its log
  /// cannot be written. What was written of a line that did not fit is taken back.
  void append(Record record);
  /// What append() met, or fsync(). Errors: kBadInput with the path, the reason and what to do.
  Result<void> finish();

  const std::filesystem::path& path() const { return path_; }
  bool is_signed() const { return key_.has_value(); }
  /// Of the last line; zeros of a new log.
  const ContentHash& head() const { return head_; }
  std::uint64_t size_bytes() const { return size_; }

 private:
  LogFile() = default;
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::optional<store::SecretKey> key_;
  ContentHash head_;
  std::uint64_t size_ = 0;
  bool is_new_ = false;  // it was not there before: an empty one is taken away again
  std::optional<Error> error_;
};

}  // namespace crucible::runlog
