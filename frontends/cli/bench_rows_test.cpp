// The forms of a bench: which verdict a row has, what is apart, what is blank.
#include "frontends/cli/bench_rows.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace crucible::cli {
namespace {

BenchReport report_of_three() {
  BenchReport report{.rounds = 2, .energy_missing = "no counter"};
  BenchTable& table = report.tables.emplace_back(BenchTable{.file = "a \"b\".crtrace", .iterations = 3});
  BenchRow cpu{.name = "cpu", .device = "cpu:0 (a CPU)", .sha256 = "aa"};
  cpu.is_verified = true;
  cpu.threads = 2;
  cpu.timing.rounds = {2e6, 4e6};
  cpu.timing.joules = {0.010, 0.030};
  cpu.ratio = 1;
  cpu.predicted_ns = 1.5e6;
  BenchRow emulated{.name = "nvidia", .device = "nvidia:0 (emulated)", .sha256 = "bb"};
  emulated.is_verified = emulated.is_emulated = true;
  emulated.timing.rounds = {6e6, 6e6};
  emulated.ratio = 0.5;
  BenchRow eager{.name = "eager", .device = "cpu, torch 2.11.0", .note = "losses as recorded", .torch = "2.11.0"};
  eager.is_verified = eager.is_peer = true;
  eager.timing.rounds = {9e6, 9e6};
  eager.ratio = 1.0 / 3;
  table.rows = {cpu, emulated, eager};
  return report;
}

TEST(BenchRows, EmulatedDevicesStandApart) {
  const BenchReport report = report_of_three();
  const std::string text = bench_text(report, report.tables[0]);
  const std::size_t apart = text.find("emulated, so that the times are an emulator's:");
  ASSERT_NE(apart, std::string::npos) << text;
  EXPECT_LT(text.find("losses as recorded"), apart);
  EXPECT_GT(text.find("nvidia:0 (emulated)"), apart);
  EXPECT_NE(text.find("20 mJ"), std::string::npos) << text;
  EXPECT_NE(text.find("50 %"), std::string::npos) << text;
  EXPECT_TRUE(is_fine(report));
}

TEST(BenchRows, PeersHaveNoBitsToCompare) {
  BenchReport report = report_of_three();
  report.is_strict = true;
  EXPECT_EQ(verdict_of(report, report.tables[0], report.tables[0].rows[0]), "verified, same bits");
  EXPECT_EQ(verdict_of(report, report.tables[0], report.tables[0].rows[1]), "verified, OTHER BITS");
  report.tables[0].rows[0].undetermined = 3;
  EXPECT_EQ(verdict_of(report, report.tables[0], report.tables[0].rows[0]),
            "verified but for 3 undetermined states and losses, same bits");
  EXPECT_EQ(verdict_of(report, report.tables[0], report.tables[0].rows[2]), "losses as recorded");
  EXPECT_FALSE(is_fine(report));
  report.tables[0].rows[1].sha256 = "aa";
  EXPECT_TRUE(is_fine(report));
}

TEST(BenchRows, WhoFailedOnTheWayKeepsItsRoundsAndIsNotFine) {
  BenchReport report = report_of_three();
  report.tables[0].rows[2].why = "failed in round 2: it is gone";
  report.tables[0].rows[2].timing.rounds = {9e6};
  EXPECT_FALSE(is_fine(report));
  EXPECT_EQ(verdict_of(report, report.tables[0], report.tables[0].rows[2]), "failed in round 2: it is gone");
  EXPECT_EQ(bench_json(report)["files"][0]["rows"][2]["median_ns"], 9e6);
}

TEST(BenchRows, Json) {
  const nlohmann::ordered_json document = bench_json(report_of_three());
  EXPECT_EQ(document["energy_missing"], "no counter");
  const auto& rows = document["files"][0]["rows"];
  EXPECT_EQ(rows[0]["median_ns"], 3e6);
  EXPECT_DOUBLE_EQ(rows[0]["joules"].get<double>(), 0.020);
  EXPECT_EQ(rows[0]["threads"], 2);
  EXPECT_EQ(rows[0]["roofline_share"], 0.5);
  EXPECT_FALSE(rows[0].contains("torch"));
  EXPECT_EQ(rows[1]["joules"], nullptr);
  EXPECT_EQ(rows[1]["threads"], nullptr);
  EXPECT_EQ(rows[2]["peer"], true);
  EXPECT_EQ(rows[2]["torch"], "2.11.0");
}

TEST(BenchRows, CsvHasALinePerRound) {
  BenchReport report = report_of_three();
  report.tables[0].rows[2].timing.rounds.clear();
  report.tables[0].rows[2].why = "it \"failed\"";
  EXPECT_EQ(bench_csv(report),
            "file,backend,device,emulated,verified,reason,round,iteration_ns,joules\n"
            "\"a \"\"b\"\".crtrace\",\"cpu\",\"cpu:0 (a CPU)\",0,1,\"\",0,2000000,0.01\n"
            "\"a \"\"b\"\".crtrace\",\"cpu\",\"cpu:0 (a CPU)\",0,1,\"\",1,4000000,0.03\n"
            "\"a \"\"b\"\".crtrace\",\"nvidia\",\"nvidia:0 (emulated)\",1,1,\"\",0,6000000,\n"
            "\"a \"\"b\"\".crtrace\",\"nvidia\",\"nvidia:0 (emulated)\",1,1,\"\",1,6000000,\n"
            "\"a \"\"b\"\".crtrace\",\"eager\",\"cpu, torch 2.11.0\",0,1,\"it \"\"failed\"\"\",,,\n");
}

TEST(BenchRows, Joules) {
  EXPECT_EQ(format_joules(0.0000123), "12.3 uJ");
  EXPECT_EQ(format_joules(0.0123), "12.3 mJ");
  EXPECT_EQ(format_joules(12.34), "12.3 J");
}

}  // namespace
}  // namespace crucible::cli
