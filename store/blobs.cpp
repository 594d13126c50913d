// Packing and checking: see blobs.hpp.
#include "store/blobs.hpp"

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace crucible::store {
namespace {

Error damaged(const ContentHash& hash, std::string_view why) {
  return {ErrorCode::kCheckFailed, fmt::format("blob {} is damaged: {}", hash.hex(), why)};
}

}  // namespace

std::string pack(std::string_view bytes, int level) {
  std::string frame(ZSTD_compressBound(bytes.size()), '\0');
  const std::size_t size = ZSTD_compress(frame.data(), frame.size(), bytes.data(), bytes.size(), level);
  frame.resize(ZSTD_isError(size) != 0 ? 0 : size);  // an error is out of memory: found when it is read
  return frame;
}

Result<std::string> unpack(std::string_view frame, const ContentHash& hash, std::uint64_t limit) {
  const unsigned long long said = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (said == ZSTD_CONTENTSIZE_ERROR || said == ZSTD_CONTENTSIZE_UNKNOWN)
    return damaged(hash, "no zstd frame with its size");
  if (said > limit) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("blob {} would unpack to {} bytes, the limit is {}", hash.hex(), said, limit)};
  }
  const std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(), ZSTD_freeDStream);
  std::string out;
  ZSTD_inBuffer in{frame.data(), frame.size(), 0};
  std::size_t left = 1;
  while (left != 0) {
    const std::size_t done = out.size();
    // One byte more than was said: a frame that holds more is found out.
    const std::size_t room = std::min<std::size_t>(said + 1 - done, std::max<std::size_t>(done, 1 << 17));
    out.resize(done + room);
    ZSTD_outBuffer piece{out.data() + done, room, 0};
    const std::size_t before = in.pos;
    left = ZSTD_decompressStream(stream.get(), &piece, &in);
    out.resize(done + piece.pos);
    if (ZSTD_isError(left) != 0) return damaged(hash, ZSTD_getErrorName(left));
    if (out.size() > said) return damaged(hash, "more bytes than it says");
    if (left != 0 && piece.pos == 0 && in.pos == before) return damaged(hash, "it ends too early");
  }
  if (out.size() != said || in.pos != in.size) return damaged(hash, "its sizes do not fit");
  if (sha256(std::as_bytes(std::span(out))) != hash) return damaged(hash, "its bytes are others");
  return out;
}

std::uint64_t frame_limit(std::uint64_t limit) { return ZSTD_compressBound(static_cast<std::size_t>(limit)); }

std::uint64_t said_size(std::string_view front) {
  const unsigned long long size = ZSTD_getFrameContentSize(front.data(), front.size());
  return size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN || size > INT64_MAX ? 0 : size;
}

Result<ContentHash> Blobs::put(std::string_view bytes) const {
  const ContentHash hash = sha256(std::as_bytes(std::span(bytes)));
  if (files_.facts(Room::kBlobs, hash)) {
    const auto there = get(hash, bytes.size());
    if (there && *there) return hash;
    if (!there) tell_(there.error().message + "; it is replaced");
  }
  CRUCIBLE_TRY([[maybe_unused]] const FileFacts facts, files_.write(Room::kBlobs, hash, pack(bytes)));
  return hash;
}

Result<void> Blobs::put_frame(std::string_view frame, const ContentHash& hash, std::uint64_t limit) const {
  CRUCIBLE_TRY(const std::string bytes, unpack(frame, hash, limit));
  CRUCIBLE_TRY([[maybe_unused]] const ContentHash same, put(bytes));
  return {};
}

Result<std::optional<std::string>> Blobs::get(const ContentHash& hash, std::uint64_t limit) const {
  CRUCIBLE_TRY(const std::optional<std::string> frame, files_.read(Room::kBlobs, hash, frame_limit(limit)));
  if (!frame) return std::optional<std::string>();
  CRUCIBLE_TRY(std::string bytes, unpack(*frame, hash, limit));
  return std::optional(std::move(bytes));
}

}  // namespace crucible::store
