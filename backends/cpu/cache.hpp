// Compiled kernels on disk. objects/HASH.so is named by the SHA-256 of its own bytes, so a damaged one is recognised;
// kernels/KEY names the object that has the kernel with that key. Nothing here is needed for a right result: what is
// missing, damaged or not ours is compiled again.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace crucible_cpu {

class KernelCache {
 public:
  /// `wanted` is the folder, "" the user's own ($XDG_CACHE_HOME or ~/.cache, else /tmp/crucible-UID). Creates it. When
  /// it cannot be used, the cache is off and `problem()` says why.
  explicit KernelCache(const std::string& wanted);

  bool usable() const { return problem_.empty(); }
  const std::string& problem() const { return problem_; }
  const std::filesystem::path& folder() const { return folder_; }

  /// Name of the object that has the kernel, if its file is whole. Reads and hashes the object once per cache.
  std::optional<std::string> find(const std::string& key);
  std::filesystem::path object_path(const std::string& object) const;

  /// Puts a compiled file into the cache (it is moved) and returns its name; nothing when the disk does not take it.
  std::optional<std::string> add_object(const std::filesystem::path& file);
  /// False when the disk does not take it.
  bool add_kernel(const std::string& key, const std::string& object);

 private:
  std::filesystem::path folder_;
  std::string problem_;
  std::map<std::string, bool> whole_;  // objects that were read: their bytes have their name
};

/// SHA-256 of a file's bytes as hexadecimal digits, or nothing when it cannot be read.
std::optional<std::string> file_hash(const std::filesystem::path& file);

}  // namespace crucible_cpu
