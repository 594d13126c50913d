// The byte log of one thread: records of 64-bit words, appended by the thread that runs an op, read once by
// TraceStream. A record never spans chunks. It holds no references to tensors; it is not the .crtrace file.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

namespace crucible::recorder {

/// What follows in the log. The low byte of an item's first word; `Item` below lists the rest.
enum class Tag : std::uint8_t {
  kNone,
  kBool,            // bits 8..: the value
  kInt,             // next word
  kDouble,          // next word: its bits
  kComplex,         // next two words
  kString,          // bits 8..: bytes, then the bytes padded to words
  kDType,           // bits 8..: a crucible::DType
  kDevice,          // bits 8..15 type, 16..31 index + 1
  kLayout,          // bits 8..: the framework's number
  kMemoryFormat,    // bits 8..: the framework's number
  kGenerator,       // bits 8..15 device type, 16..31 index + 1, bit 32: it is the default generator
  kTensor,          // bits 8..15 dtype, 16..23 TensorFlag, 24..31 dimensions, 32..63 storage id; then see put_tensor
  kUndefinedTensor,
  kList,            // bits 8..: elements, each an item
  kIntList,         // bits 8..: elements, each a word
  kOpaque,          // bits 8..: bytes of a type name, then as kString
  kOutputs,         // between arguments and results of an op
  kCompound,        // bits 8..: parts; then as compound_tensor.hpp says
};

/// Flags of a tensor item. Sizes, strides and offset are 32-bit halves of words unless kWide says whole words.
enum TensorFlag : std::uint8_t {
  kRequiresGrad = 1,
  kWrappedNumber = 2,
  kDense = 4,      // strides are those of a fresh row-major tensor: not written
  kHasOffset = 8,  // a word with the storage offset follows
  kWide = 16,
  kNewSize = 32,  // a word with the storage's bytes (low 48 bits) and its device (as in kDevice, bits 48..) follows:
                  // the storage is met for the first time, or has grown
};

/// First words of a record; `kRecordWords` of them.
struct RecordHeader {
  std::uint32_t operator_id = 0;
  std::uint32_t words = 0;  // of the whole record
  std::uint32_t site = 0;
  std::uint32_t module = 0;
  std::uint64_t sequence : 56 = 0;
  std::uint64_t phase : 8 = 0;

  static RecordHeader read(const std::uint64_t* words) {
    std::array<std::uint64_t, 3> bits{};
    std::memcpy(bits.data(), words, sizeof bits);
    return std::bit_cast<RecordHeader>(bits);
  }
};
inline constexpr std::size_t kRecordWords = sizeof(RecordHeader) / 8;
static_assert(kRecordWords == 3 && std::endian::native == std::endian::little);

/// Owns: the chunk it writes to; full ones and those that were cut are shared with who reads them, and used again after
/// that. Threads: one writer; cut() and words_written() by anybody while the writer is between ops or inside one that
/// runs.
class Log {
 public:
  using Chunk = std::shared_ptr<std::uint64_t[]>;
  /// Whole records, and what keeps them in memory.
  struct Piece {
    Chunk chunk;
    std::span<const std::uint64_t> words;
  };

  Log();
  /// Starts a record; the arguments are the fields of its header.
  void begin_record(std::uint32_t operator_id, std::uint32_t site, std::uint32_t module, std::uint64_t sequence,
                    std::uint64_t phase) {
    reserve(kRecordWords);
    // Word by word: a header that is put together field by field would be read back before the fields have arrived.
    std::uint64_t* const record = next_;
    record_ = record;
    next_ = record + kRecordWords;
    record[0] = operator_id;
    record[1] = site | static_cast<std::uint64_t>(module) << 32;
    record[2] = sequence | phase << 56;
  }
  /// Keeps the record that was begun.
  void finish_record() {
    record_[0] |= static_cast<std::uint64_t>(next_ - record_) << 32;
    record_ = nullptr;
  }
  /// The header of the record that was begun; set_operator() before it is finished.
  RecordHeader header() const { return RecordHeader::read(record_); }
  void set_operator(std::uint32_t operator_id) { record_[0] = operator_id; }
  /// Forgets the record that was begun.
  void drop_record() {
    next_ = record_;
    record_ = nullptr;
  }
  /// Room for `words` more words of the present record, and for kSlack after them. Every item of no fixed size reserves
  /// for itself; the fixed ones between two of those (at most three words each) live in the slack.
  void reserve(std::size_t words) {
    if (next_ + words > limit_) [[unlikely]] grow(words);
  }
  /// Where the next word goes, for who reserved room and writes several words at once; written() says up to where.
  std::uint64_t* next() { return next_; }
  void written(std::uint64_t* end) { next_ = end; }
  void put(std::uint64_t word) { *next_++ = word; }
  void put(Tag tag, std::uint64_t payload = 0) { put(static_cast<std::uint64_t>(tag) | payload << 8); }
  void put_bytes(Tag tag, const char* data, std::size_t size);

  /// The records that were finished since the last cut, in order. One that is open stays for the next.
  std::vector<Piece> cut();
  /// Calls `visit(RecordHeader)` for the records that the next cut would give.
  template <class Visit>
  void for_each_uncut(Visit visit) const {
    const auto look = [&visit](const std::uint64_t* record, const std::uint64_t* end) {
      while (record < end) {
        const RecordHeader header = RecordHeader::read(record);
        visit(header);
        record += header.words;
      }
    };
    for (const Piece& piece : full_) look(piece.words.data(), piece.words.data() + piece.words.size());
    look(uncut_, finished_end());
  }
  /// Words of all records so far, cut or not.
  std::uint64_t words_written() const { return words_left_behind_ + static_cast<std::uint64_t>(next_ - chunk_.get()); }

  static constexpr std::size_t kSlack = 256;

 private:
  [[gnu::cold]] void grow(std::size_t words);
  std::uint64_t* finished_end() const { return record_ == nullptr ? next_ : record_; }

  std::uint64_t* next_ = nullptr;
  std::uint64_t* limit_ = nullptr;   // kSlack before the chunk's end
  std::uint64_t* record_ = nullptr;  // start of the record being written
  std::uint64_t* uncut_ = nullptr;   // what was not cut begins here
  Chunk chunk_;
  std::vector<Piece> full_;  // of chunks that are full, not cut yet
  std::uint64_t words_left_behind_ = 0;  // in chunks before the present one
};

}  // namespace crucible::recorder
