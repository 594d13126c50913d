// Whether a file may be trusted to run in this process: who owns it, who else can write it or put another in its place,
// and whether its content is the one that the user pinned. Nothing of the file is run or interpreted.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/result.hpp"

namespace crucible::backend {

/// A file that is open, and which one it is. Moving hands over the descriptor; the destructor closes it.
class OpenFile {
 public:
  /// Opens `path` for reading, after resolving its links once. Errors: kUnavailable with the system's reason; kBadInput
  /// for what is no regular file.
  static Result<OpenFile> open(const std::filesystem::path& path);
  OpenFile(OpenFile&& other) noexcept;
  OpenFile& operator=(OpenFile&& other) noexcept;
  ~OpenFile();
  int descriptor() const { return descriptor_; }
  const struct stat& status() const { return status_; }
  const std::filesystem::path& path() const { return path_; }  // absolute, without links
  /// True while path() is still this file, unchanged since it was opened.
  bool is_current() const;
  /// The content becomes a copy in memory that nobody can change (sealed.hpp): what is hashed, inspected and loaded
  /// from now on is that. Errors: kUnavailable.
  Result<void> seal();

 private:
  OpenFile() = default;
  int descriptor_ = -1;
  struct stat status_ = {};
  std::filesystem::path path_;
};

/// Every reason not to trust the file, each a part of a sentence ("others can write its folder /x"); empty: none.
/// A folder above the file's own may be writable by all when it is sticky, as /tmp is: nobody can then replace what is
/// in it. Groups that have nobody but us in them do not count.
std::vector<std::string> trust_problems(const OpenFile& file);

/// SHA-256 of the file's content, 64 lower-case hexadecimal digits. Errors: kUnavailable when it cannot be read.
Result<std::string> file_digest(const OpenFile& file);

/// True when the environment may have been chosen by somebody with fewer rights than this process has.
bool is_privileged();

}  // namespace crucible::backend
