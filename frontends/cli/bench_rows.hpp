// What `crucible bench` found out: one table per recording, one row per backend or peer, and its forms for people and
// programs.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/run/rounds.hpp"

namespace crucible::cli {

/// A backend or a peer on a recording. `why` says why it was not timed, or not to the end; "" when it was.
struct BenchRow {
  std::string name = {}, device = {}, why = {}, sha256 = {};
  std::string note = {};   // what else is to be known of what was checked; mostly ""
  std::string torch = {};  // of a peer: the framework's version
  bool is_peer = false, is_emulated = false, is_verified = false;
  bool is_cpu = false;  // the processors' energy and roofline are this one's
  unsigned threads = 0;  // 0: not known
  runtime::Timing timing = {};
  std::size_t undetermined = 0;      // states and losses that were left out of the judgement: --sensitivity
  double ratio = 0;                  // the first timed row's time over this one's
  double predicted_ns = 0;           // of an iteration at best, by the device's profile; 0: there is none
  std::uint64_t compile_ns = 0;      // to compile or load; of a peer to build, compile and warm up
  std::uint64_t arena_bytes = 0;     // 0: it does not say
  double roofline_share() const { return timing.median() > 0 ? predicted_ns / timing.median() : 0; }
};

struct BenchTable {
  std::string file = {};
  std::uint32_t iterations = 0;
  std::vector<BenchRow> rows = {};
};

struct BenchReport {
  std::uint32_t rounds = 0;
  bool is_strict = false;
  std::string energy_missing = {};  // why no row on the processors has joules; "" where energy is counted
  std::vector<BenchTable> tables = {};
};

/// Strict results of a backend that are verified but have other bits than the first one's.
bool has_other_bits(const BenchTable& table, const BenchRow& row);
/// Whether every row was verified and timed, with the same bits where that is promised.
bool is_fine(const BenchReport& report);

std::string verdict_of(const BenchReport& report, const BenchTable& table, const BenchRow& row);
/// "12.3 mJ"; three significant digits.
std::string format_joules(double joules);

/// Devices and peers first, emulated devices apart: their times are those of an emulator.
std::string bench_text(const BenchReport& report, const BenchTable& table);
nlohmann::ordered_json bench_json(const BenchReport& report);
/// One line per round of each timed row, and one without a time for each that was not.
std::string bench_csv(const BenchReport& report);
/// The cells of bench_text() below its header, for one row.
std::vector<std::string> bench_cells(const BenchReport& report, const BenchTable& table, const BenchRow& row);
const std::vector<std::string>& bench_headers();

}  // namespace crucible::cli
