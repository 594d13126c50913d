// Programs as bytes that mean the same on every machine: what is hashed to identify them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/hash.hpp"
#include "core/graph/program.hpp"
#include "core/graph/view.hpp"

namespace crucible::graph {

/// Appends numbers, texts and views so that different ones never have equal bytes; little-endian, lists with their
/// length.
class ByteWriter {
 public:
  explicit ByteWriter(std::vector<std::byte>& bytes) : bytes_(bytes) {}

  void number(std::int64_t number) {
    const auto bits = static_cast<std::uint64_t>(number);
    for (int i = 0; i < 8; ++i) bytes_.push_back(static_cast<std::byte>(bits >> (8 * i)));
  }
  void small(std::uint32_t number) {
    for (int i = 0; i < 4; ++i) bytes_.push_back(static_cast<std::byte>(number >> (8 * i)));
  }
  void text(std::string_view text) {
    number(static_cast<std::int64_t>(text.size()));
    for (const char c : text) bytes_.push_back(static_cast<std::byte>(c));
  }
  void numbers(const std::vector<std::int64_t>& numbers) {
    number(static_cast<std::int64_t>(numbers.size()));
    for (const auto each : numbers) number(each);
  }
  void view(const View& view) {
    const View plain = normalized(view);
    number(plain.offset);
    numbers(plain.sizes);
    numbers(plain.strides);
  }
  void hash(const ContentHash& hash) {
    for (const auto byte : hash.bytes) bytes_.push_back(static_cast<std::byte>(byte));
  }
  void value(const Value& value) {
    text(name(value.dtype));
    number(value.elements);
  }

 private:
  std::vector<std::byte>& bytes_;
};

}  // namespace crucible::graph
