// Memory as large as a kernel was made for, of which only what is touched is made: numbers appear piece by piece where
// the interpreter reads or writes, and every write is remembered. So a kernel of large tensors can be tried on a few of
// its items.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace crucible::kernel {

class TouchedMemory {
 public:
  static constexpr std::uint64_t kPiece =
      64;  // bytes that appear together; a multiple of every element's size. Columns touch an element of each

  /// Writes what memory holds from byte `first` on: a whole piece, or the last one's part, the same each time that it
  /// is asked.
  using Fill = std::function<void(std::uint64_t first, std::span<std::byte> into)>;

  /// `keeps_first`: what it held before anything was written is wanted, and something will be written.
  TouchedMemory(std::uint64_t size_bytes, Fill fill, bool keeps_first);
  TouchedMemory(const TouchedMemory&) = delete;
  TouchedMemory& operator=(const TouchedMemory&) = delete;
  ~TouchedMemory();

  std::byte* data() const { return data_; }
  std::uint64_t size_bytes() const { return size_bytes_; }
  /// Before an element is read or written.
  void touch(std::uint64_t byte) {
    const std::uint64_t piece = byte / kPiece;
    if ((is_there_[piece / 64] >> piece % 64 & 1) == 0) make(piece);
  }
  /// Before elements of bytes [first, end) are.
  void touch_range(std::uint64_t first, std::uint64_t end) {
    for (std::uint64_t byte = first / kPiece * kPiece; byte < end; byte += kPiece) touch(byte);
  }
  /// After an element was written.
  void note_write(std::uint64_t byte) { written_.push_back(byte); }
  void touch_all();
  /// What the process holds for it.
  std::uint64_t resident_bytes() const { return pages_ * kPage * (first_ != nullptr ? 2 : 1); }

  struct Range {
    std::uint64_t first = 0, size = 0;  // bytes
  };
  /// What was touched, in ascending order; ranges that lie at most `gap` bytes apart are one, with what lies between
  /// them.
  std::vector<Range> touched(std::uint64_t gap) const;
  /// What it held before anything was written, where it was touched; else zeros.
  const std::byte* first() const { return first_ != nullptr ? first_ : data_; }
  /// Where elements were written: first bytes, ascending, each once.
  const std::vector<std::uint64_t>& written();

 private:
  void make(std::uint64_t piece);
  std::byte* map() const;

  std::uint64_t size_bytes_ = 0;
  Fill fill_;
  std::byte* data_ = nullptr;  // mapped, so that what is never touched costs nothing
  std::byte* first_ = nullptr;  // as `data_` began; null: it still is
  std::uint64_t mapped_bytes_ = 0;
  static constexpr std::uint64_t kPage = 64 * kPiece;
  std::uint64_t pages_ = 0;              // with a piece that is there
  std::vector<std::uint64_t> is_there_;  // a bit per piece, a word per page
  std::vector<std::uint64_t> written_;
};

}  // namespace crucible::kernel
