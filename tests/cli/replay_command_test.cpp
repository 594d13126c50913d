// `crucible replay` and `crucible plan` as a user meets them, with a recording made by hand: output, exit codes,
// messages. No Python and no torch anywhere; the plugin and its compiler are the real ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "core/trace/strip.hpp"
#include "core/trace/trace_file.hpp"
#include "core/trace/trace_samples.hpp"
#include "frontends/aten/testing/trace_builder.hpp"
#include "tests/cli/run_command.hpp"

namespace crucible {
namespace {

using aten::TraceBuilder;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

using Outcome = CommandOutcome;

/// What is wrong with the recording, on purpose.
struct Faults {
  bool frozen_rate = false;      // all iterations with the rate of the first
  bool swapped_operand = false;  // x - w where w - x was meant
  bool skipped_update = false;   // the update of w goes to a tensor of its own
  bool unknown_op = false;
};

/// loss = sum((w - x) * w), then w += -rate * (w - x), three times. The recorded numbers are those of the loop without
/// faults.
trace::Trace recording(const Faults& faults = {}) {
  constexpr const char* kSub = "aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor";
  TraceBuilder b;
  const trace::TensorId w = b.fresh({4});
  std::vector<float> weights = {1, -2, 3, 0.5f};
  for (int iteration = 0; iteration < 3; ++iteration) {
    const std::vector<float> data = {0.5f * static_cast<float>(iteration), 1, -1, 2};
    const double rate = 0.25 / (1 << iteration);
    const trace::TensorId x = b.fresh({4}), far = b.fresh({4}), product = b.fresh({4}), sum = b.fresh({});
    b.external(b.storage_of(x), data, trace::Role::kInput, "x");
    if (iteration == 0) b.external(b.storage_of(w), weights, trace::Role::kParameter, "layer.weight");
    const auto first = faults.swapped_operand ? x : w, second = faults.swapped_operand ? w : x;
    b.op(kSub, {b.tensor(first), b.tensor(second), b.integer(1)}, {b.tensor(far)});
    b.op(aten::kMul, {b.tensor(far), b.tensor(w)}, {b.tensor(product)});
    b.op(aten::kSum, {b.tensor(product), b.none()}, {b.tensor(sum)});
    if (faults.unknown_op) b.op("acme::frobnicate(Tensor self) -> Tensor", {b.tensor(sum)}, {b.tensor(b.fresh({}))});
    const trace::TensorId target = faults.skipped_update ? b.fresh({4}) : w;
    const auto alpha = b.number(faults.frozen_rate ? -0.25 : -rate);
    const char* schema = faults.skipped_update ? aten::kAdd : aten::kAddInPlace;
    b.op(schema, {b.tensor(w), b.tensor(far), alpha}, {b.tensor(target)}, trace::Phase::kOptimizer);
    double loss = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      loss += (weights[i] - data[i]) * weights[i];
      weights[i] -= static_cast<float>(rate) * (weights[i] - data[i]);
    }
    b.loss(sum, loss);
    b.end_iteration();
  }
  b.final_state(b.storage_of(w), weights, "layer.weight");
  return b.trace();
}

/// Inference without a loss: y = x * w + x, given back as "logits", in two iterations; in `wrong_iteration` the
/// recorded bytes are off by `error` in one element. Without `has_output` nothing that the iterations compute is
/// recorded.
trace::Trace inference(int wrong_iteration = -1, float error = 0, bool has_output = true) {
  TraceBuilder b;
  const trace::TensorId w = b.fresh({4});
  const std::vector<float> weights = {1, -2, 3, 0.5f};
  for (int iteration = 0; iteration < 2; ++iteration) {
    const auto shift = static_cast<float>(iteration);
    const std::vector<float> data = {shift, 1, -1, 2};
    const trace::TensorId x = b.fresh({4}), product = b.fresh({4}), y = b.fresh({4});
    b.external(b.storage_of(x), data, trace::Role::kInput, "x");
    if (iteration == 0) b.external(b.storage_of(w), weights, trace::Role::kParameter, "layer.weight");
    b.op(aten::kMul, {b.tensor(x), b.tensor(w)}, {b.tensor(product)});
    b.op(aten::kAdd, {b.tensor(product), b.tensor(x), b.integer(1)}, {b.tensor(y)});
    std::vector<float> logits;
    for (std::size_t i = 0; i < data.size(); ++i) logits.push_back(data[i] * weights[i] + data[i]);
    if (iteration == wrong_iteration) logits[2] += error;
    if (has_output) b.output(y, logits, "logits");
    b.end_iteration();
  }
  b.final_state(b.storage_of(w), weights, "layer.weight");
  return b.trace();
}

class ReplayCommand : public ::testing::Test {
 protected:
  ReplayCommand() : path_((folder_ / "a.crtrace").string()) {}

