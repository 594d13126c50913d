// Growth and reading of a thread's log; the hot path is in the header.
#include "frontends/torch/log.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <new>
#include <utility>

namespace crucible::recorder {

namespace {

// One huge page, some twenty thousand ops: a page fault for every few ops would cost more than writing them.
constexpr std::size_t kHugePage = std::size_t{1} << 21;
constexpr std::size_t kChunkWords = kHugePage / sizeof(std::uint64_t);

/// Chunks of the usual size that nobody reads any more: a recording in steady state asks the system for no memory.
class Pool {
 public:
  static Pool& instance() {
    static Pool* pool = new Pool;  // never destroyed: chunks may be given back when the process ends
    return *pool;
  }
  /// Room for `words` words in whole huge pages, where the system has them.
  Log::Chunk take(std::size_t words) {
    if (words <= kChunkWords) {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        std::uint64_t* chunk = free_.back();
        free_.pop_back();
        return {chunk, [](std::uint64_t* taken) { instance().give_back(taken); }};
      }
    }
    const std::size_t bytes = (words * sizeof(std::uint64_t) + kHugePage - 1) & ~(kHugePage - 1);
    std::uint64_t* chunk = map(bytes);
    if (words > kChunkWords) return {chunk, [bytes](std::uint64_t* taken) { ::munmap(taken, bytes); }};
    return {chunk, [](std::uint64_t* taken) { instance().give_back(taken); }};
  }

 private:
  /// Memory at a huge page's boundary. Not from malloc, which would write its own word into the huge page before it.
  static std::uint64_t* map(std::size_t bytes) {
    void* mapped =
        ::mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    auto* const start = static_cast<std::byte*>(mapped);
    const std::size_t before = -reinterpret_cast<std::uintptr_t>(start) & (kHugePage - 1);
    if (before > 0) ::munmap(start, before);
    ::munmap(start + before + bytes, kHugePage - before);
    ::madvise(start + before, bytes, MADV_HUGEPAGE);  // a wish: without huge pages it is only slower
    return reinterpret_cast<std::uint64_t*>(start + before);
  }
  void give_back(std::uint64_t* chunk) {
    const std::lock_guard lock(mutex_);
    if (free_.size() < kKept) {
      free_.push_back(chunk);
    } else {
      ::munmap(chunk, kHugePage);
    }
  }

  static constexpr std::size_t kKept = 16;
  std::mutex mutex_;  // guards free_
  std::vector<std::uint64_t*> free_;
};

}  // namespace

Log::Log() { grow(0); }

void Log::grow(std::size_t words) {
  const std::size_t partial = record_ == nullptr ? 0 : static_cast<std::size_t>(next_ - record_);
  const std::size_t capacity = std::max(kChunkWords, 2 * (partial + words + kSlack));
  Chunk chunk = Pool::instance().take(capacity);
  // The record that was begun moves along, so that it stays in one piece.
  if (partial > 0) std::memcpy(chunk.get(), record_, partial * sizeof(std::uint64_t));
  if (chunk_ != nullptr) {
    words_left_behind_ += static_cast<std::uint64_t>(finished_end() - chunk_.get());
    if (finished_end() > uncut_) full_.push_back({chunk_, {uncut_, finished_end()}});
  }
  uncut_ = chunk.get();
  next_ = chunk.get() + partial;
  if (record_ != nullptr) record_ = chunk.get();
  limit_ = chunk.get() + capacity - kSlack;
  chunk_ = std::move(chunk);
}

std::vector<Log::Piece> Log::cut() {
  std::vector<Piece> pieces = std::exchange(full_, {});
  if (finished_end() > uncut_) pieces.push_back({chunk_, {uncut_, finished_end()}});
  uncut_ = finished_end();
  return pieces;
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

}  // namespace crucible::recorder
