// `crucible replay --log` and `crucible log` as a user meets them: what is written and shown, each way of being wrong
// and its exit code. No Python; the plugin and its compiler are the real ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <string>

#include "core/trace/trace_file.hpp"
#include "core/trace/trace_samples.hpp"
#include "frontends/aten/testing/trace_builder.hpp"
#include "frontends/runlog/testing/log_samples.hpp"
#include "tests/cli/run_command.hpp"

namespace crucible {
namespace {

using aten::TraceBuilder;
using nlohmann::json;
using runlog::testing::content_of;
using runlog::testing::lines_of;
using runlog::testing::write_text;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// loss = sum(x * w), w += -0.1 x, three times.
trace::Trace recording(float start = 1) {
  TraceBuilder b;
  const trace::TensorId w = b.fresh({4});
  std::vector<float> weights = {start, 0, 1, 0};
  for (int iteration = 0; iteration < 3; ++iteration) {
    const trace::TensorId x = b.fresh({4}), product = b.fresh({4}), sum = b.fresh({});
    const std::vector<float> data = {1, 2, 3, static_cast<float>(iteration)};
    b.external(b.storage_of(x), data, trace::Role::kInput, "x");
    if (iteration == 0) b.external(b.storage_of(w), weights, trace::Role::kParameter, "layer.weight");
    b.op(aten::kMul, {b.tensor(x), b.tensor(w)}, {b.tensor(product)});
    b.op(aten::kSum, {b.tensor(product), b.none()}, {b.tensor(sum)});
    b.op(aten::kAddInPlace, {b.tensor(w), b.tensor(x), b.number(-0.1)}, {b.tensor(w)}, trace::Phase::kOptimizer);
    double loss = 0;
    for (std::size_t i = 0; i < data.size(); ++i) {
      loss += static_cast<double>(data[i]) * weights[i];
      weights[i] -= 0.1f * data[i];
    }
    b.loss(sum, loss);
    b.end_iteration();
  }
  b.final_state(b.storage_of(w), weights, "layer.weight");
  return b.trace();
}

class LogCommand : public ::testing::Test {
 protected:
  LogCommand() {
    EXPECT_TRUE(trace::write_file(recording(), folder_ / "a.crtrace"));
    EXPECT_TRUE(trace::write_file(recording(2), folder_ / "b.crtrace"));
  }
  /// In the folder, with an environment of its own.
  CommandOutcome run(const std::string& arguments) {
    return run_line("cd " + (folder_ / "").string() + " && env -i PATH=/usr/bin:/bin CRUCIBLE_STORE_DIR=" +
                    (folder_ / "store").string() + " " + CRUCIBLE_COMMAND + " " + arguments);
  }
  void replay(const std::string& more = "--backend reference --numerics strict",
              const std::string& file = "a.crtrace") {
    const CommandOutcome outcome = run("replay " + file + " --log runs.crlog " + more);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  json document(const std::string& arguments, int code = 0) {
    const CommandOutcome outcome = run("log runs.crlog --json " + arguments);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    return json::parse(outcome.out, nullptr, false);
  }
  std::string key(const std::string& name) const { return (keys_ / name).string(); }
  std::filesystem::path log() const { return folder_ / "runs.crlog"; }

  trace::samples::Folder folder_;
  runlog::testing::KeyFolder keys_;
};

TEST_F(LogCommand, TwoStrictRunsEndInTheSameState) {
  replay();
  replay("--backend cpu --numerics strict --verify --sensitivity 0");
  const CommandOutcome table = run("log runs.crlog");
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out, AllOf(HasSubstr("a.crtrace"), HasSubstr("strict"), HasSubstr("reference"), HasSubstr("cpu:0"),
                               HasSubstr("nobody"), HasSubstr("2 runs, 10 records")));
  const json runs = document("");
  ASSERT_EQ(runs["runs"].size(), 2u);
  EXPECT_EQ(runs["runs"][0]["state_after"], runs["runs"][1]["state_after"]);
  EXPECT_NE(runs["runs"][0]["state_after"], runs["runs"][0]["state_before"]);
  EXPECT_EQ(runs["runs"][1]["ended"], "done");
  EXPECT_EQ(runs["fault"], nullptr);

