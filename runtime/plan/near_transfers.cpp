#include "runtime/plan/near_transfers.hpp"

#include <algorithm>
#include <utility>

namespace crucible::runtime {
namespace {

constexpr std::uint64_t kSmall = 4096;    // a larger piece is read alone
constexpr std::uint64_t kGap = 1024;      // what a host copies while it would begin another read
constexpr std::uint64_t kMost = 1 << 16;  // of one read

}  // namespace

std::vector<ByteRange> near_ranges(std::vector<ByteRange> wanted) {
  std::erase_if(wanted,
                [](const ByteRange& range) { return range.end <= range.begin || range.end - range.begin > kSmall; });
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

Result<void> NearReads::read(std::uint64_t offset, std::span<std::byte> bytes) {
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

bool NearWrites::takes(std::size_t bytes) { return bytes <= kSmall; }

Result<void> NearWrites::flush(const Write& write) {
  std::vector<Piece> pieces = std::exchange(pieces_, {});
  std::ranges::sort(pieces, {}, &Piece::begin);
  const auto is_free = [&](std::uint64_t begin, std::uint64_t end) {
    const auto next = std::ranges::lower_bound(kept_, begin);
    return next == kept_.end() || *next >= end;
  };
  for (std::size_t first = 0; first < pieces.size();) {
    std::size_t last = first + 1;  // one behind those of this write
    while (last < pieces.size() && pieces[last].begin - pieces[last - 1].end() <= kGap &&
           pieces[last].end() - pieces[first].begin <= kMost && is_free(pieces[last - 1].end(), pieces[last].begin))
      ++last;
    std::vector<std::byte> whole;
    if (last > first + 1) {
      whole.resize(pieces[last - 1].end() - pieces[first].begin);
      for (std::size_t i = first; i < last; ++i)
        std::ranges::copy(pieces[i].bytes,
                          whole.begin() + static_cast<std::ptrdiff_t>(pieces[i].begin - pieces[first].begin));
    }
    CRUCIBLE_TRY_VOID(write(pieces[first].begin, last > first + 1 ? whole : pieces[first].bytes));
    first = last;
  }
  return {};
}

}  // namespace crucible::runtime
