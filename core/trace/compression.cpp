// zstd calls and the decision whether compressing is worth it.
#include "core/trace/compression.hpp"

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <memory>

namespace crucible::trace {

namespace {

constexpr std::size_t kSampleBytes = 32 << 10;
constexpr std::size_t kSamples = 4;

Result<std::vector<std::byte>> compress(std::span<const std::byte> data, int level) {
  std::vector<std::byte> frame(ZSTD_compressBound(data.size()));
  const std::size_t size = ZSTD_compress(frame.data(), frame.size(), data.data(), data.size(), level);
  if (ZSTD_isError(size)) {
    return Error{ErrorCode::kInternal,
                 fmt::format("zstd could not compress {} bytes: {}", data.size(), ZSTD_getErrorName(size))};
  }
  frame.resize(size);
  return frame;
}

}  // namespace

bool is_worth_compressing(std::uint64_t packed, std::uint64_t raw) { return raw >= 64 && packed < raw - raw / 20; }

Result<std::vector<std::byte>> compress_if_smaller(std::span<const std::byte> data, int level) {
  if (data.size() < 64) return std::vector<std::byte>{};
  if (data.size() > 2 * kSamples * kSampleBytes) {
    std::size_t packed = 0;
    for (std::size_t i = 0; i < kSamples; ++i) {
      const std::size_t start = (data.size() - kSampleBytes) / (kSamples - 1) * i;
      CRUCIBLE_TRY(const auto frame, compress(data.subspan(start, kSampleBytes), level));
      packed += frame.size();
    }
    if (!is_worth_compressing(packed, kSamples * kSampleBytes)) return std::vector<std::byte>{};
  }
  CRUCIBLE_TRY(auto frame, compress(data, level));
  if (!is_worth_compressing(frame.size(), data.size())) frame.clear();
  return frame;
}

Result<void> compress_pieces(std::span<const std::span<const std::byte>> pieces,
                             const std::function<Result<void>(std::span<const std::byte>)>& sink, int level) {
  const std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx*)> context(ZSTD_createCCtx(), ZSTD_freeCCtx);
  if (context == nullptr) return Error{ErrorCode::kBadInput, "not enough memory for zstd"};
  std::uint64_t total = 0;
  for (const auto piece : pieces) total += piece.size();
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setPledgedSrcSize(context.get(), total);
  std::vector<std::byte> part(ZSTD_CStreamOutSize());
  for (std::size_t i = 0; i <= pieces.size(); ++i) {  // once more at the end, which closes the frame
    const bool is_end = i == pieces.size();
    ZSTD_inBuffer in{is_end ? nullptr : pieces[i].data(), is_end ? 0 : pieces[i].size(), 0};
    for (bool done = false; !done;) {
      ZSTD_outBuffer out{part.data(), part.size(), 0};
      const std::size_t left = ZSTD_compressStream2(context.get(), &out, &in, is_end ? ZSTD_e_end : ZSTD_e_continue);
      if (ZSTD_isError(left)) {
        return Error{ErrorCode::kInternal,
                     fmt::format("zstd could not compress {} bytes: {}", total, ZSTD_getErrorName(left))};
      }
      if (out.pos > 0) CRUCIBLE_TRY_VOID(sink(std::span(part).first(out.pos)));
      done = is_end ? left == 0 : in.pos == in.size;
    }
  }
  return {};
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
