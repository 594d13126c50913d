#include "frontends/cli/bench_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/base/words.hpp"
#include "frontends/cli/command.hpp"

namespace crucible::cli {
namespace {

constexpr int kNames = 190, kBars = 560, kValues = 250, kRow = 30, kBar = 16;  // pixels

constexpr const char* kStyle =
    R"(:root { color-scheme: light dark; --text: #1d2129; --line: #c9ced8; --bar: #3a7bd5; --peer: #8d99ae; --mark: #101418; --back: #ffffff; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e7ec; --line: #3b424f; --bar: #5b9bf0; --peer: #77839a; --mark: #ffffff; --back: #14171c; } }
body { font: 14px/1.45 system-ui, sans-serif; color: var(--text); background: var(--back); margin: 2rem auto; max-width: 1100px; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2.2rem; overflow-wrap: anywhere; } h3 { font-size: 1rem; }
svg { display: block; max-width: 100%; height: auto; margin: .6rem 0; } svg text { fill: var(--text); font: 13px system-ui, sans-serif; }
.bar { fill: var(--bar); } .peer { fill: var(--peer); } .mark { stroke: var(--mark); stroke-width: 1.5; } .axis { stroke: var(--line); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; } th, td { text-align: left; padding: .25rem .7rem .25rem 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
td:last-child { white-space: normal; min-width: 14rem; } td { font-variant-numeric: tabular-nums; })";

std::string bar_of(const BenchRow& row, double scale, int top) {
  const int middle = top + kRow / 2;
  std::string text = fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", kNames - 10, middle + 5,
                                 escape_markup(row.name));
  if (row.timing.rounds.empty())
    return text + fmt::format("<text x=\"{}\" y=\"{}\">not timed</text>\n", kNames + 6, middle + 5);
  const double median = row.timing.median(), low = row.timing.quantile(0.25), high = row.timing.quantile(0.75);
  text += fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\"/>",
                      row.is_peer ? "peer" : "bar", kNames, middle - kBar / 2, median * scale, kBar);
  text += fmt::format("<line class=\"mark\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{}\"/>", kNames + low * scale,
                      kNames + high * scale, middle, middle);
  for (const double end : {low, high}) {
    text += fmt::format("<line class=\"mark\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>",
                        kNames + end * scale, middle - 5, middle + 5);
  }
  text += fmt::format("<text x=\"{:.1f}\" y=\"{}\">{}, ratio {:.3g}</text>\n",
                      kNames + std::max(median, high) * scale + 8, middle + 5, format_ns(median), row.ratio);
  return text;
}

std::string picture_of(const BenchTable& table, bool is_emulated) {
  std::vector<const BenchRow*> rows;
  double longest = 0;
  for (const BenchRow& row : table.rows) {
    if (row.is_emulated != is_emulated) continue;
    rows.push_back(&row);
    longest = std::max({longest, row.timing.median(), row.timing.quantile(0.75)});
  }
  if (rows.empty()) return "";
  const double scale = longest > 0 ? kBars / longest : 0;
  const int height = kRow * static_cast<int>(rows.size());
  std::string text =
      fmt::format("<svg viewBox=\"0 0 {0} {1}\" width=\"{0}\" role=\"img\" aria-label=\"time of an iteration\">\n",
                  kNames + kBars + kValues, height);
  for (std::size_t i = 0; i < rows.size(); ++i) text += bar_of(*rows[i], scale, kRow * static_cast<int>(i));
  return text +
         fmt::format("<line class=\"axis\" x1=\"{0}\" x2=\"{0}\" y1=\"0\" y2=\"{1}\"/>\n</svg>\n", kNames, height);
}

std::string table_of(const BenchReport& report, const BenchTable& table, bool is_emulated) {
  std::string text = "<div class=\"scroll\"><table><tr>";
  for (const std::string& header : bench_headers()) text += fmt::format("<th>{}</th>", header);
  text += "</tr>\n";
  for (const BenchRow& row : table.rows) {
    if (row.is_emulated != is_emulated) continue;
    text += "<tr>";
    for (const std::string& cell : bench_cells(report, table, row))
      text += fmt::format("<td>{}</td>", escape_markup(cell));
    text += "</tr>\n";
  }
  return text + "</table></div>\n";
}

}  // namespace

std::string bench_page(const BenchReport& report) {
  std::string text = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\">\n"
      "<title>crucible bench</title>\n<style>{}</style>\n<h1>Time of an iteration</h1>\n"
      "<p>{} rounds in turns, {} numerics. Bars: the median of the rounds; the line on each: their quartiles. Ratio: "
      "the first "
      "one's time over this one's. Grey: a peer, in a process of its own.</p>\n",
      kStyle, report.rounds, report.is_strict ? "strict" : "fast");
  for (const BenchTable& table : report.tables) {
    text += fmt::format("<h2>{}</h2>\n<p>{} iterations in a round.</p>\n", escape_markup(table.file), table.iterations);
    for (const bool emulated : {false, true}) {
      const std::string picture = picture_of(table, emulated);
      if (picture.empty()) continue;
      if (emulated) text += "<h3>Emulated: the times are an emulator's, to a scale of their own</h3>\n";
      text += picture + table_of(report, table, emulated);
    }
  }
  if (!report.energy_missing.empty())
    text += fmt::format("<p>Energy of the processors: {}.</p>\n", escape_markup(report.energy_missing));
  return text + "</html>\n";
}

}  // namespace crucible::cli