  const CommandOutcome equal = run("log runs.crlog --compare");
  EXPECT_EQ(equal.code, 0) << equal.err;
  EXPECT_THAT(equal.out, HasSubstr("equal: both strict, the same program: the state after 3 iterations is equal: " +
                                   runs["runs"][0]["state_after"].get<std::string>()));
  const json compared = document("--compare");
  EXPECT_EQ(compared["equal"], true);
  EXPECT_EQ(compared["pairs"][0]["iterations_compared"], 3);
  EXPECT_EQ(run("log runs.crlog runs.crlog").code, 0);  // the last run with itself

  const std::string name = runs["runs"][1]["run"].get<std::string>().substr(0, 12);
  const CommandOutcome records = run("log runs.crlog --run " + name);
  EXPECT_THAT(records.out, AllOf(HasSubstr(runs["runs"][1]["run"].get<std::string>()), HasSubstr("plugin cpu"),
                                 HasSubstr("iteration"), HasSubstr("ended      done, verified")));
  const json lines = document("--run " + name)["runs"][0]["lines"];
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0]["kind"], "run");
  EXPECT_EQ(lines[0]["machine"]["library"].get<std::string>().size(), 64u);
  EXPECT_EQ(lines[1]["previous"], lines[0]["hash"]);
  EXPECT_EQ(lines[4]["states"][0]["name"], "layer.weight");
}

TEST_F(LogCommand, RunsThatPartAreSaidToPart) {
  replay();
  replay("--backend reference --numerics strict", "b.crtrace");
  const CommandOutcome other = run("log runs.crlog --compare");
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.out, AllOf(HasSubstr("recording  another one"), HasSubstr("program    the same"),
                               HasSubstr("start      another state"), HasSubstr("they part in iteration 0"),
                               HasSubstr("1 of 1 differ at the end:\n    layer.weight (f32, 4 elements)")));
  EXPECT_EQ(document("--compare", 1)["pairs"][0]["first_difference"]["iteration"], 0);
  EXPECT_EQ(run("replay a.crtrace --log short.crlog --backend reference --numerics strict --iterations 2").code, 0);
  const std::string first = document("")["runs"][0]["run"];
  const CommandOutcome shorter =
      run("log runs.crlog short.crlog --run " + first.substr(0, 9) + " --run " +
          json::parse(run("log short.crlog --json").out)["runs"][0]["run"].get<std::string>());
  EXPECT_EQ(shorter.code, 1);
  EXPECT_THAT(shorter.out, HasSubstr("one ran 3 iterations, the other 2; as far as both were logged they are equal"));
}

TEST_F(LogCommand, VerifyChecksChainSignatureAndRecording) {
  replay("--backend reference --numerics strict --log-key " + key("ours.pem"));
  CommandOutcome outcome = run("log runs.crlog --verify");
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("signatures were not checked: --key"), HasSubstr("runs.crlog is sound")));
  outcome = run("log runs.crlog --verify --key " + key("theirs.pem.pub") + " --key " + key("ours.pem.pub"));
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("every record is signed by a key that was given"));
  outcome = run("log runs.crlog --verify --key " + key("theirs.pem.pub"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("not good: line 1: key "), HasSubstr("none of those given"),
                                 HasSubstr("runs.crlog is not sound")));
  EXPECT_EQ(run("log runs.crlog --verify --key " + key("none.pem")).code, 3);

  outcome = run("log runs.crlog --verify --recording a.crtrace --again --backend reference");
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("again on reference: equal in every iteration that was logged\n"));
  const json again = document("--verify --recording a.crtrace --again");
  EXPECT_EQ(again["verified"], true);
  EXPECT_EQ(again["again"]["device"], "cpu:0");
  EXPECT_EQ(again["again"]["promised"], true);
  outcome = run("log runs.crlog --verify --recording b.crtrace --again");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("is of another recording"));
  EXPECT_EQ(run("log runs.crlog --verify --recording none.crtrace").code, 3);

  replay("--backend cpu --numerics fast");
  outcome = run("log runs.crlog --verify --recording a.crtrace --again");
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out,
              HasSubstr("again on cpu:0: equal in every iteration that was logged (fast numerics promise"));
  outcome = run("log runs.crlog --verify --recording a.crtrace --again --backend reference");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("add --backend cpu"));
}