  void write(const Faults& faults = {}) {
    const Result<void> written = trace::write_file(recording(faults), path_);
    ASSERT_TRUE(written) << written.error().message;
  }

  /// Runs with an environment of its own: no HOME, no settings of whoever runs the tests.
  Outcome run(const std::string& arguments, const std::string& environment = "") {
    const std::string line = "env -i PATH=/usr/bin CRUCIBLE_STORE_DIR=" + (folder_ / "cache").string() + " " +
                             environment + " " + CRUCIBLE_COMMAND + " " + arguments;
    return run_line(line);
  }

  trace::samples::Folder folder_;
  std::string path_;
};

TEST_F(ReplayCommand, VerifiesAGoodRecording) {
  write();
  const Outcome outcome = run("replay " + path_ + " --verify");
  EXPECT_EQ(outcome.code, 0) << outcome.err << outcome.out;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("verified  yes"), HasSubstr("backend   cpu"), HasSubstr("lower bound")));
  EXPECT_EQ(outcome.err, "");
}

// A reader that does not know the mark must not take noise for a result either.
TEST_F(ReplayCommand, AStrippedCopyReplaysAndIsNeverVerified) {
  for (const trace::Trace& original : {recording(), inference()}) {
    auto made = trace::strip(original, {});
    ASSERT_TRUE(made) << made.error().message;
    ASSERT_TRUE(trace::write_file(made->trace, path_));
    for (const char* backend : {"cpu", "reference"}) {
      const Outcome plain = run("replay " + path_ + " --backend " + backend);
      EXPECT_EQ(plain.code, 0) << plain.err;
      const Outcome outcome = run("replay " + path_ + " --verify --backend " + backend);
      EXPECT_EQ(outcome.code, 1) << outcome.err;
      EXPECT_THAT(outcome.out, AllOf(HasSubstr("not verified: the recording was stripped"),
                                     Not(HasSubstr("verified  yes")), Not(HasSubstr("states    "))));
    }
    const auto document = nlohmann::json::parse(run("replay " + path_ + " --verify --json").out);
    EXPECT_EQ(document["verified"], false);
    EXPECT_EQ(document["reason"], "the recording was stripped");
    EXPECT_THAT(run("bench " + path_ + " --backends cpu --rounds 1").out,
                HasSubstr("not verified: the recording was stripped"));
    made->trace.not_recorded.clear();
    ASSERT_TRUE(trace::write_file(made->trace, path_));
    const Outcome older = run("replay " + path_ + " --verify --sensitivity 0");
    EXPECT_EQ(older.code, 1) << older.err;
    EXPECT_THAT(older.out, HasSubstr("verified  no: "));
  }
}

