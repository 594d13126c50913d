// A folder for files that two processes of ours share for a while.
#pragma once

#include <filesystem>
#include <utility>

#include "core/base/result.hpp"

namespace crucible::cli {

/// A folder that is removed with all that is in it.
class TemporaryFolder {
 public:
  /// Errors: kBadInput where none can be made, with what to do.
  static Result<TemporaryFolder> create();
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

}  // namespace crucible::cli
