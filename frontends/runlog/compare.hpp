// Two runs beside each other: whether they began alike, and where they part.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "frontends/runlog/log.hpp"

namespace crucible::runlog {

/// A run by itself, out of a log or as it was just recorded.
struct RunData {
  std::string name;  // for people
  RunBegin begin;
  std::vector<IterationRecord> iterations;
  std::optional<RunEnd> end;
};
RunData data_of(const Log& log, const Run& run);

/// The first iteration, among those that both logged, after which something is different.
struct Parting {
  std::uint64_t iteration = 0;
  std::string what;                         // "inputs", "numbers", "outputs", "state"; the first of them that differs
  std::optional<std::uint64_t> last_equal;  // the last one before it that both logged
};

struct Comparison {
  bool both_strict = false;
  bool same_recording = false, same_program = false, same_start = false;
  std::size_t compared = 0;  // iterations that both logged
  std::optional<Parting> parting;
  bool same_length = false;  // as many iterations ran
  bool both_done = false;
  std::optional<std::string> state;  // the hash, where both end after as many iterations in the same one
  std::uint64_t iterations = 0;      // of the shorter one
  std::size_t states_compared = 0;
  std::vector<std::string> states_apart;  // at the end, by name, dtype and size

  /// They began alike, were alike wherever both were logged, and ended alike.
  bool is_equal() const {
    return same_program && same_start && !parting && both_done && same_length && state.has_value();
  }
};

Comparison compare(const RunData& a, const RunData& b);

/// Sentences for a person, one a line.
std::string in_words(const Comparison& comparison, const RunData& a, const RunData& b);

}  // namespace crucible::runlog
