// What the lanes of one block say while they run, word by word, for those who count what a device's warps would do
// (ptx/warp_counter.hpp). The words' meaning is the translator's; here they are kept.
#pragma once

#include <cstdint>
#include <vector>

namespace crucible::emulator {

/// A word for a place in shared memory: this and the offset. One in local memory is this alone.
inline constexpr std::uint64_t kSharedWord = 1ull << 60, kLocalWord = 1ull << 59;

/// Threads: one at a time.
class LaneWords {
 public:
  void begin(std::uint32_t threads) {
    threads_ = threads;
    count_ = 0;
    if (lanes_.size() < threads) lanes_.resize(threads);
    for (auto& lane : lanes_) lane.clear();
  }
  void add(std::uint32_t thread, std::uint64_t word) {
    if (++count_ <= kMost) lanes_[thread].push_back(word);
  }
  std::uint32_t threads() const { return threads_; }
  const std::vector<std::uint64_t>& of(std::uint32_t thread) const { return lanes_[thread]; }
  /// False when the block said more than is kept (half a GiB).
  bool complete() const { return count_ <= kMost; }

 private:
  static constexpr std::uint64_t kMost = 1ull << 26;
  std::uint32_t threads_ = 0;
  std::uint64_t count_ = 0;
  std::vector<std::vector<std::uint64_t>> lanes_;
};

}  // namespace crucible::emulator
