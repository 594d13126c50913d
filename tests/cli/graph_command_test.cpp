// `crucible graph` as a user meets it: stages, formats, parts of a program, and what it says to mistakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "core/base/words.hpp"
#include "core/graph/parse.hpp"
#include "core/trace/text.hpp"
#include "core/trace/trace_file.hpp"
#include "core/trace/trace_samples.hpp"
#include "frontends/aten/testing/trace_builder.hpp"
#include "tests/cli/run_command.hpp"

namespace crucible {
namespace {

using aten::TraceBuilder;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kAwkward = "a<b> & \"c\"\n;";

/// y = x * w * w in module "outer.inner", loss = sum(y) in "outer"; w += -rate * y in the optimizer.
trace::Trace recording() {
  TraceBuilder b;
  const trace::TensorId w = b.fresh({4});
  for (int iteration = 0; iteration < 2; ++iteration) {
    const trace::TensorId x = b.fresh({4}), once = b.fresh({4}), y = b.fresh({4}), sum = b.fresh({});
    b.external(b.storage_of(x), {1, 2, 3, static_cast<float>(iteration)}, trace::Role::kInput, "x");
    if (iteration == 0) b.external(b.storage_of(w), {1, 1, 1, 1}, trace::Role::kParameter, kAwkward);
    const auto t = [](trace::TensorId id) { return TraceBuilder::tensor(id); };
    b.module("outer.inner");
    b.op(aten::kMul, {t(x), t(w)}, {t(once)});
    b.op(aten::kMul, {t(once), t(w)}, {t(y)});
    b.module("outer");
    b.op(aten::kSum, {t(y), TraceBuilder::none()}, {t(sum)});
    b.loss(sum, 1);
    b.module("");
    b.op(aten::kAddInPlace, {t(w), t(y), TraceBuilder::number(-0.5 / (iteration + 1))}, {t(w)},
         trace::Phase::kOptimizer);
    b.end_iteration();
  }
  return b.trace();
}

class GraphCommand : public ::testing::Test {
 protected:
  GraphCommand() : path_((folder_ / "a.crtrace").string()) { EXPECT_TRUE(trace::write_file(recording(), path_)); }
  CommandOutcome run(const std::string& arguments) { return run_command("graph " + path_ + " " + arguments); }

