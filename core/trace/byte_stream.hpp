// The primitive encodings of a .crtrace section: bytes, variable-length integers, doubles by their bits, text.
//
// ByteWriter appends to memory; ByteReader takes the same things back and refuses whatever does not fit the bytes that
// are there. Neither knows what a section means (sections.cpp) nor where it lies in the file (container.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.hpp"

namespace crucible::trace {

class ByteWriter {
 public:
  void u8(std::uint8_t number) { bytes_.push_back(static_cast<std::byte>(number)); }
  /// Fixed width, little-endian.
  void u16(std::uint16_t number) { fixed(number, 2); }
  void u32(std::uint32_t number) { fixed(number, 4); }
  void u64(std::uint64_t number) { fixed(number, 8); }
  /// Seven bits per byte, lowest first, the top bit says that more follow (LEB128): 1 to 10 bytes.
  void varint(std::uint64_t number) {
    if (number < 0x80) return u8(static_cast<std::uint8_t>(number));  // nearly all of them
    long_varint(number);
  }
  /// A varint of 2n for n >= 0 and of -2n - 1 below: small magnitudes stay short.
  void zigzag(std::int64_t number);
  /// An id as varint(id + 1); kNone is 0.
  void id(std::uint32_t number) { varint(static_cast<std::uint32_t>(number + 1)); }
  /// The 8 bytes of the IEEE 754 number: -0.0 and NaN payloads survive.
  void f64(double number);
  /// A varint length, then the bytes as they are.
  void text(std::string_view text);
  void raw(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  /// Zero bytes until the size is `size`.
  void pad_to(std::size_t size) { bytes_.resize(size); }

  /// Overwrites 8 bytes that were written at `offset`.
  void overwrite_u64(std::size_t offset, std::uint64_t number);
  /// Forgets what was written; the memory stays for what comes.
  void clear() { bytes_.clear(); }
  std::size_t capacity() const { return bytes_.capacity(); }

  std::size_t size() const { return bytes_.size(); }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void fixed(std::uint64_t number, int width);
  void long_varint(std::uint64_t number);
  std::vector<std::byte> bytes_;
};

/// After the first thing that does not fit, every call returns zero or nothing and ok() is false: read a whole record,
/// then ask once.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint8_t u8();
  std::uint16_t u16() { return static_cast<std::uint16_t>(fixed(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(fixed(4)); }
  std::uint64_t u64() { return fixed(8); }
  std::uint64_t varint();
  std::uint32_t varint32();
  std::int64_t zigzag();
  std::uint32_t id() { return varint32() - 1; }
  double f64();
  std::string text();
  void raw(std::span<std::byte> out);
  /// A varint number of records of at least `min_bytes` each; refused when that many cannot be left.
  std::size_t count(std::size_t min_bytes);

  bool ok() const { return problem_.empty(); }
  /// Keeps the first problem only.
  void fail(std::string problem);
  /// Puts where it happened in front of the problem.
  void prefix(const std::string& where) { problem_.insert(0, where); }
  const std::string& problem() const { return problem_; }
  std::size_t position() const { return position_; }
  std::size_t remaining() const { return bytes_.size() - position_; }

 private:
  std::uint64_t fixed(int width);
  bool need(std::uint64_t bytes, const char* what);
  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
  std::string problem_;
};

}  // namespace crucible::trace
