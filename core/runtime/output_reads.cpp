#include "core/runtime/output_reads.hpp"

#include <algorithm>
#include <utility>

namespace crucible::runtime {
namespace {

constexpr std::uint64_t kSmall = 4096;    // a larger piece is read alone
constexpr std::uint64_t kGap = 1024;      // what a host copies while it would begin another read
constexpr std::uint64_t kMost = 1 << 16;  // of one read

}  // namespace

std::vector<ByteRange> near_ranges(std::vector<ByteRange> wanted) {
  std::erase_if(wanted, [](const ByteRange& range) { return range.end <= range.begin || range.end - range.begin > kSmall; });
  std::ranges::sort(wanted, {}, [](const ByteRange& range) { return std::pair(range.begin, range.end); });
  std::vector<ByteRange> near;
  std::size_t count = 0;  // of those in the last one
  for (const ByteRange& range : wanted) {
    const bool joins = !near.empty() && range.begin <= near.back().end + kGap && range.end - near.back().begin <= kMost;
    if (joins) {
      near.back().end = std::max(near.back().end, range.end);
      ++count;
      continue;
    }
    if (count == 1) near.pop_back();
    near.push_back(range);
    count = 1;
  }
  if (count == 1) near.pop_back();
  return near;
}

Result<void> OutputReads::read(std::uint64_t offset, std::span<std::byte> bytes) {
  const auto after = std::ranges::upper_bound(ranges_, offset, {}, &ByteRange::begin);
  if (after == ranges_.begin()) return read_(offset, bytes);
  const ByteRange& range = *std::prev(after);
  if (offset + bytes.size() > range.end) return read_(offset, bytes);
  std::vector<std::byte>& kept = kept_[static_cast<std::size_t>(std::prev(after) - ranges_.begin())];
  if (kept.empty()) {
    std::vector<std::byte> whole(range.end - range.begin);
    CRUCIBLE_TRY_VOID(read_(range.begin, whole));
    kept = std::move(whole);
  }
  std::ranges::copy(std::span(kept).subspan(offset - range.begin, bytes.size()), bytes.begin());
  return {};
}

}  // namespace crucible::runtime
