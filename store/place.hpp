// Another place where blobs and entries lie, such as a server. What it gives is checked as anybody's: bytes by their
// hash, entries by their signature. What is asked and written here is the bytes of the folder's files.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/hash.hpp"
#include "core/base/result.hpp"
#include "store/files.hpp"

namespace crucible::store {

/// A file of a room: a blob's zstd frame, an entry's envelope.
struct Piece {
  ContentHash name;
  std::string_view bytes;  // of whoever asks
};

/// Threads: any. Errors: kUnavailable, in words that are the same each time for the same trouble, so that a store says
/// them once; what a place cannot give is a miss and no fault of what is here.
class Place {
 public:
  virtual ~Place() = default;
  /// What people know it by; nothing secret is in it.
  virtual std::string name() const = 0;
  /// Nothing: it has none, or it is not asked for a while because it could not be reached. Errors also where it would
  /// give more than `limit` bytes.
  virtual Result<std::optional<std::string>> read(Room room, const ContentHash& name, std::uint64_t limit) = 0;

  /// The same of many at once, in their order. Errors: the first one's; also where it is not asked for a while.
  virtual Result<std::vector<std::optional<std::string>>> read_all(Room room, std::span<const ContentHash> names,
                                                                   std::uint64_t limit);
  /// Which of them it has, in their order. Errors as read_all().
  virtual Result<std::vector<bool>> has(Room room, std::span<const ContentHash> names);

  /// False: nothing may be written to it, or it has shown that it takes nothing.
  virtual bool is_writable() const { return false; }
  /// Writes them, or replaces what is there. Whoever writes puts blobs before the entry that names them. Errors: some
  /// of them may be there all the same.
  virtual Result<void> write(Room room, std::span<const Piece> pieces);
  /// What is under way and what comes ends at once with an error.
  virtual void stop() {}
};

}  // namespace crucible::store
