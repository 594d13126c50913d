#include "frontends/cli/bench_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "frontends/cli/command.hpp"

namespace crucible::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string quoted(const std::string& text) {
  std::string cell = "\"";
  for (const char c : text) cell += c == '"' ? std::string("\"\"") : std::string(1, c);
  return cell + "\"";
}

Json row_json(const BenchReport& report, const BenchTable& table, const BenchRow& row) {
  Json json = {{"backend", row.name},
               {"peer", row.is_peer},
               {"device", row.device},
               {"emulated", row.is_emulated},
               {"verified", row.is_verified},
               {"undetermined", row.undetermined},
               {"reason", row.why},
               {"note", row.note},
               {"result_sha256", row.sha256.empty() ? Json(nullptr) : Json(row.sha256)},
               {"rounds_ns", row.timing.rounds},
               {"median_ns", nullptr},
               {"quartiles_ns", nullptr},
               {"ratio", nullptr},
               {"roofline_share", nullptr},
               {"joules", nullptr},
               {"compile_ns", row.compile_ns},
               {"arena_bytes", row.arena_bytes},
               {"threads", row.threads > 0 ? Json(row.threads) : Json(nullptr)}};
  if (row.is_peer) json["torch"] = row.torch;
  if (report.is_strict && !row.is_peer) json["same_bits"] = row.why.empty() && !has_other_bits(table, row);
  if (row.timing.rounds.empty()) return json;
  json["median_ns"] = row.timing.median();
  json["quartiles_ns"] = {row.timing.quantile(0.25), row.timing.quantile(0.75)};
  json["ratio"] = row.ratio;
  if (row.predicted_ns > 0) json["roofline_share"] = row.roofline_share();
  if (const std::optional<double> joules = row.timing.median_joules()) json["joules"] = *joules;
  return json;
}

}  // namespace

bool has_other_bits(const BenchTable& table, const BenchRow& row) {
  const auto first =
      std::ranges::find_if(table.rows, [](const BenchRow& other) { return other.why.empty() && !other.is_peer; });
  return !row.is_peer && first != table.rows.end() && row.why.empty() && row.sha256 != first->sha256;
}

bool is_fine(const BenchReport& report) {
  for (const BenchTable& table : report.tables) {
    for (const BenchRow& row : table.rows) {
      if (!row.why.empty() || (report.is_strict && has_other_bits(table, row))) return false;
    }
  }
  return true;
}

std::string verdict_of(const BenchReport& report, const BenchTable& table, const BenchRow& row) {
  if (!row.why.empty()) return row.why;
  if (row.is_peer) return row.note;
  std::string words = row.undetermined == 0
                          ? "verified"
                          : fmt::format("verified but for {} undetermined states and losses", row.undetermined);
  if (!report.is_strict) return words;
  return words + (has_other_bits(table, row) ? ", OTHER BITS" : ", same bits");
}

std::string format_joules(double joules) {
  if (joules < 1e-3) return fmt::format("{:.3g} uJ", joules * 1e6);
  return joules < 1 ? fmt::format("{:.3g} mJ", joules * 1e3) : fmt::format("{:.3g} J", joules);
}

const std::vector<std::string>& bench_headers() {
  static const std::vector<std::string> headers = {"backend", "median", "quartiles", "ratio",  "roofline",
                                                   "energy",  "arena",  "compile",   "device", "verdict"};
  return headers;
}

std::vector<std::string> bench_cells(const BenchReport& report, const BenchTable& table, const BenchRow& row) {
  const bool is_timed = !row.timing.rounds.empty();
  const auto timed = [&](std::string cell) { return is_timed ? std::move(cell) : std::string("-"); };
  const std::optional<double> joules = row.timing.median_joules();
  return {row.name,
          timed(format_ns(row.timing.median())),
          timed(fmt::format("{} .. {}", format_ns(row.timing.quantile(0.25)), format_ns(row.timing.quantile(0.75)))),
          timed(fmt::format("{:.3g}", row.ratio)),
          row.predicted_ns > 0 ? timed(fmt::format("{:.0f} %", 100 * row.roofline_share())) : "-",
          joules ? format_joules(*joules) : "-",
          row.arena_bytes > 0 ? format_bytes(row.arena_bytes) : "-",
          row.compile_ns > 0 ? format_ns(static_cast<double>(row.compile_ns)) : "-",
          row.device.empty() ? "-" : row.device,
          verdict_of(report, table, row)};
}

std::string bench_text(const BenchReport& report, const BenchTable& table) {
  std::string text = fmt::format("{}: {} iterations, {} rounds in turns{}\n", table.file, table.iterations,
                                 report.rounds, report.is_strict ? ", strict" : "");
  for (const bool emulated : {false, true}) {
    std::vector<std::vector<std::string>> rows = {bench_headers()};
    for (const BenchRow& row : table.rows) {
      if (row.is_emulated == emulated) rows.push_back(bench_cells(report, table, row));
    }
    if (rows.size() == 1) continue;
    if (emulated) text += "\nemulated, so that the times are an emulator's:\n";
    text += format_table(rows);
  }
  return text;
}

Json bench_json(const BenchReport& report) {
  Json document = {{"numerics", report.is_strict ? "strict" : "fast"},
                   {"rounds", report.rounds},
                   {"energy_missing", report.energy_missing},
                   {"files", Json::array()}};
  for (const BenchTable& table : report.tables) {
    Json rows = Json::array();
    for (const BenchRow& row : table.rows) rows.push_back(row_json(report, table, row));
    document["files"].push_back({{"file", table.file}, {"iterations", table.iterations}, {"rows", std::move(rows)}});
  }
  return document;
}

std::string bench_csv(const BenchReport& report) {
  std::string text = "file,backend,device,emulated,verified,reason,round,iteration_ns,joules\n";
  for (const BenchTable& table : report.tables) {
    for (const BenchRow& row : table.rows) {
      const std::string front =
          fmt::format("{},{},{},{},{},{}", quoted(table.file), quoted(row.name), quoted(row.device),
                      row.is_emulated ? 1 : 0, row.is_verified ? 1 : 0, quoted(row.why));
      const bool has_joules = row.timing.joules.size() == row.timing.rounds.size();
      for (std::size_t round = 0; round < row.timing.rounds.size(); ++round) {
        text += fmt::format("{},{},{:.0f},{}\n", front, round, row.timing.rounds[round],
                            has_joules ? fmt::format("{:.6g}", row.timing.joules[round]) : "");
      }
      if (row.timing.rounds.empty()) text += front + ",,,\n";
    }
  }
  return text;
}

}  // namespace crucible::cli
