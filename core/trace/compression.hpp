// zstd for sections and blobs: the only place that knows the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/base/result.hpp"

namespace crucible::trace {

inline constexpr int kMaxZstdLevel = 19;

/// `data` as one zstd frame, or an empty vector when that saves less than a twentieth. Large data is tried on samples
/// first, so that random floats cost a fraction of a full attempt. `level` is zstd's, from 1 (fast) to kMaxZstdLevel
/// (small).
Result<std::vector<std::byte>> compress_if_smaller(std::span<const std::byte> data, int level = 1);

/// Whether a frame of `packed` bytes saves enough of `raw` bytes to be kept instead: a twentieth, and 64 bytes there
/// are at least.
bool is_worth_compressing(std::uint64_t packed, std::uint64_t raw);

/// `pieces`, one behind the other, as one zstd frame, handed to `sink` in parts while it grows: memory does not depend
/// on the sizes. Errors: the sink's own.
Result<void> compress_pieces(std::span<const std::span<const std::byte>> pieces,
                             const std::function<Result<void>(std::span<const std::byte>)>& sink, int level = 1);

/// Exactly `raw_bytes` from one zstd frame.
/// Errors: kBadInput when the frame is damaged, has another size, or `raw_bytes` is more than zstd can pack into it.
Result<std::vector<std::byte>> decompress(std::span<const std::byte> frame, std::uint64_t raw_bytes);

}  // namespace crucible::trace