TEST_F(ReplayCommand, JsonHasItsKeys) {
  write();
  const std::string receipt = (folder_ / "receipt.json").string();
  const Outcome outcome = run("replay " + path_ + " --verify --json --repeat 2 --profile --receipt " + receipt);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto document = nlohmann::json::parse(outcome.out);
  for (const char* key : {"backend", "device", "iterations", "state", "verified", "time_ns_per_iteration", "peak_bytes",
                          "planned_peak_bytes", "lower_bound_bytes", "compile_ns", "cache", "receipt",
                          "ops_per_iteration", "steps", "profile"}) {
    EXPECT_TRUE(document.contains(key)) << key;
  }
  ASSERT_EQ(document["iterations"].size(), 3u);
  EXPECT_LT(document["iterations"][2]["rel_diff"], 1e-6);
  EXPECT_NEAR(document["iterations"][0]["loss"], document["iterations"][0]["loss_recorded"], 1e-5);
  EXPECT_EQ(document["verified"], true);
  EXPECT_EQ(document["state"]["tensors"], 1);
  EXPECT_EQ(document["state"]["worst"], "layer.weight");
  EXPECT_EQ(document["peak_bytes"], document["planned_peak_bytes"]);
  EXPECT_EQ(document["ops_per_iteration"], 4);
  EXPECT_EQ(document["timed_iterations"], 6);
  EXPECT_EQ(document["times_ns"].size(), 6u);
  ASSERT_EQ(document["plans"].size(), 1u);
  EXPECT_THAT(document["plans"][0]["threads"].get<std::string>(),
              HasSubstr("1 of 1: there is nothing that threads could share"));
  for (const char* key : {"threads.now", "threads.changes", "threads.stalls", "threads.stalled_ns"}) {
    EXPECT_TRUE(document["plans"][0][key].is_number()) << key;
  }
  EXPECT_EQ(document["profile"].size(), document["steps"]);
  std::ifstream file(receipt);
  const auto kept = nlohmann::json::parse(file);
  EXPECT_EQ(kept, document["receipt"]);
  EXPECT_EQ(kept["numerics"], "fast");
}

TEST_F(ReplayCommand, ProfilesBesideWhatTheDeviceCanDo) {
  write();
  const std::string traced = (folder_ / "profile.json").string();
  const Outcome outcome = run("replay " + path_ + " --json --device-profile epyc-9654 --profile-trace " + traced);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto document = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(document["device_profile"]["name"], "epyc-9654");
  EXPECT_GE(document["profile_runs"], 1);
  ASSERT_EQ(document["profile"].size(), document["steps"]);
  std::uint64_t last = ~std::uint64_t{0};
  for (const auto& step : document["profile"]) {
    for (const char* key : {"predicted_ns", "memory_ns", "compute_ns", "launch_ns", "roofline_share",
                            "flops_per_second", "bytes_per_second"}) {
      EXPECT_TRUE(step[key].is_number()) << key;
    }
    EXPECT_TRUE(step["bound"] == "memory" || step["bound"] == "compute" || step["bound"] == "launch");
    EXPECT_LE(step["time_ns"], last);  // longest first
    last = step["time_ns"];
  }
  std::ifstream file(traced);
  std::size_t measured = 0, predicted = 0;
  const auto events = nlohmann::json::parse(file);
  for (const auto& event : events["traceEvents"]) {
    if (event["ph"] != "X") continue;
    EXPECT_GE(event["dur"], 0);
    (event["tid"] == 1 ? measured : predicted) += 1;
  }
  EXPECT_EQ(measured, document["steps"]);
  EXPECT_EQ(predicted, document["steps"]);
  EXPECT_THAT(run("replay " + path_ + " --profile --device-profile epyc-9654").out,
              AllOf(HasSubstr("of the roofline (epyc-9654"), HasSubstr("bound by")));
  EXPECT_EQ(run("replay " + path_ + " --profile-trace /nowhere/there.json").code, 3);
  EXPECT_EQ(run("replay " + path_ + " --profile --device-profile nowhere.toml").code, 3);
}

