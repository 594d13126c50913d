// Where a mutator's decisions come from: a seed, or the bytes that libFuzzer gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace crucible::fuzz {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15u + 1) {}
  /// When the bytes are used up, numbers follow from how many there were.
  explicit Draw(std::span<const std::byte> bytes) : random_(bytes.size() + 1), bytes_(bytes) {}

  /// 0 to `count` - 1; 0 where `count` is 0.
  std::size_t below(std::size_t count) { return count < 2 ? 0 : static_cast<std::size_t>(next() % count); }
  bool one_in(std::size_t count) { return below(count) == 0; }
  template <class T>
  const T& of(const std::vector<T>& items) {
    return items[below(items.size())];
  }
  /// Any 64 bits.
  std::uint64_t bits() { return next() ^ next() << 16 ^ next() << 32 ^ next() << 48; }

  /// What a number of a file becomes: near it, near a limit, or anything.
  std::int64_t other_than(std::int64_t number);

 private:
  std::uint64_t next() {
    if (bytes_.empty()) return random_();
    std::uint64_t number = 0;
    for (int i = 0; i < 2 && !bytes_.empty(); ++i) {
      number = number << 8 | std::to_integer<std::uint64_t>(bytes_.front());
      bytes_ = bytes_.subspan(1);
    }
    return number;
  }
  std::mt19937_64 random_;
  std::span<const std::byte> bytes_;
};

}  // namespace crucible::fuzz
