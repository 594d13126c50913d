// Growth and reading of a thread's log; the hot path is in the header.
#include "frontends/torch/log.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace crucible::recorder {

namespace {

// One huge page, some twenty thousand ops: a page fault for every few ops would cost more than writing them.
constexpr std::size_t kHugePage = std::size_t{1} << 21;
constexpr std::size_t kChunkWords = kHugePage / sizeof(std::uint64_t);

/// Room for `words` words in whole huge pages, where the system has them.
std::uint64_t* allocate_pages(std::size_t words) {
  const std::size_t bytes = (words * sizeof(std::uint64_t) + kHugePage - 1) & ~(kHugePage - 1);
  void* memory = std::aligned_alloc(kHugePage, bytes);
  if (memory == nullptr) throw std::bad_alloc();
  ::madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: without huge pages it is only slower
  return static_cast<std::uint64_t*>(memory);
}

}  // namespace

Log::Log() { grow(0); }

void Log::grow(std::size_t words) {
  const std::size_t partial = record_ == nullptr ? 0 : static_cast<std::size_t>(next_ - record_);
  Chunk chunk;
  chunk.capacity = std::max(kChunkWords, 2 * (partial + words + kSlack));
  chunk.words.reset(allocate_pages(chunk.capacity));
  // The record that was begun moves along, so that it stays in one piece.
  if (partial > 0) std::memcpy(chunk.words.get(), record_, partial * sizeof(std::uint64_t));
  if (!chunks_.empty()) {
    Chunk& last = chunks_.back();
    last.used = static_cast<std::size_t>((record_ == nullptr ? next_ : record_) - last.words.get());
  }
  next_ = chunk.words.get() + partial;
  if (record_ != nullptr) record_ = chunk.words.get();
  end_ = chunk.words.get() + chunk.capacity;
  chunks_.push_back(std::move(chunk));
}

void Log::put_bytes(Tag tag, const char* data, std::size_t size) {
  const std::size_t words = (size + 7) / 8;
  reserve(1 + words);
  put(tag, size);
  if (words == 0) return;
  next_[words - 1] = 0;
  std::memcpy(next_, data, size);
  next_ += words;
}

std::vector<std::span<const std::uint64_t>> Log::contents() const {
  std::vector<std::span<const std::uint64_t>> spans;
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    const Chunk& chunk = chunks_[i];
    const std::size_t used = i + 1 < chunks_.size() ? chunk.used : static_cast<std::size_t>(next_ - chunk.words.get());
    spans.emplace_back(chunk.words.get(), used);
  }
  return spans;
}

std::size_t Log::size_bytes() const {
  std::size_t bytes = 0;
  for (const Chunk& chunk : chunks_) bytes += chunk.capacity * sizeof(std::uint64_t);
  return bytes;
}

}  // namespace crucible::recorder