TEST_F(ReplayCommand, ADeviceWithoutCountersSaysSoAndTheReplayGoesOn) {
  write();
  const Outcome text = run("replay " + path_ + " --verify --counters cycles,instructions");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("counters  none: time per op; no counters\n"), HasSubstr("verified  yes")));
  const auto document = nlohmann::json::parse(run("replay " + path_ + " --counters cycles --json").out);
  EXPECT_EQ(document["counters"]["refused"], "time per op; no counters");
  EXPECT_TRUE(document["counters"]["values"].empty());
  EXPECT_FALSE(nlohmann::json::parse(run("replay " + path_ + " --json").out).contains("counters"));
  const Outcome list = run("replay " + path_ + " --counters list");
  EXPECT_EQ(list.code, 0) << list.err;
  EXPECT_THAT(list.out, AllOf(HasSubstr("cpu:0 ("), HasSubstr(") has no counters: time per op; no counters\n"),
                              Not(HasSubstr("iteration"))));
  EXPECT_THAT(run("replay " + path_ + " --backend null --counters list").out,
              HasSubstr("has no counters: "));  // whose plugin lacks the table
  const Outcome reference = run("replay " + path_ + " --backend reference --counters cycles");
  EXPECT_EQ(reference.code, 2);
  EXPECT_THAT(reference.err, HasSubstr("--counters is about the kernels of a device"));
}

TEST_F(ReplayCommand, WithoutVerifyItSaysSo) {
  write();
  const Outcome outcome = run("replay " + path_ + " --iterations 2 --json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto document = nlohmann::json::parse(outcome.out);
  EXPECT_TRUE(document["verified"].is_null());
  EXPECT_EQ(document["iterations"].size(), 2u);
}

TEST_F(ReplayCommand, TheSecondRunComesFromTheCache) {
  write();
  EXPECT_EQ(nlohmann::json::parse(run("replay " + path_ + " --json").out)["cache"], "miss");
  EXPECT_EQ(nlohmann::json::parse(run("replay " + path_ + " --json").out)["cache"], "hit");
}

TEST_F(ReplayCommand, PoisonThreadsAndFusionChangeNoLoss) {
  write();
  const auto losses = [&](const std::string& switches, const std::string& environment) {
    const Outcome outcome = run("replay " + path_ + " --verify --json " + switches, environment);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::vector<double> found;
    const nlohmann::json document = nlohmann::json::parse(outcome.out);
    for (const auto& row : document["iterations"]) found.push_back(row["loss"]);
    return found;
  };
  const std::vector<double> plain = losses("", "");
  ASSERT_EQ(plain.size(), 3u);
  EXPECT_EQ(losses("", "CRUCIBLE_POISON=1"), plain);
  EXPECT_EQ(losses("--threads 1", ""), plain);
  EXPECT_EQ(losses("", "CRUCIBLE_THREADS=2"), plain);
  EXPECT_EQ(losses("--no-fuse", "").size(), plain.size());
}

TEST_F(ReplayCommand, AFrozenRateIsNoticed) {
  write({.frozen_rate = true});
  const Outcome outcome = run("replay " + path_ + " --verify");
  EXPECT_EQ(outcome.code, 1);
  // The first update has the right rate; the loss of iteration 2 is the first that sees a wrong one.
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("verified  no: iteration 2: "), HasSubstr("layer.weight")));
}

TEST_F(ReplayCommand, ASwappedOperandIsNoticed) {
  write({.swapped_operand = true});
  const Outcome outcome = run("replay " + path_ + " --verify --json");
  EXPECT_EQ(outcome.code, 1);
  const auto document = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(document["verified"], false);
  EXPECT_THAT(document["reason"].get<std::string>(), AllOf(HasSubstr("iteration 0: "), HasSubstr("layer.weight")));
}

TEST_F(ReplayCommand, ASkippedInPlaceUpdateIsNoticed) {
  write({.skipped_update = true});
  const Outcome outcome = run("replay " + path_ + " --verify");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("verified  no: iteration 1: "), HasSubstr("layer.weight")));
}