/// A log that says something else than what runs: made by hand, whole in its chain.
TEST_F(LogCommand, AgainFindsTheFirstIterationThatIsNotWhatWasLogged) {
  replay();
  const auto there = runlog::read_log(log());
  ASSERT_TRUE(there);
  std::vector<runlog::Record> records;
  for (const runlog::Line& line : there->lines) records.push_back(line.record);
  std::get<runlog::IterationRecord>(records[2].content).state = runlog::testing::hash_of_text("another");
  write_text(log(), runlog::testing::chained(records));
  EXPECT_EQ(run("log runs.crlog --verify").code, 0);
  const CommandOutcome outcome = run("log runs.crlog --verify --recording a.crtrace --again --backend reference");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("again on reference: other state in iteration 1, the first that differs\n"));
  std::get<runlog::RunBegin>(records[0].content).program.hash = runlog::testing::hash_of_text("another program");
  write_text(log(), runlog::testing::chained(records));
  EXPECT_THAT(run("log runs.crlog --verify --recording a.crtrace").out,
              HasSubstr("and this version of crucible makes"));
}

TEST_F(LogCommand, WhatIsDamagedIsNamedByItsLine) {
  replay();
  const std::string text = content_of(log());
  const std::vector<std::string> lines = lines_of(text);
  ASSERT_EQ(lines.size(), 5u);
  const auto verify = [&](const std::string& changed, const char* words) {
    write_text(log(), changed);
    const CommandOutcome outcome = run("log runs.crlog --verify");
    EXPECT_EQ(outcome.code, 1) << changed.size();
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("not good: "), HasSubstr(words), HasSubstr("is not sound")));
    return outcome;
  };
  verify(lines[0] + lines[2] + lines[3] + lines[4], "line 2: it names ");
  verify(lines[0] + lines[1] + lines[3] + lines[2] + lines[4], "line 3: it names ");
  verify(text.substr(0, text.size() - 20), "line 5: it is torn");
  verify(lines[0] + lines[1], "has no end: it was killed or still runs, or lines were cut off at the end");
  std::string changed = text;
  changed[lines[0].size() + 200] ^= 1;
  verify(changed, "line 2: it was changed");
  verify(lines[0] + std::string(100000, '[') + "\n", "line 2: its JSON is nested too deep");

  const CommandOutcome shown = run("log runs.crlog");  // what stands before it is shown
  EXPECT_EQ(shown.code, 1);
  EXPECT_THAT(shown.out, HasSubstr("1 run, 1 record"));
  EXPECT_THAT(shown.err, HasSubstr("warning: runs.crlog: line 2: its JSON is nested too deep; what follows it is not"));
  const CommandOutcome compared = run("log runs.crlog runs.crlog");
  EXPECT_EQ(compared.code, 1);
  EXPECT_THAT(compared.err, HasSubstr("runs of a log that is damaged are not compared"));
  EXPECT_EQ(document("--verify", 1)["fault"]["line"], 2);
}

TEST_F(LogCommand, WhatIsNoLogIsRefused) {
  for (const char* file : {"none.crlog", "a.crtrace", ".", "/dev/null"}) {
    const CommandOutcome outcome = run(std::string("log ") + file);
    EXPECT_EQ(outcome.code, 3) << file;
    EXPECT_THAT(outcome.err, HasSubstr("crucible: error: ")) << file;
  }
  write_text(log(), "");
  EXPECT_THAT(run("log runs.crlog").out, HasSubstr("0 runs, 0 records\n"));
  EXPECT_THAT(run("log runs.crlog --verify").out, HasSubstr("there is no run in it"));
}

