// Compiled kernels on disk. objects/HASH.so is named by the SHA-256 of its own bytes, so a damaged one is recognised;
// kernels/KEY names the object that has the kernel with that key. Nothing here is needed for a right result: what is
// missing, damaged or not ours is compiled again.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace crucible_cpu {

class KernelCache {
 public:
  /// What compilations may put beside the objects, for mkstemp and mkdtemp.
  static constexpr const char* kWorkName = "build-XXXXXX";

  /// `wanted` is the folder, "" the user's own ($XDG_CACHE_HOME or ~/.cache, else /tmp/crucible-UID). Creates it. When
  /// nothing can be kept in it, `problem()` says why; what is in it is still used where only writing is impossible.
  explicit KernelCache(const std::string& wanted);

  /// Whether new kernels can be kept.
  bool usable() const { return problem_.empty(); }
  /// Why a kernel was not, or cannot be, kept.
  const std::string& problem() const { return problem_.empty() ? write_problem_ : problem_; }
  const std::filesystem::path& folder() const { return folder_; }

  /// Name of the object that has the kernel; its file may be missing or damaged.
  std::optional<std::string> find(const std::string& key) const;
  /// The bytes of the object, if they have its name: they are what may be executed, for the file may be exchanged after
  /// that.
  std::optional<std::string> read_object(const std::string& object) const;
  std::filesystem::path object_path(const std::string& object) const;

  /// Puts a compiled file into the cache (it is moved or copied) and returns its name; nothing when the disk does not
  /// take it.
  std::optional<std::string> add_object(const std::filesystem::path& file);
  /// False when the disk does not take it.
  bool add_kernel(const std::string& key, const std::string& object);
  /// Removes what compilations left that were killed more than a day ago.
  void remove_leftovers() const;

 private:
  bool place(const std::filesystem::path& file, const std::filesystem::path& where);

  std::filesystem::path folder_;
  std::string problem_, write_problem_;
  bool is_trusted_ = false;  // what is in it may be executed
};

/// SHA-256 of a file's bytes as hexadecimal digits, or nothing when it cannot be read.
std::optional<std::string> file_hash(const std::filesystem::path& file);

}  // namespace crucible_cpu
