// A run log: a file of lines, each a record in a signed envelope that names the line before by its hash. Reading one
// checks the chain; what the hashes in it are worth is told by compare.hpp and check.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/runlog/record.hpp"
#include "store/envelope.hpp"

namespace crucible::runlog {

inline constexpr std::string_view kRecordType = "application/vnd.crucible.run+json";
inline constexpr std::size_t kLineLimit = 4u << 20;         // bytes of a line
inline constexpr std::uintmax_t kFileLimit = 1u << 30;      // bytes of a log
inline constexpr std::string_view kChecksumKey = "sha256";  // the "key" of the sum that each line has

struct Line {
  ContentHash hash;  // SHA-256 of the line without its line feed: what the next one names
  Record record;
  std::vector<std::string> keys;  // ids of those that signed it
  store::Envelope envelope;
};

/// Lines of one run, by their places in Log::lines.
struct Run {
  std::size_t first = 0, count = 0;
  std::vector<std::size_t> iterations, moves;
  std::optional<std::size_t> end;  // nothing: it was killed, still runs, or the file was cut off
};

struct Fault {
  std::size_t line = 0;  // from 1
  std::string what;
  bool is_torn = false;  // the last line lacks its end: who wrote it was ended meanwhile, or it was cut off
};

struct Log {
  std::string file;
  std::vector<Line> lines;  // up to the first fault
  std::vector<Run> runs;
  std::optional<Fault> fault;  // the first

  const RunBegin& begin(const Run& run) const { return std::get<RunBegin>(lines[run.first].record.content); }
  const IterationRecord& iteration(std::size_t line) const {
    return std::get<IterationRecord>(lines[line].record.content);
  }
  /// Null where the run has none.
  const RunEnd* end(const Run& run) const {
    return run.end ? &std::get<RunEnd>(lines[*run.end].record.content) : nullptr;
  }
  /// The name of a run: the hash of its first line.
  const ContentHash& id(const Run& run) const { return lines[run.first].hash; }
  /// After the last iteration that was logged, or where it ended; of a run without either, before the first.
  const ContentHash& last_state(const Run& run) const;
};

/// A line of a log, ended by a line feed: the record with its checksum, signed where there is a key.
std::string sealed(const Record& record, const std::optional<store::SecretKey>& key);

/// SHA-256 of a line without its line feed.
ContentHash hash_of_line(std::string_view line);

/// The lines of `text`. A fault in it is no error: what stands before it is there.
/// Errors: kBadInput where the first line already is none of a log, and for a line of a newer version.
Result<Log> read_log_text(std::string_view text, const std::string& file);
/// Errors: the same; kBadInput where the file cannot be read, is none, or is larger than kFileLimit.
Result<Log> read_log(const std::filesystem::path& file);

/// The first line that none of the keys signed, or whose signature is wrong; nothing: there is none.
std::optional<Fault> fault_of_signatures(const Log& log, const std::vector<store::PublicKey>& keys);

/// The run whose name begins with these digits. Errors: kUsage where there is none, or several.
Result<std::size_t> find_run(const Log& log, std::string_view prefix);

}  // namespace crucible::runlog