TEST_F(ReplayCommand, ComparesTheOutputsOfInference) {
  ASSERT_TRUE(trace::write_file(inference(), path_));
  const Outcome outcome = run("replay " + path_ + " --verify");
  EXPECT_EQ(outcome.code, 0) << outcome.err << outcome.out;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("outputs   2 compared, 2 bit-equal"), HasSubstr("verified  yes"),
                                 Not(HasSubstr("losses"))));
  const auto document = nlohmann::json::parse(run("replay " + path_ + " --verify --json").out);
  EXPECT_EQ(document["outputs"]["compared"], 2);
  EXPECT_EQ(document["outputs"]["left_out"].size(), 0u);
  EXPECT_TRUE(nlohmann::json::parse(run("replay " + path_ + " --json").out)["outputs"].is_null());
}

TEST_F(ReplayCommand, AnOutputThatDiffersIsNamedWithItsIteration) {
  ASSERT_TRUE(trace::write_file(inference(1, 0.01f), path_));
  const Outcome outcome = run("replay " + path_ + " --verify");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("outputs   differs: iteration 1, logits (f32), by 0.00251, tolerance 0.0001"),
                    HasSubstr("verified  no: iteration 1: output logits (f32) differs by 0.00251")));
  const auto document = nlohmann::json::parse(run("replay " + path_ + " --verify --json").out);
  EXPECT_EQ(document["verified"], false);
  const auto& differences = document["outputs"]["differences"];
  ASSERT_EQ(differences.size(), 1u);
  EXPECT_EQ(differences[0]["iteration"], 1);
  EXPECT_EQ(differences[0]["name"], "logits");
  EXPECT_EQ(differences[0]["within"], false);
}

TEST_F(ReplayCommand, AnOutputWithinItsToleranceIsVerified) {
  ASSERT_TRUE(trace::write_file(inference(0, 1e-5f), path_));
  const Outcome outcome = run("replay " + path_ + " --verify");
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("2 compared, 1 bit-equal, worst"), HasSubstr("logits of iteration 0")));
}

TEST_F(ReplayCommand, NothingToCompareWithIsNotVerified) {
  ASSERT_TRUE(trace::write_file(inference(-1, 0, false), path_));
  const Outcome outcome = run("replay " + path_ + " --verify");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("verified  no: the recording has no loss, no output and no changed state"));
}

TEST_F(ReplayCommand, RefusesWhatItCannotDo) {
  write();
  const Outcome many = run("replay " + path_ + " --iterations 4");
  EXPECT_EQ(many.code, 2);
  EXPECT_THAT(many.err, HasSubstr("--iterations 4: the recording has 3 complete iterations"));
  const Outcome few = run("replay " + path_ + " --iterations 2 --verify");
  EXPECT_EQ(few.code, 2);
  EXPECT_THAT(few.err, HasSubstr("leave out --iterations 2"));
  const Outcome threads = run("replay " + path_, "CRUCIBLE_THREADS=many");
  EXPECT_EQ(threads.code, 2);
  EXPECT_THAT(threads.err, HasSubstr("CRUCIBLE_THREADS is 'many'"));
}

TEST_F(ReplayCommand, RefusesBadFiles) {
  for (const char* command : {"replay ", "plan "}) {
    const Outcome missing = run(command + path_ + ".not");
    EXPECT_EQ(missing.code, 3);
    EXPECT_THAT(missing.err, HasSubstr("a.crtrace.not"));
  }
}

TEST_F(ReplayCommand, ListsOpsThatNobodyRuns) {
  write({.unknown_op = true});
  const char* const list = "1 op has no lowering:\n  acme::frobnicate: 1 per iteration, first at train.py:4";
  const Outcome forbidden = run("replay " + path_ + " --backend cpu");
  EXPECT_EQ(forbidden.code, 3);
  EXPECT_THAT(forbidden.err, AllOf(HasSubstr(list), HasSubstr("--fallback warn or allow")));
  const Outcome absent = run("replay " + path_ + " --set plugins.deny=torch");
  EXPECT_EQ(absent.code, 3);
  EXPECT_THAT(absent.err, AllOf(HasSubstr(list), HasSubstr("the plugin torch would run them")));
  const Outcome reference = run("replay " + path_ + " --backend reference");
  EXPECT_EQ(reference.code, 3);
  EXPECT_THAT(reference.err, AllOf(HasSubstr(list), HasSubstr("the reference interpreter runs neutral ops alone")));
  // They have places in memory all the same, and are shown.
  EXPECT_EQ(run("plan " + path_).code, 0);
  EXPECT_THAT(run("graph " + path_).out, HasSubstr("acme::frobnicate(operand 0), effects unknown"));
}

