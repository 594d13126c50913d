// The folder of a store: which file is where, and how one gets there. Everything is opened from the folder's own
// descriptors and no link below it is followed, so that a name in a store leads nowhere else. A file is whole or
// absent.
#pragma once

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/hash.hpp"
#include "core/base/result.hpp"

namespace crucible::store {

/// Blobs lie in cas/, statements of actions in ac/, both as ab/cdef... by their hash.
enum class Room { kBlobs, kActions };

struct FileFacts {
  std::uint64_t size = 0;
  std::int64_t modified_ns = 0;
};

/// Held while it lives: shared by who writes, alone by who takes away. Ends with the process that has it.
class FolderLock {
 public:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}
  FolderLock(FolderLock&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  int descriptor_;
};

class Files {
 public:
  /// Opens the store in `folder`; makes it where there is none, unless `must_exist`. Errors: kBadInput where the folder
  /// is no store, is one of a newer version, or cannot be made.
  static Result<Files> open(const std::filesystem::path& folder, bool must_exist);
  Files(Files&& other) noexcept;
  Files& operator=(Files&&) = delete;
  ~Files();

  const std::filesystem::path& folder() const { return folder_; }
  /// False where nothing can be written: the rest works.
  bool is_writable() const { return is_writable_; }
  bool is_durable = true;  // false: no fsync, for benchmarks

  /// Nothing: there is no such file, or what has its name is no ordinary file (a link, a pipe). Errors: kBadInput when
  /// it has more than `limit` bytes or cannot be read.
  Result<std::optional<std::string>> read(Room room, const ContentHash& name, std::uint64_t limit) const;
  /// The first bytes, at most `count`; "" where there is no such file.
  std::string front(Room room, const ContentHash& name, std::size_t count) const;
  std::optional<FileFacts> facts(Room room, const ContentHash& name) const;
  /// Replaces what is there. Errors: kBadInput with the reason; then nothing changed.
  Result<FileFacts> write(Room room, const ContentHash& name, std::string_view bytes) const;
  void remove(Room room, const ContentHash& name) const;
  /// Moves a file into quarantine/, where nothing is read from. False: it is still there.
  bool set_aside(Room room, const ContentHash& name) const;
  bool set_aside(const std::string& top_level_name) const;

  /// Calls `visit` for each file of the room, one folder's names in memory at a time. What has a name that is no hash
  /// is passed by. Ends where `visit` says no.
  void walk(Room room, const std::function<bool(const ContentHash&, const FileFacts&)>& visit) const;
  /// Takes away what writers that were killed left in tmp/. Call it with the folder locked alone.
  void clear_temporary() const;

  /// Waits. Errors: kBadInput where the folder cannot be written.
  Result<FolderLock> lock_shared() const;
  Result<FolderLock> lock_alone() const;
  /// The file of claims.hpp, which the caller closes; -1: there is none and it cannot be made.
  int open_claims() const;

 private:
  Files() = default;
  int folder_of(Room room, const ContentHash& name, bool make) const;  // of the first byte; -1: there is none
  Result<FolderLock> lock(int how) const;

  std::filesystem::path folder_;
  int root_ = -1, rooms_[2] = {-1, -1}, temporary_ = -1, quarantine_ = -1;
  bool is_writable_ = false;
};

}  // namespace crucible::store
