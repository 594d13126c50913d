// Encodings of numbers and text, byte by byte so that the host's own order does not matter.
#include "core/trace/byte_stream.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace crucible::trace {

void ByteWriter::fixed(std::uint64_t number, int width) {
  std::byte bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(number >> (8 * i));
  bytes_.insert(bytes_.end(), bytes, bytes + width);
}

void ByteWriter::overwrite_u64(std::size_t offset, std::uint64_t number) {
  for (std::size_t i = 0; i < 8; ++i) bytes_[offset + i] = static_cast<std::byte>(number >> (8 * i));
}

void ByteWriter::long_varint(std::uint64_t number) {
  std::byte bytes[10];
  int size = 0;
  for (; number >= 0x80; number >>= 7) bytes[size++] = static_cast<std::byte>(number | 0x80);
  bytes[size++] = static_cast<std::byte>(number);
  bytes_.insert(bytes_.end(), bytes, bytes + size);
}

void ByteWriter::zigzag(std::int64_t number) {
  varint((static_cast<std::uint64_t>(number) << 1) ^ static_cast<std::uint64_t>(number >> 63));
}

void ByteWriter::f64(double number) { u64(std::bit_cast<std::uint64_t>(number)); }

void ByteWriter::text(std::string_view text) {
  varint(text.size());
  raw(std::as_bytes(std::span(text)));
}

void ByteReader::fail(std::string problem) {
  if (problem_.empty()) problem_ = std::move(problem);
}

bool ByteReader::need(std::uint64_t bytes, const char* what) {
  if (!ok()) return false;
  if (bytes <= remaining()) return true;
  fail(fmt::format("{} of {} bytes at byte {}, but only {} are left", what, bytes, position_, remaining()));
  return false;
}

std::uint8_t ByteReader::u8() {
  if (!need(1, "a byte")) return 0;
  return static_cast<std::uint8_t>(bytes_[position_++]);
}

std::uint64_t ByteReader::fixed(int width) {
  if (!need(width, "a number")) return 0;
  std::uint64_t number = 0;
  for (int i = 0; i < width; ++i) number |= static_cast<std::uint64_t>(bytes_[position_++]) << (8 * i);
  return number;
}

std::uint64_t ByteReader::varint() {
  std::uint64_t number = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (!need(1, "a number")) return 0;
    const std::uint64_t byte = static_cast<std::uint64_t>(bytes_[position_++]);
    if (shift == 63 && byte > 1) break;
    number |= (byte & 0x7f) << shift;
    if (byte < 0x80) return number;
  }
  fail(fmt::format("a number before byte {} has more than 64 bits", position_));
  return 0;
}

std::uint32_t ByteReader::varint32() {
  const std::uint64_t number = varint();
  if (number <= 0xffffffffu) return static_cast<std::uint32_t>(number);
  fail(fmt::format("the number {} before byte {} has more than 32 bits", number, position_));
  return 0;
}

std::int64_t ByteReader::zigzag() {
  const std::uint64_t number = varint();
  return static_cast<std::int64_t>((number >> 1) ^ (~(number & 1) + 1));
}

double ByteReader::f64() { return std::bit_cast<double>(u64()); }

std::string ByteReader::text() {
  const std::uint64_t size = varint();
  if (!need(size, "a text")) return {};
  std::string text(size, '\0');
  if (size > 0) std::memcpy(text.data(), bytes_.data() + position_, size);
  position_ += size;
  return text;
}

void ByteReader::raw(std::span<std::byte> out) {
  if (!need(out.size(), "bytes") || out.empty()) return;
  std::memcpy(out.data(), bytes_.data() + position_, out.size());
  position_ += out.size();
}

std::size_t ByteReader::count(std::size_t min_bytes) {
  const std::uint64_t number = varint();
  if (!ok()) return 0;
  if (number <= remaining() / min_bytes) return number;
  fail(fmt::format("{} records of at least {} bytes are announced at byte {}, but only {} bytes are left", number,
                   min_bytes, position_, remaining()));
  return 0;
}

}  // namespace crucible::trace