TEST_F(ReplayCommand, NamesAMissingPluginDeviceOrCompiler) {
  write();
  const Outcome plugin = run("replay " + path_ + " --backend nowhere");
  EXPECT_EQ(plugin.code, 4);
  EXPECT_THAT(plugin.err, HasSubstr("libcrucible_nowhere.so"));
  std::ofstream(folder_ / "libcrucible_broken.so") << "this is not a shared object";
  const Outcome broken =
      run("replay " + path_ + " --backend broken", "CRUCIBLE_PLUGIN_PATH=" + folder_.path().string());
  EXPECT_EQ(broken.code, 4);
  EXPECT_THAT(broken.err, HasSubstr("libcrucible_broken.so"));
  const Outcome device = run("replay " + path_ + " --device cpu:7");
  EXPECT_EQ(device.code, 4);
  EXPECT_THAT(device.err, HasSubstr("cpu:7"));
  const Outcome compiler = run("replay " + path_, "CRUCIBLE_CLANG=/nonexistent/clang");
  EXPECT_EQ(compiler.code, 4);
  EXPECT_THAT(compiler.err, AllOf(HasSubstr("/nonexistent/clang"), Not(HasSubstr("should not happen"))));
}

TEST_F(ReplayCommand, WorksWithoutTheLibrary) {
  write();
  const Outcome outcome = run("replay " + path_ + " --verify --json", "CRUCIBLE_LIBRARY=none");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto document = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(document["verified"], true);
  EXPECT_THAT(document["receipt"]["device"]["properties"]["library"].get<std::string>(), HasSubstr("none"));
}

TEST_F(ReplayCommand, PlanShowsBoundPeakAndWitness) {
  write();
  const std::string svg = (folder_ / "plan.svg").string();
  const Outcome outcome = run("plan " + path_ + " --json --svg " + svg);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto document = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(document["optimal"], true);
  EXPECT_EQ(document["peak_bytes"], document["lower_bound_bytes"]);
  EXPECT_EQ(document["buffers"], document["table"].size());
  EXPECT_TRUE(document["time_ns"].is_number());
  std::uint64_t alive = 0;
  for (const auto& buffer : document["witness"]) alive += (buffer["size_bytes"].get<std::uint64_t>() + 255) / 256 * 256;
  EXPECT_EQ(alive, document["lower_bound_bytes"]);
  std::ifstream file(svg);
  const std::string picture{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(picture, AllOf(HasSubstr("<svg"), HasSubstr("layer.weight"), HasSubstr("</svg>")));
  EXPECT_THAT(run("plan " + path_).out, AllOf(HasSubstr("the plan is optimal"), HasSubstr("layer.weight")));
  EXPECT_THAT(run("plan " + path_ + " --backend none").out, HasSubstr("generated kernels only"));
  EXPECT_EQ(run("plan " + path_ + " --backend nowhere").code, 4);
}

TEST_F(ReplayCommand, TheReferenceInterpreterVerifies) {
  write();
  const std::string receipt_path = (folder_ / "receipt.json").string();
  const Outcome outcome =
      run("replay " + path_ + " --backend reference --verify --json --repeat 1 --receipt " + receipt_path,
          "CRUCIBLE_CLANG=/nonexistent/clang");  // needs no compiler and no plugin
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto document = nlohmann::json::parse(outcome.out);
  const auto with_plugin = nlohmann::json::parse(run("replay " + path_ + " --verify --json").out);
  for (const auto& [key, value] : with_plugin.items()) EXPECT_TRUE(document.contains(key)) << key;
  for (const auto& [key, value] : with_plugin["receipt"].items()) EXPECT_TRUE(document["receipt"].contains(key)) << key;
  EXPECT_EQ(document["backend"], "reference");
  EXPECT_EQ(document["verified"], true);
  EXPECT_EQ(document["iterations"].size(), 3u);
  EXPECT_TRUE(document["steps"].is_null());
  EXPECT_TRUE(document["arena_bytes"].is_null());
  std::ifstream file(receipt_path);
  const auto receipt = nlohmann::json::parse(file);
  EXPECT_EQ(receipt["backend"], "reference");
  EXPECT_TRUE(receipt["plugin"].is_null());
  EXPECT_THAT(receipt["numerics"].get<std::string>(), HasSubstr("double precision"));
  const Outcome text = run("replay " + path_ + " --verify", "CRUCIBLE_BACKEND=reference");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("reference interpreter, never chosen by auto"), HasSubstr("verified  yes"),
                              Not(HasSubstr("planned peak"))));
}

