#include "core/kernel/ir/touched_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace crucible::kernel {

TouchedMemory::TouchedMemory(std::uint64_t size_bytes, Fill fill, bool keeps_first)
    : size_bytes_(size_bytes),
      fill_(std::move(fill)),
      mapped_bytes_((size_bytes + kPiece - 1) / kPiece * kPiece),
      is_there_((mapped_bytes_ / kPiece + 63) / 64) {
  if (mapped_bytes_ == 0) return;
  data_ = map();
  if (keeps_first && data_ != nullptr) first_ = map();
}

TouchedMemory::~TouchedMemory() {
  if (data_ != nullptr) munmap(data_, mapped_bytes_);
  if (first_ != nullptr) munmap(first_, mapped_bytes_);
}

std::byte* TouchedMemory::map() const {
  void* const mapped =
      mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return mapped == MAP_FAILED ? nullptr : static_cast<std::byte*>(mapped);
}

void TouchedMemory::make(std::uint64_t piece) {
  const std::uint64_t at = piece * kPiece, size = std::min(kPiece, size_bytes_ - at);
  fill_(at, std::span(data_ + at, size));
  if (first_ != nullptr) std::memcpy(first_ + at, data_ + at, size);
  if (is_there_[piece / 64] == 0) ++pages_;
  is_there_[piece / 64] |= std::uint64_t{1} << piece % 64;
}

void TouchedMemory::touch_all() { touch_range(0, size_bytes_); }

std::vector<TouchedMemory::Range> TouchedMemory::touched(std::uint64_t gap) const {
  std::vector<Range> ranges;
  for (std::uint64_t word = 0; word < is_there_.size(); ++word) {
    for (std::uint64_t left = is_there_[word]; left != 0; left &= left - 1) {
      const std::uint64_t at = (word * 64 + static_cast<std::uint64_t>(std::countr_zero(left))) * kPiece,
                          size = std::min(kPiece, size_bytes_ - at);
      if (!ranges.empty() && at - (ranges.back().first + ranges.back().size) <= gap)
        ranges.back().size = at + size - ranges.back().first;
      else
        ranges.push_back({at, size});
    }
  }
  return ranges;
}

const std::vector<std::uint64_t>& TouchedMemory::written() {
  // Mostly two ascending runs: an item, then those before it.
  const auto second = std::ranges::is_sorted_until(written_);
  if (std::ranges::is_sorted(second, written_.end())) {
    std::ranges::inplace_merge(written_, second);
  } else {
    std::ranges::sort(written_);
  }
  const auto rest = std::ranges::unique(written_);
  written_.erase(rest.begin(), rest.end());
  return written_;
}

}  // namespace crucible::kernel
