// Bytes by their SHA-256, each in a file that is one zstd frame. What is given back was checked just before; what does
// not match is never given back.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/hash.hpp"
#include "core/base/result.hpp"
#include "store/files.hpp"

namespace crucible::store {

/// Where words for a person go. A store says each thing once.
using Tell = std::function<void(const std::string&)>;

/// No blob unpacks to more, unless its reader knows better.
inline constexpr std::uint64_t kBlobLimit = 4ull << 30;

/// One zstd frame that says its size.
std::string pack(std::string_view bytes, int level = 3);
/// The content of the one frame, whose hash must be `hash`. Memory is taken as the bytes come, not as the frame says.
/// Errors: kCheckFailed: damaged, or another content; kBadInput: more than `limit`.
Result<std::string> unpack(std::string_view frame, const ContentHash& hash, std::uint64_t limit);

/// What the frame of `limit` bytes has at most.
std::uint64_t frame_limit(std::uint64_t limit);

/// What the beginning of a frame says it unpacks to; 0: nothing.
std::uint64_t said_size(std::string_view front);
inline constexpr std::size_t kFrontBytes = 18;  // that say so

/// The blobs of a folder. Threads: any.
class Blobs {
 public:
  Blobs(const Files& files, Tell tell) : files_(files), tell_(std::move(tell)) {}

  /// Keeps the bytes; one that is there already is read and, if it is damaged, replaced.
  Result<ContentHash> put(std::string_view bytes) const;
  /// The same of a frame that comes from elsewhere. Errors as unpack().
  Result<void> put_frame(std::string_view frame, const ContentHash& hash, std::uint64_t limit) const;
  /// Nothing: there is none. Errors: kCheckFailed: damaged, and still there; kBadInput: larger than `limit`,
  /// unreadable.
  Result<std::optional<std::string>> get(const ContentHash& hash, std::uint64_t limit = kBlobLimit) const;

 private:
  const Files& files_;
  Tell tell_;
};

}  // namespace crucible::store