TEST_F(ReplayCommand, TheReferenceInterpreterSeesFaultsToo) {
  write({.frozen_rate = true});
  const Outcome outcome = run("replay " + path_ + " --backend reference --verify");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("verified  no: iteration 2"), HasSubstr("layer.weight")));
}

TEST_F(ReplayCommand, TheReferenceInterpreterRefusesWhatItDoesNotHave) {
  write();
  const std::pair<const char*, const char*> cases[] = {
      {"replay A --backend reference --profile",
       "--profile is about the kernels of a device, and the reference interpreter is none"},
      {"replay A --backend reference --no-fuse", "--no-fuse is about the kernels of a device"},
      {"replay A --backend reference --threads 2", "--threads 2: the reference interpreter has one thread"},
      {"replay A --device reference:0", "the reference interpreter has no devices"},
      {"replay A --backend reference --device cpu:0", "is not one of backend reference"},
      {"replay A --backend reference --set backend.reference.speed=2", "plugin reference has no option 'speed'"},
      {"plan A --backend reference", "it has no plan, no kernels"},
      {"kernels A --backend reference", "it has no plan, no kernels"}};
  for (const auto& [line, words] : cases) {
    std::string arguments = line;
    arguments.replace(arguments.find(" A"), 2, " " + path_);
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << line;
    EXPECT_THAT(outcome.err, HasSubstr(words)) << line;
  }
}

TEST_F(ReplayCommand, APluginCalledReferenceIsNotTheInterpreter) {
  write();
  std::filesystem::copy_file(CRUCIBLE_CPU_PLUGIN, folder_ / "libcrucible_reference.so");
  const std::string path = "CRUCIBLE_PLUGIN_PATH=" + folder_.path().string();
  const auto named = nlohmann::json::parse(run("replay " + path_ + " --backend reference --json", path).out);
  EXPECT_TRUE(named["receipt"]["plugin"].is_null());
  const Outcome best = run("replay " + path_ + " --backend auto --json --explain", path);
  EXPECT_EQ(nlohmann::json::parse(best.out)["backend"], "cpu");
  EXPECT_THAT(best.err, HasSubstr("the name reference belongs to the interpreter"));
  EXPECT_THAT(run("plugin list", path).out,
              ContainsRegex("reference +broken .*the name reference belongs to.*: a plugin must be called otherwise"));
  const Outcome devices = run("devices --json", path);
  const auto document = nlohmann::json::parse(devices.out);
  // Plugins whose drivers are not on this machine have their problems too.
  EXPECT_TRUE(
      std::ranges::any_of(document["problems"], [](const auto& problem) { return problem["backend"] == "reference"; }));
  EXPECT_EQ(document["built_in"][0]["backend"], "reference");
  EXPECT_THAT(run("devices").out, HasSubstr("reference: reference interpreter, never chosen by auto"));
  // Without any plugin that can be used, auto finds nothing rather than the interpreter.
  const Outcome none = run("replay " + path_ + " --backend auto --set plugins.deny=cpu,opencl");
  EXPECT_EQ(none.code, 4) << none.out;
}

}  // namespace
}  // namespace crucible
