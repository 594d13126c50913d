// zstd for sections and blobs: the only place that knows the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/result.hpp"

namespace crucible::trace {

/// `data` as one zstd frame, or an empty vector when that saves less than a twentieth. Large data is tried on samples
/// first, so that random floats cost a fraction of a full attempt.
Result<std::vector<std::byte>> compress_if_smaller(std::span<const std::byte> data);

/// Exactly `raw_bytes` from one zstd frame.
/// Errors: kBadInput when the frame is damaged, has another size, or `raw_bytes` is more than zstd can pack into it.
Result<std::vector<std::byte>> decompress(std::span<const std::byte> frame, std::uint64_t raw_bytes);

}  // namespace crucible::trace