TEST_F(LogCommand, TheLogIsRefusedBeforeAnythingRuns) {
  const auto refused = [&](const std::string& more, int code) {
    const CommandOutcome outcome = run("replay none.crtrace --backend reference " + more);
    EXPECT_EQ(outcome.code, code) << more;
    EXPECT_THAT(outcome.err, Not(HasSubstr("none.crtrace"))) << "the recording was read first";
    return outcome.err;
  };
  EXPECT_THAT(refused("--log nowhere/a.crlog", 3), HasSubstr("create the folder first"));
  EXPECT_THAT(refused("--log a.crtrace", 3), HasSubstr("a.crtrace is no run log"));
  EXPECT_THAT(refused("--log .", 3), HasSubstr("a log is a file"));
  ASSERT_EQ(chmod(key("ours.pem").c_str(), 0640), 0);
  EXPECT_THAT(refused("--log runs.crlog --log-key " + key("ours.pem"), 3), HasSubstr("others can read it"));
  EXPECT_THAT(refused("--log-key " + key("theirs.pem"), 2), HasSubstr("--log-key requires --log"));
  EXPECT_THAT(refused("--log-every 2", 2), HasSubstr("--log-every requires --log"));
  EXPECT_EQ(run("replay none.crtrace --backend reference --log runs.crlog").code, 3);
  EXPECT_FALSE(std::filesystem::exists(log())) << "nothing was logged";
}

TEST_F(LogCommand, AFullDiskIsAnErrorAtTheEnd) {
  const CommandOutcome outcome = run_line("cd " + (folder_ / "").string() +
                                          " && ulimit -f 4 && env -i PATH=/usr/bin:/bin " CRUCIBLE_COMMAND
                                          " replay a.crtrace --backend reference --numerics strict --log runs.crlog");
  EXPECT_EQ(outcome.code, 3) << outcome.out;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("cannot write the log runs.crlog: File too large"), HasSubstr("ulimit -f")));
  EXPECT_THAT(outcome.out, HasSubstr("median of 3")) << "the run itself ended and was told";
  EXPECT_THAT(run("log runs.crlog").out, HasSubstr("no end"));
}

TEST_F(LogCommand, ARunThatFailsSaysWhy) {
  const CommandOutcome outcome =
      run("replay a.crtrace --backend reference --numerics strict --log runs.crlog --timeline nowhere/t.json");
  EXPECT_EQ(outcome.code, 3);
  const json runs = document("");
  EXPECT_EQ(runs["runs"][0]["ended"], "failed");
  EXPECT_THAT(run("log runs.crlog --run " + runs["runs"][0]["run"].get<std::string>()).out,
              HasSubstr("ended      failed: the timeline: cannot write nowhere/t.json"));
  EXPECT_EQ(run("log runs.crlog --verify").code, 0) << "the log itself is whole";
}

TEST_F(LogCommand, SwitchesThatDoNotGoTogether) {
  replay();
  const std::pair<const char*, const char*> cases[] = {
      {"--verify --compare", "leave one of them out"},
      {"--again", "add --verify"},
      {"--recording a.crtrace", "add --verify"},
      {"--key k.pem", "add --verify"},
      {"--verify --again", "add --recording FILE"},
      {"--verify --run 0", "add that"},
      {"--verify --again --recording a.crtrace --run 0 --run 1", "give one --run"},
      {"--backend cpu", "add --verify --again --recording FILE"},
      {"runs.crlog --verify --recording a.crtrace", "name one log alone"},
      {"--compare", "two runs or more are compared, and there is one"},
      {"--run zzz", "no run whose name begins with 'zzz'"},
  };
  for (const auto& [switches, words] : cases) {
    const CommandOutcome outcome = run(std::string("log runs.crlog ") + switches);
    EXPECT_EQ(outcome.code, 2) << switches;
    EXPECT_THAT(outcome.err, HasSubstr(words)) << switches;
  }
}

TEST_F(LogCommand, WhatATerminalWouldObeyIsShown) {
  runlog::RunBegin begin = runlog::testing::sample_begin();
  begin.source.file = "a\x1b[31m.crtrace";
  write_text(log(), runlog::testing::chained({{{}, begin}, {{}, runlog::testing::sample_end(0)}}));
  for (const char* more : {"", " --verify", " --compare --run 0"}) {
    const CommandOutcome outcome = run(std::string("log runs.crlog") + more);
    EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos) << more;
  }
  EXPECT_THAT(run("log runs.crlog").out, HasSubstr("a\\x1b[31m.crtrace"));
}

}  // namespace
}  // namespace crucible
