// Growth and reading of a thread's log; the hot path is in the header.
#include "frontends/torch/log.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
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
    void* memory = std::aligned_alloc(kHugePage, bytes);
    if (memory == nullptr) throw std::bad_alloc();
    ::madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: without huge pages it is only slower
    made_.fetch_add(1, std::memory_order_relaxed);
    auto* chunk = static_cast<std::uint64_t*>(memory);
    if (words > kChunkWords) return {chunk, [](std::uint64_t* taken) { std::free(taken); }};
    return {chunk, [](std::uint64_t* taken) { instance().give_back(taken); }};
  }
  std::uint64_t made() const { return made_.load(std::memory_order_relaxed); }

 private:
  void give_back(std::uint64_t* chunk) {
    const std::lock_guard lock(mutex_);
    if (free_.size() < kKept) {
      free_.push_back(chunk);
    } else {
      std::free(chunk);
    }
  }

  static constexpr std::size_t kKept = 16;
  std::mutex mutex_;  // guards free_
  std::vector<std::uint64_t*> free_;
  std::atomic<std::uint64_t> made_{0};
};

}  // namespace

Log::Log() { grow(0); }

std::uint64_t Log::chunks_made() { return Pool::instance().made(); }

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
  end_ = chunk.get() + capacity;
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
