// zstd calls and the decision whether compressing is worth it.
#include "core/trace/compression.hpp"

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>

namespace crucible::trace {

namespace {

constexpr int kLevel = 1;
constexpr std::size_t kSampleBytes = 32 << 10;
constexpr std::size_t kSamples = 4;

bool worth_it(std::size_t packed, std::size_t raw) { return packed < raw - raw / 20; }

Result<std::vector<std::byte>> compress(std::span<const std::byte> data) {
  std::vector<std::byte> frame(ZSTD_compressBound(data.size()));
  const std::size_t size = ZSTD_compress(frame.data(), frame.size(), data.data(), data.size(), kLevel);
  if (ZSTD_isError(size)) {
    return Error{ErrorCode::kInternal,
                 fmt::format("zstd could not compress {} bytes: {}", data.size(), ZSTD_getErrorName(size))};
  }
  frame.resize(size);
  return frame;
}

}  // namespace

Result<std::vector<std::byte>> compress_if_smaller(std::span<const std::byte> data) {
  if (data.size() < 64) return std::vector<std::byte>{};
  if (data.size() > 2 * kSamples * kSampleBytes) {
    std::size_t packed = 0;
    for (std::size_t i = 0; i < kSamples; ++i) {
      const std::size_t start = (data.size() - kSampleBytes) / (kSamples - 1) * i;
      CRUCIBLE_TRY(const auto frame, compress(data.subspan(start, kSampleBytes)));
      packed += frame.size();
    }
    if (!worth_it(packed, kSamples * kSampleBytes)) return std::vector<std::byte>{};
  }
  CRUCIBLE_TRY(auto frame, compress(data));
  if (!worth_it(frame.size(), data.size())) frame.clear();
  return frame;
}

Result<std::vector<std::byte>> decompress(std::span<const std::byte> frame, std::uint64_t raw_bytes) {
  // A zstd block of at least 4 bytes gives at most 128 KiB, so that a size above this is a lie.
  if (raw_bytes > frame.size() * 32768ull) {
    return Error{ErrorCode::kBadInput, fmt::format("{} bytes cannot be packed into {}", raw_bytes, frame.size())};
  }
  const unsigned long long announced = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (announced != raw_bytes)
    return Error{ErrorCode::kBadInput, fmt::format("its zstd frame is not one of {} bytes", raw_bytes)};
  std::vector<std::byte> raw(raw_bytes);
  const std::size_t size = ZSTD_decompress(raw.data(), raw.size(), frame.data(), frame.size());
  if (ZSTD_isError(size)) return Error{ErrorCode::kBadInput, fmt::format("zstd: {}", ZSTD_getErrorName(size))};
  if (size != raw_bytes) {
    return Error{ErrorCode::kBadInput, fmt::format("it has {} uncompressed bytes, {} were announced", size, raw_bytes)};
  }
  return raw;
}

}  // namespace crucible::trace
