// What was measured when choices were made: a row per sample, winners and losers, for ever. A row is never changed or
// taken away; which candidate is best is asked anew each time. In a file of its own, as nothing else in a store has it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/hash.hpp"
#include "core/base/result.hpp"
#include "store/blobs.hpp"
#include "store/files.hpp"
#include "store/sqlite.hpp"

namespace crucible::store {

struct Sample {
  std::string id;      // of this measurement, 32 hexadecimal digits; "": add() makes one
  ContentHash action;  // what was chosen for: the key of the choice
  std::string candidate, device;
  double time_ns = 0;
  std::string maker;
  std::int64_t made_ns = 0;  // since 1970, for people
};

struct Best {
  std::string candidate;
  double median_ns = 0;
  std::uint64_t samples = 0;
};

/// Threads: any; one at a time gets in.
class Tuning {
 public:
  /// A damaged file is moved to quarantine/ and said; one of a newer version is refused (kBadInput) and left alone. In
  /// a folder that cannot be written: the records that are there, copied into memory.
  static Result<std::unique_ptr<Tuning>> open(const Files& files, const Tell& tell);

  /// Durable when it returns. A sample whose id is there already is not added again. Errors: kBadInput for a time that
  /// is no positive number; kUnavailable.
  Result<void> add(Sample sample);
  /// All or none. Returns how many were new.
  Result<std::uint64_t> add(std::vector<Sample> samples);
  /// The candidate of the lowest median; nothing: there are no samples.
  Result<std::optional<Best>> best(const ContentHash& action, std::string_view device);
  /// Each candidate, the best first.
  Result<std::vector<Best>> candidates(const ContentHash& action, std::string_view device);
  /// Every sample in the order of adding.
  Result<void> each(const std::function<bool(const Sample&)>& visit);
  Result<std::uint64_t> count();

  /// `[[sample]]` tables.
  Result<std::string> to_toml();
  /// Adds those of a text of to_toml(); all or none. Errors: kBadInput with the line. Returns how many were new.
  Result<std::uint64_t> add_toml(std::string_view text);

 private:
  Tuning() = default;
  std::recursive_mutex mutex_;
  std::unique_ptr<Sqlite> database_;
};

/// The samples of such a text. Errors: kBadInput.
Result<std::vector<Sample>> parse_samples(std::string_view toml);

}  // namespace crucible::store
