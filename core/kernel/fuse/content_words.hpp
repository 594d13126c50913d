// Contents as words: what is written of a part of a program to find another that is the same but for names. Only equal
// words are equal contents, hashes just find them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/graph/program.hpp"

namespace crucible::kernel {

using Words = std::vector<std::uint64_t>;

struct WordsHash {
  std::size_t operator()(const Words& words) const {
    std::uint64_t hash = words.size();
    for (const std::uint64_t word : words) {
      hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 32;
    }
    return hash;
  }
};

template <class Entry>
using ByWords = std::unordered_map<Words, Entry, WordsHash>;

/// Appends numbers so that different ones never have equal words: lists come with their length.
class WordWriter {
 public:
  explicit WordWriter(Words& words) : words_(words) {}

  void number(std::uint64_t number) { words_.push_back(number); }
  /// Two numbers of less than 32 bits.
  void pair(std::uint64_t a, std::uint64_t b) { words_.push_back(a << 32 | (b & 0xffffffffu)); }
  void numbers(std::span<const std::int64_t> numbers) {
    words_.push_back(numbers.size());
    for (const std::int64_t each : numbers) words_.push_back(static_cast<std::uint64_t>(each));
  }
  void flags(const std::vector<bool>& flags) {
    words_.push_back(flags.size());
    for (std::size_t i = 0; i < flags.size(); i += 64) {
      std::uint64_t word = 0;
      for (std::size_t k = i; k < flags.size() && k < i + 64; ++k)
        word |= static_cast<std::uint64_t>(flags[k]) << (k - i);
      words_.push_back(word);
    }
  }

 private:
  Words& words_;
};

/// Numbers what is named, in the order in which it is met: what is left of a name in words. In constant time each.
class Numbering {
 public:
  static constexpr std::uint32_t kNoPlace = graph::kNone;

  /// The number of a value or op, which is met now at the latest.
  std::uint32_t of(std::uint32_t id) {
    if (id >= place_.size()) place_.resize(id + 1, kNoPlace);
    if (place_[id] == kNoPlace) {
      place_[id] = static_cast<std::uint32_t>(met_.size());
      met_.push_back(id);
    }
    return place_[id];
  }
  /// kNoPlace where it was not met.
  std::uint32_t find(std::uint32_t id) const { return id < place_.size() ? place_[id] : kNoPlace; }
  const std::vector<std::uint32_t>& met() const { return met_; }
  void clear() {
    for (const std::uint32_t id : met_) place_[id] = kNoPlace;
    met_.clear();
  }

 private:
  std::vector<std::uint32_t> place_, met_;
};

}  // namespace crucible::kernel
