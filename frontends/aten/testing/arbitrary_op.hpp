// Test support: recordings of one operator with arguments that no framework would have recorded: wrong ranks, sizes
// that overflow, lists of wrong length, missing tensors, other kinds. A lowering answers them with a program or an
// error.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <vector>

#include "frontends/aten/call/signature.hpp"
#include "frontends/aten/testing/trace_builder.hpp"

namespace crucible::aten {

/// Where a maker's decisions come from: a seed, or the bytes that a fuzzer gives (zeros when they are used up).
class Choices {
 public:
  explicit Choices(std::uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15u + 11) {}
  explicit Choices(std::span<const std::uint8_t> bytes) : bytes_(bytes), from_bytes_(true) {}

  /// A number from 0 to `count` - 1.
  std::size_t below(std::size_t count);
  bool one_in(std::size_t n) { return below(n) == n - 1; }  // bytes that are used up are the plain choice
  template <class T>
  const T& of(const std::vector<T>& items) {
    return items[below(items.size())];
  }

 private:
  std::mt19937_64 random_;
  std::span<const std::uint8_t> bytes_;
  bool from_bytes_ = false;
};

using ResultSizes = std::map<std::size_t, std::vector<std::int64_t>>;

/// Records one or two iterations of one call of `signature`. The same choices and sizes give the same recording.
/// `results`: the sizes of results that are known from an earlier try; the others are guessed.
void record_arbitrary(TraceBuilder& builder, const Signature& signature, Choices choices, const ResultSizes& results);

/// What an error says that a result should have been: "result 0 was recorded as [2], its lowering makes [2, 3]" gives
/// {0, [2, 3]}. False for other texts.
bool read_wanted_sizes(const std::string& error, std::size_t& result, std::vector<std::int64_t>& sizes);

}  // namespace crucible::aten
