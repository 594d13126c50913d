// What the records of a run log say, as data and as JSON: how a run began, its iterations, where it went on, how it
// ended. Which line follows which, and who signed it, is log.hpp. docs/run-log.md has the format.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/hash.hpp"
#include "core/base/result.hpp"

namespace crucible::runlog {

inline constexpr std::uint64_t kVersion = 1;

/// What ran: a recording by its content, a capsule by its bytes.
struct Source {
  std::string file;  // its name without folders, for people
  ContentHash content;
  bool operator==(const Source&) const = default;
};

/// The program that the recording was lowered to. `hash`: graph::program_hash(), of several variants the SHA-256 over
/// the line "NUMBER HASH\n" of each. `merkle`: of the tree of its regions.
struct ProgramName {
  ContentHash hash, merkle;
  std::uint64_t variants = 1;
  bool operator==(const ProgramName&) const = default;
};

/// Plugin and device; of the reference interpreter "reference" and nothing else. "": it does not say.
struct Machine {
  std::string backend, version, build_id, library;  // the last: SHA-256 of the plugin's file
  std::string device, name, uuid, driver, mathematics;
  bool emulated = false;
  bool operator==(const Machine&) const = default;
};

struct RunBegin {
  std::string started;  // UTC, for people: nothing is decided by it
  std::string tool;
  Source source;
  ProgramName program;
  std::uint64_t iterations = 0, every = 1;     // how many are to run; every how many one is logged
  std::string numerics;                        // "fast", "strict"
  std::map<std::string, std::string> options;  // that may change bits in fast numerics
  Machine machine;
  std::uint64_t states = 0;
  ContentHash state;  // before the first iteration: root_of() of all of them
  bool operator==(const RunBegin&) const = default;
};

struct IterationRecord {
  std::uint64_t index = 0, variant = 0;
  ContentHash inputs, slots, state, outputs;  // the state after it; content.hpp says what each covers
  std::vector<std::optional<double>> losses;  // for people; nothing: not finite
  bool operator==(const IterationRecord&) const = default;
};

/// The device was lost and the run went on elsewhere.
struct Moved {
  std::string from, reason;
  std::uint64_t first = 0;  // the first iteration whose results are of the new device
  Machine machine;
  bool operator==(const Moved&) const = default;
};

struct NamedState {
  std::string name, dtype;
  std::uint64_t elements = 0;
  ContentHash hash;
  bool operator==(const NamedState&) const = default;
};

enum class Ending : std::uint8_t { kDone, kFailed, kInterrupted };
std::string_view name(Ending ending);  // "done", "failed", "interrupted"

struct RunEnd {
  Ending ending = Ending::kDone;
  std::string words;             // why it failed, what interrupted it
  std::uint64_t iterations = 0;  // that ran
  std::optional<bool> verified;  // nothing: it was not asked for
  std::optional<ContentHash> state;
  std::vector<NamedState> states;  // of that; may be left out where there are too many
  bool operator==(const RunEnd&) const = default;
};

struct Record {
  ContentHash previous;  // of the line before; zeros in the first line of a file
  std::variant<RunBegin, IterationRecord, Moved, RunEnd> content;
  bool operator==(const Record&) const = default;
};

/// The payload of an envelope. Text that is no UTF-8 is replaced.
std::string to_json(const Record& record);

/// Only what to_json() writes is taken, to the byte. Errors: kBadInput, with what is wrong; kUnavailable for a record
/// of a newer version.
Result<Record> parse_record(std::string_view json);

/// Whether JSON is nested at most this deep: asked before it is parsed, for what is parsed takes memory by its depth.
bool is_shallow(std::string_view json, std::size_t depth);

}  // namespace crucible::runlog
