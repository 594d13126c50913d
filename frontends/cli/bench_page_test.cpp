// The page: everything that is text stays text, and the bars are as long as the times.
#include "frontends/cli/bench_page.hpp"

#include <gtest/gtest.h>

#include <regex>

namespace crucible::cli {
namespace {

BenchRow row_of(const std::string& name, std::vector<double> rounds) {
  BenchRow row{.name = name, .device = "d"};
  row.is_verified = true;
  row.timing.rounds = std::move(rounds);
  row.ratio = 1;
  return row;
}

std::vector<double> widths_in(const std::string& page) {
  const std::regex bar("<rect class=\"[a-z]+\" x=\"[0-9]+\" y=\"[0-9]+\" width=\"([0-9.]+)\"");
  std::vector<double> widths;
  for (auto found = std::sregex_iterator(page.begin(), page.end(), bar); found != std::sregex_iterator(); ++found)
    widths.push_back(std::stod((*found)[1]));
  return widths;
}

TEST(BenchPage, BarsAreAsLongAsTheTimes) {
  BenchReport report{.rounds = 1};
  report.tables.push_back({.file = "f", .iterations = 1, .rows = {row_of("cpu", {1e6}), row_of("slow", {4e6})}});
  const std::vector<double> widths = widths_in(bench_page(report));
  ASSERT_EQ(widths.size(), 2u);
  EXPECT_NEAR(widths[1] / widths[0], 4, 0.01);
}

/// An emulator's hundredfold times would make all bars of devices invisible.
TEST(BenchPage, EmulatedDevicesHaveAScaleOfTheirOwn) {
  BenchReport report{.rounds = 1};
  BenchRow emulated = row_of("nvidia", {400e6});
  emulated.is_emulated = true;
  report.tables.push_back({.file = "f", .iterations = 1, .rows = {row_of("cpu", {1e6}), emulated}});
  const std::string page = bench_page(report);
  EXPECT_EQ(widths_in(page), (std::vector<double>{560, 560}));
  EXPECT_LT(page.find(">cpu<"), page.find("Emulated:"));
  EXPECT_GT(page.find(">nvidia<"), page.find("Emulated:"));
}

TEST(BenchPage, NamesStayText) {
  BenchReport report{.rounds = 1, .energy_missing = "<b>"};
  BenchRow row = row_of("<script>alert(1)</script>", {1});
  row.why = "a & b \"c\"";
  report.tables.push_back({.file = "</h2><script>", .iterations = 1, .rows = {row}});
  const std::string page = bench_page(report);
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find("<b>"), std::string::npos);
  EXPECT_NE(page.find("a &amp; b &quot;c&quot;"), std::string::npos);
}

TEST(BenchPage, WhoWasNotTimedHasNoBar) {
  BenchReport report{.rounds = 1};
  BenchRow gone = row_of("compile", {});
  gone.why = "no compiler";
  report.tables.push_back({.file = "f", .iterations = 1, .rows = {row_of("cpu", {1e6}), gone}});
  const std::string page = bench_page(report);
  EXPECT_EQ(widths_in(page).size(), 1u);
  EXPECT_NE(page.find("not timed"), std::string::npos);
  EXPECT_NE(page.find("no compiler"), std::string::npos);
  EXPECT_EQ(page.find("http"), std::string::npos) << "the page asks no network";
}

}  // namespace
}  // namespace crucible::cli
