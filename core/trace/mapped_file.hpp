// A whole file mapped for reading. Pages are read when they are touched; nothing is written.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "core/base/result.hpp"

namespace crucible::trace {

/// Owns: the mapping, which outlives the file's name (a file that is replaced by rename stays readable here).
class MappedFile {
 public:
  /// Errors: kBadInput when the file is missing, unreadable or not a regular file, naming the path.
  static Result<MappedFile> open(const std::filesystem::path& path);
  /// Maps nothing.
  static MappedFile none() { return MappedFile(); }
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  MappedFile() = default;
  std::span<const std::byte> bytes_;
};

}  // namespace crucible::trace