  trace::samples::Folder folder_;
  std::string path_;
};

TEST_F(GraphCommand, StagesHaveTimesAndSizes) {
  const auto text = run("--stages");
  ASSERT_EQ(text.code, 0) << text.err;
  for (const char* word : {"stage", "operands", "lowered", "merge_equal", "eliminate_dead", "reading the file "})
    EXPECT_THAT(text.out, HasSubstr(word));
  const auto json = nlohmann::json::parse(run("--stages --json").out);
  EXPECT_GT(json["read_ns"], 0);
  ASSERT_GT(json["stages"].size(), 5u);
  std::uint64_t sum = json["read_ns"].get<std::uint64_t>();
  for (const auto& stage : json["stages"]) {
    EXPECT_GT(stage["ops"], 0);
    EXPECT_GT(stage["operands"], 0);
    EXPECT_EQ(stage["hash"].get<std::string>().size(), 64u);
    sum += stage["time_ns"].get<std::uint64_t>();
  }
  EXPECT_GE(json["total_ns"].get<std::uint64_t>(), sum);
  EXPECT_EQ(json["stages"][0]["stage"], "lowered");
}

TEST_F(GraphCommand, TextIsReadBack) {
  for (const char* stage : {"lowered", "number_kinds", "eliminate_dead"}) {
    const auto outcome = run(std::string("--stage ") + stage);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const auto program = graph::parse_program(outcome.out);
    ASSERT_TRUE(program) << program.error().message;
    EXPECT_EQ(graph::to_text(*program), outcome.out);
    bool named = false;
    for (const auto& value : program->values)
      named = named || value.name == printable(kAwkward);  // what a line or a terminal would obey is escaped
    EXPECT_TRUE(named) << outcome.out;
  }
  EXPECT_EQ(run("").out, run("--stage eliminate_dead").out);
}

TEST_F(GraphCommand, ProgramsAreReadInBothForms) {
  const std::string text = (folder_ / "p.txt").string(), binary = (folder_ / "p.crprogram").string(),
                    other = (folder_ / "q.crprogram").string();
  ASSERT_EQ(run("-o " + text).code, 0);
  ASSERT_EQ(run("--format binary -o " + binary).code, 0);
  const auto whole = run("");
  for (const std::string& file : {text, binary}) {
    EXPECT_EQ(run_command("graph " + file).out, whole.out);
    EXPECT_EQ(run_command("graph " + file + " --format svg").out, run("--format svg").out);
    EXPECT_EQ(run_command("graph " + file + " --format json").out, run("--format json").out);
    ASSERT_EQ(run_command("graph " + file + " --format binary -o " + other).code, 0);
    EXPECT_TRUE(trace::samples::read_bytes(other) == trace::samples::read_bytes(binary));
    const auto stages = run_command("graph " + file + " --stages");
    EXPECT_EQ(stages.code, 2);
    EXPECT_THAT(stages.err, HasSubstr("is a program, which has no stages; its recording has them"));
  }
  EXPECT_LT(std::filesystem::file_size(binary), std::filesystem::file_size(text));
}

TEST_F(GraphCommand, DamagedProgramsAreNamed) {
  const std::string binary = (folder_ / "p.crprogram").string();
  ASSERT_EQ(run("--format binary -o " + binary).code, 0);
  std::filesystem::resize_file(binary, std::filesystem::file_size(binary) - 3);
  const auto cut = run_command("graph " + binary);
  EXPECT_EQ(cut.code, 3);
  EXPECT_THAT(
      cut.err,
      HasSubstr("p.crprogram: the program cannot be read: its checksum does not fit, so it is damaged or cut off"));
}

TEST_F(GraphCommand, SvgEscapesNamesAndDrawsEveryOp) {
  const auto outcome = run("--format svg");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, testing::StartsWith("<svg "));
  EXPECT_THAT(outcome.out, testing::EndsWith("</svg>\n"));
  EXPECT_THAT(outcome.out, HasSubstr("a&lt;b&gt; &amp; \\&quot;c\\&quot;\\n;"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("a<b>")));
  for (const char* op : {">multiply<", ">reduce_sum<"}) EXPECT_THAT(outcome.out, HasSubstr(op));
  EXPECT_EQ(outcome.out, run("--format svg").out);
}

TEST_F(GraphCommand, PartsAreShownAsTextAndDrawing) {
  const auto inner = run("--module outer.inner"), outer = run("--module outer"),
             svg = run("--module outer.inner --format svg");
  EXPECT_THAT(inner.out, HasSubstr("multiply"));
  EXPECT_THAT(inner.out, Not(HasSubstr("reduce_sum")));
  EXPECT_THAT(outer.out, HasSubstr("reduce_sum"));
  EXPECT_THAT(svg.out, HasSubstr(">multiply<"));
  EXPECT_THAT(svg.out, Not(HasSubstr(">reduce_sum<")));
  EXPECT_THAT(run("--phase optimizer").out, HasSubstr("aten::add_.Tensor"));
}

/// y = softmax(x) in module "head"; loss = sum(y).
trace::Trace softmax_recording() {
  TraceBuilder b;
  const trace::TensorId x = b.fresh({2, 3}), y = b.fresh({2, 3}), sum = b.fresh({});
  b.external(b.storage_of(x), {1, 2, 3, 4, 5, 7}, trace::Role::kInput, "x");
  b.module("head");
  b.op("aten::_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
       {TraceBuilder::tensor(x), TraceBuilder::integer(-1), TraceBuilder::boolean(false)}, {TraceBuilder::tensor(y)});
  b.op(aten::kSum, {TraceBuilder::tensor(y), TraceBuilder::none()}, {TraceBuilder::tensor(sum)});
  b.loss(sum, 2);
  b.end_iteration();
  return b.trace();
}

TEST_F(GraphCommand, CompositesAreWholeAfterTheLowering) {
  const std::string path = (folder_ / "softmax.crtrace").string(), text = (folder_ / "p.txt").string();
  ASSERT_TRUE(trace::write_file(softmax_recording(), path));
  const auto whole = run_command("graph " + path + " --stage lowered");
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_THAT(whole.out, HasSubstr(" = softmax(%0[2, 3], dims=[1], body=0)"));
  EXPECT_THAT(whole.out, HasSubstr("composite 0: softmax(dims=[1])\n  | crucible program 2: 5 ops, "));
  EXPECT_THAT(run_command("graph " + path + " --stage lowered --module head").out,
              HasSubstr("= softmax(x, dims=[1])\n"));
  ASSERT_EQ(run_command("graph " + path + " --stage lowered -o " + text).code, 0);
  EXPECT_EQ(run_command("graph " + text).out, whole.out);
  const auto stages = nlohmann::json::parse(run_command("graph " + path + " --stages --json").out)["stages"];
  EXPECT_EQ(stages[1]["stage"], "expand_composites");
  EXPECT_EQ(stages[1]["ops"].get<int>(), stages[0]["ops"].get<int>() + 4);
  EXPECT_THAT(run_command("graph " + path).out, Not(HasSubstr("softmax(")));
  const auto replayed = run_command("replay " + path + " --backend reference --verify");
  EXPECT_EQ(replayed.code, 0) << replayed.err;
  EXPECT_THAT(replayed.out, HasSubstr("2 recorded ops, 1 neutral ops and 1 composites, interpreted one by one"));
}

TEST_F(GraphCommand, MistakesAreUsageErrors) {
  const auto stage = run("--stage nothing");
  EXPECT_EQ(stage.code, 2);
  EXPECT_THAT(stage.err, HasSubstr("there is no stage 'nothing'; the stages are lowered, "));
  const auto module = run("--module nowhere");
  EXPECT_EQ(module.code, 2);
  EXPECT_THAT(module.err, HasSubstr("no op came from the module 'nowhere'; the modules are outer, outer.inner"));
  const auto part = run("--module outer --format json");
  EXPECT_EQ(part.code, 2);
  EXPECT_THAT(part.err, HasSubstr("use --format text or svg"));
  EXPECT_EQ(run("--format png").code, 2);
  EXPECT_EQ(run_command("graph " + (folder_ / "missing").string()).code, 3);
}

TEST_F(GraphCommand, JsonAndDotAreWhole) {
  EXPECT_FALSE(nlohmann::json::parse(run("--format json").out)["ops"].empty());
  EXPECT_THAT(run("--format dot").out, testing::StartsWith("digraph program {"));
  EXPECT_EQ(run("--json").out, run("--format json").out);
}

TEST_F(GraphCommand, AFullDiskIsAnError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const int status =
      std::system((std::string(CRUCIBLE_COMMAND) + " graph " + path_ + " >/dev/full 2>/dev/null").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

}  // namespace
}  // namespace crucible
