// A backend picked by file, environment and switch; mistakes in the configuration; the fallback contract with a plugin
// that refuses kernels. The program is used from outside, with a recording made by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "core/trace/trace_file.hpp"
#include "core/trace/trace_samples.hpp"
#include "frontends/aten/testing/trace_builder.hpp"
#include "tests/cli/run_command.hpp"

namespace crucible {
namespace {

using aten::TraceBuilder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kTanh = "aten::tanh(Tensor self) -> Tensor";

/// loss = sum(tanh(x * w)), then w += -0.5 * tanh(x * w), twice. The sum is inside -1 .. 1, so that it is exact enough.
trace::Trace recording() {
  TraceBuilder b;
  const trace::TensorId w = b.fresh({4});
  std::vector<float> weights = {0.5f, -0.25f, 0.125f, 1};
  for (int iteration = 0; iteration < 2; ++iteration) {
    const std::vector<float> data = {0.5f, 1, -1, 0.25f * static_cast<float>(1 + iteration)};
    const trace::TensorId x = b.fresh({4}), product = b.fresh({4}), bent = b.fresh({4}), sum = b.fresh({});
    b.external(b.storage_of(x), data, trace::Role::kInput, "x");
    if (iteration == 0) b.external(b.storage_of(w), weights, trace::Role::kParameter, "layer.weight");
    b.op(aten::kMul, {b.tensor(x), b.tensor(w)}, {b.tensor(product)});
    b.op(kTanh, {b.tensor(product)}, {b.tensor(bent)});
    b.op(aten::kSum, {b.tensor(bent), b.none()}, {b.tensor(sum)});
    b.op(aten::kAddInPlace, {b.tensor(w), b.tensor(bent), b.number(-0.5)}, {b.tensor(w)}, trace::Phase::kOptimizer);
    double loss = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const float value = std::tanh(data[i] * weights[i]);
      loss += value;
      weights[i] -= 0.5f * value;
    }
    b.loss(sum, loss);
    b.end_iteration();
  }
  b.final_state(b.storage_of(w), weights, "layer.weight");
  return b.trace();
}

using Outcome = CommandOutcome;

class ConfigCommand : public ::testing::Test {
 protected:
  ConfigCommand() : trace_((folder_ / "a.crtrace").string()) {
    const Result<void> written = trace::write_file(recording(), trace_);
    EXPECT_TRUE(written) << written.error().message;
    std::filesystem::create_directories(folder_ / "work");
  }

  /// Runs in the folder "work", with an environment of its own; the refusing plugin is among the plugins.
  Outcome run(const std::string& arguments, const std::string& environment = "") {
    const std::string line =
        "cd " + (folder_ / "work").string() + " && env -i PATH=/usr/bin HOME=" + folder_.path().string() +
        " CRUCIBLE_STORE_DIR=" + (folder_ / "cache").string() + " CRUCIBLE_PLUGIN_PATH=" + CRUCIBLE_REFUSING_FOLDER +
        " " + environment + " " + CRUCIBLE_COMMAND + " " + arguments;
    return run_line(line);
  }

  nlohmann::json replay(const std::string& switches, const std::string& environment = "") {
    const Outcome outcome = run("replay " + trace_ + " --verify --json " + switches, environment);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? nlohmann::json::parse(outcome.out) : nlohmann::json();
  }

  void write(const std::string& text) { std::ofstream(folder_ / "work/crucible.toml") << text; }

  /// In the user's own file, which may name what a folder's may not.
  void write_own(const std::string& text) {
    std::filesystem::create_directories(folder_ / ".config/crucible");
    std::ofstream(folder_ / ".config/crucible/crucible.toml") << text;
  }

  trace::samples::Folder folder_;
  std::string trace_;
};

TEST_F(ConfigCommand, FileEnvironmentAndSwitchPickTheBackend) {
  EXPECT_EQ(replay("")["backend"], "cpu");
  write("backend = \"refusing\"\n");
  EXPECT_EQ(replay("")["backend"], "refusing");
  EXPECT_EQ(replay("", "CRUCIBLE_BACKEND=cpu")["backend"], "cpu");
  EXPECT_EQ(replay("--backend refusing", "CRUCIBLE_BACKEND=cpu")["backend"], "refusing");
  EXPECT_EQ(replay("--set backend=refusing", "CRUCIBLE_BACKEND=cpu")["backend"], "refusing");
}

TEST_F(ConfigCommand, ExplainSaysWhereEachValueIsFromAndWhatItOverrode) {
  write("numerics = \"fast\"\n\n[backend]\nname = \"refusing\"\n[backend.refusing]\nthreads = 1\n");
  const Outcome outcome = run("config --explain", "CRUCIBLE_BACKEND=cpu");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("environment, CRUCIBLE_BACKEND"), HasSubstr("crucible.toml:4:1"),
                                 HasSubstr("cpu (built-in)")));
  const auto document =
      nlohmann::json::parse(run("config --json --set plugins.probe=false", "CRUCIBLE_BACKEND=cpu").out);
  bool found = false;
  for (const auto& row : document["values"]) {
    if (row["key"] == "plugins.probe") {
      EXPECT_EQ(row["value"], false);
    }
    if (row["key"] != "backend") continue;
    found = true;
    EXPECT_EQ(row["value"], "cpu");
    EXPECT_EQ(row["origin"]["layer"], "environment");
    EXPECT_EQ(row["overridden"][0]["value"], "refusing");
    EXPECT_EQ(row["overridden"][0]["origin"]["line"], 4);
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(document["files"].size(), 1u);
}

TEST_F(ConfigCommand, MistakesInAFileAreBadInput) {
  write("bakend = \"cpu\"\n[plugins]\ntrust = \"of\"\n");
  for (const std::string& command :
       {"replay " + trace_, std::string("config"), std::string("devices"), "plan " + trace_}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 3) << command;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("crucible.toml:1:1: unknown key 'bakend'; did you mean 'backend'?"),
                                   HasSubstr("crucible.toml:3:1: plugins.trust is 'of'")));
  }
  EXPECT_THAT(run("config").out, HasSubstr("numerics"));  // shown as far as it goes
  write("backend = \n");
  EXPECT_THAT(run("config").err, HasSubstr("crucible.toml:1:"));
}

TEST_F(ConfigCommand, AMistypedOptionOfAPluginIsSuggested) {
  write("[backend.refusing]\nthread = 2\n");
  const Outcome file = run("replay " + trace_ + " --backend refusing");
  EXPECT_EQ(file.code, 3);
  EXPECT_THAT(file.err,
              HasSubstr("crucible.toml:2:1: plugin refusing has no option 'thread'; did you mean 'threads'?"));
  EXPECT_EQ(replay("--backend cpu")["backend"], "cpu");  // options of a plugin that is not used do not matter
  write("");
  const Outcome set = run("replay " + trace_ + " --set backend.cpu.threads=many");
  EXPECT_EQ(set.code, 2);
  EXPECT_THAT(set.err, HasSubstr("threads is 'many': it must be an integer"));
}

TEST_F(ConfigCommand, ForbidEndsWithTheOp) {
  const Outcome outcome = run("replay " + trace_ + " --no-fuse --backend refusing --set backend.refusing.words=tanh");
  EXPECT_EQ(outcome.code, 4);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("device refusing:0 refuses 1 of"), HasSubstr("tanh at train.py:"),
                                 HasSubstr("--fallback allow")));
}

TEST_F(ConfigCommand, AllowRunsTheOpOnTheCpuPluginAndTheReceiptListsIt) {
  const auto alone = replay("--no-fuse");
  for (const char* silent : {"true", "false"}) {
    for (const char* policy : {"allow", "warn"}) {
      const std::string receipt_path = (folder_ / "receipt.json").string();
      const Outcome outcome =
          run("replay " + trace_ +
                  " --no-fuse --verify --json --backend refusing --set backend.refusing.words=tanh --fallback " +
                  policy + " --set backend.refusing.silent=" + silent + " --receipt " + receipt_path,
              "CRUCIBLE_POISON=1");
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      EXPECT_EQ(std::string(policy) == "warn",
                outcome.err.find("warning: tanh (1 steps, first at train.py:") != std::string::npos)
          << outcome.err;
      const auto document = nlohmann::json::parse(outcome.out);
      EXPECT_EQ(document["verified"], true);
      for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(document["iterations"][i]["loss"], alone["iterations"][i]["loss"]);
      std::ifstream file(receipt_path);
      const auto receipt = nlohmann::json::parse(file);
      const auto& fallback = receipt["fallback"];
      EXPECT_EQ(fallback["policy"], policy);
      EXPECT_EQ(fallback["device"], "cpu:0");
      ASSERT_EQ(fallback["steps"].size(), 1u);
      EXPECT_EQ(fallback["steps"][0]["ops"], "tanh");
      EXPECT_THAT(fallback["steps"][0]["source"].get<std::string>(), HasSubstr("train.py:"));
      EXPECT_EQ(fallback["copies_per_iteration"], 2);  // the product there, its tanh back
      EXPECT_EQ(fallback["copied_bytes_per_iteration"], 32);
    }
  }
}

TEST_F(ConfigCommand, AWholeBackendMayBeReplaced) {
  const std::string absent = "--backend refusing --set backend.refusing.absent=true";
  const Outcome forbidden = run("replay " + trace_ + " " + absent);
  EXPECT_EQ(forbidden.code, 4);
  EXPECT_THAT(forbidden.err, HasSubstr("the device is absent"));
  const Outcome unknown = run("replay " + trace_ + " --backend nowhere --fallback warn --verify");
  EXPECT_EQ(unknown.code, 0) << unknown.err;
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("warning: backend nowhere cannot be used, the CPU plugin takes its place"),
                                 HasSubstr("libcrucible_nowhere.so")));
  EXPECT_THAT(unknown.out, AllOf(HasSubstr("instead   of nowhere"), HasSubstr("verified  yes")));
  const auto document = replay(absent + " --fallback allow");
  EXPECT_EQ(document["backend"], "cpu");
  EXPECT_EQ(document["receipt"]["fallback"]["instead_of"]["backend"], "refusing");
  EXPECT_THAT(document["receipt"]["fallback"]["instead_of"]["reason"].get<std::string>(),
              HasSubstr("the device is absent"));
}

TEST_F(ConfigCommand, DevicesHaveThreeAddresses) {
  for (const char* address : {"refusing:0", "uuid:0A1B2C3D-0000-1111-2222-333344445555", "pci:0000:65:00.0"}) {
    EXPECT_EQ(replay(std::string("--device ") + address)["backend"], "refusing") << address;
  }
  EXPECT_EQ(replay("--backend refusing --device uuid:0a1b2c3d-0000-1111-2222-333344445555")["backend"], "refusing");
  const Outcome other = run("replay " + trace_ + " --backend refusing --device pci:0000:66:00.0");
  EXPECT_EQ(other.code, 4);
  EXPECT_THAT(other.err,
              HasSubstr("refusing has no device with pci address 0000:66:00.0: it has refusing:0 0000:65:00.0"));
  const Outcome none = run("replay " + trace_ + " --device refusing:1");
  EXPECT_EQ(none.code, 4);
  EXPECT_THAT(none.err, HasSubstr("refusing:1"));
  const Outcome contradiction = run("replay " + trace_ + " --backend cpu --device refusing:0");
  EXPECT_EQ(contradiction.code, 2);
  EXPECT_THAT(contradiction.err, HasSubstr("device refusing:0 (--device) is not one of backend cpu (--backend)"));
  write("device = \"refusing:0\"\n");
  EXPECT_EQ(replay("")["backend"], "refusing");
  const Outcome weaker = run("replay " + trace_ + " --backend cpu");
  EXPECT_EQ(weaker.code, 0);
  EXPECT_THAT(weaker.err, HasSubstr("the first device of cpu is used"));
}

TEST_F(ConfigCommand, AutoChoosesByScoreAndSaysWhy) {
  const auto chosen = [&](const std::string& switches) {
    const Outcome outcome = run("replay " + trace_ + " --json --backend auto --explain " + switches);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("verdict"));
    const auto document = nlohmann::json::parse(outcome.out);
    EXPECT_GE(document["receipt"]["candidates"].size(), 2u);
    return document["backend"].get<std::string>();
  };
  EXPECT_EQ(chosen("--set backend.refusing.score=1000000000000000"), "refusing");
  EXPECT_EQ(chosen("--set backend.refusing.score=1"), "cpu");
  EXPECT_EQ(chosen("--set backend.refusing.score=0"), "cpu");
  const Outcome emulated = run(
      "replay " + trace_ +
      " --backend auto --explain --set backend.refusing.score=1000000000000000 --set backend.refusing.emulated=true");
  EXPECT_EQ(emulated.code, 0);
  EXPECT_THAT(emulated.err, HasSubstr("emulated: only used when it is named"));
  EXPECT_THAT(emulated.out, HasSubstr("backend   cpu"));
  const Outcome small =
      run("replay " + trace_ +
          " --backend auto --explain --set backend.refusing.score=1000000000000000 --set backend.refusing.memory=256");
  EXPECT_THAT(small.err, HasSubstr("too small: the plan needs"));
  EXPECT_THAT(small.out, HasSubstr("backend   cpu"));
}

TEST_F(ConfigCommand, AutoSkipsWhatDoesNotOpen) {
  const Outcome outcome =
      run("replay " + trace_ +
          " --backend auto --explain --set backend.refusing.score=1000000000000000 --set backend.refusing.absent=true");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("the device is absent"));
  EXPECT_THAT(outcome.out, HasSubstr("backend   cpu"));
}

TEST_F(ConfigCommand, TheReceiptNamesWhatRan) {
  const auto receipt = replay("--set plugins.trust=off")["receipt"];
  EXPECT_EQ(receipt["plugin"]["name"], "cpu");
  EXPECT_EQ(receipt["plugin"]["sha256"].get<std::string>().size(), 64u);
  EXPECT_EQ(receipt["device"]["id"], "cpu:0");
  EXPECT_EQ(receipt["device"]["emulated"], false);
  EXPECT_TRUE(receipt["device"].contains("driver"));
  EXPECT_EQ(receipt["config"]["plugins.trust"]["value"], "off");
  EXPECT_EQ(receipt["config"]["plugins.trust"]["from"], "command line, --set plugins.trust");
  EXPECT_THAT(receipt["time"].get<std::string>(), HasSubstr("clock"));
  EXPECT_TRUE(receipt["cache"].contains("from_cache"));
  EXPECT_EQ(receipt["fallback"]["steps"].size(), 0u);
}

TEST_F(ConfigCommand, AFileThatEverybodyCanWriteIsToldOrRefused) {
  std::filesystem::create_directories(folder_ / ".config/crucible");
  const std::string path = (folder_ / ".config/crucible/crucible.toml").string();
  std::ofstream(path) << "numerics = \"fast\"\n";
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  const Outcome warned = run("replay " + trace_);
  EXPECT_EQ(warned.code, 0);
  EXPECT_THAT(warned.err, HasSubstr("warning: " + path + ": everybody can write it"));
  const Outcome refused = run("replay " + trace_, "CRUCIBLE_TRUST=enforce");
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr(path + ": refused"));
  EXPECT_THAT(run("replay " + trace_, "CRUCIBLE_TRUST=off").err, Not(HasSubstr("everybody")));
}

TEST_F(ConfigCommand, TheLoaderObeysTheConfiguration) {
  write_own("[plugins]\ndeny = [\"refusing\"]\ndecisions = \"decided.jsonl\"\n");
  const Outcome denied = run("replay " + trace_ + " --backend refusing");
  EXPECT_EQ(denied.code, 4);
  EXPECT_THAT(denied.err, HasSubstr("deny"));
  std::ifstream file(folder_ / ".config/crucible/decided.jsonl");
  std::string line;
  bool refused = false;
  while (std::getline(file, line)) {
    const auto decision = nlohmann::json::parse(line);
    refused = refused ||
              (decision["step"] == "lists" && decision["outcome"] == "refused" && decision["plugin"] == "refusing");
  }
  EXPECT_TRUE(refused);
  const Outcome replaced = run("replay " + trace_ + " --backend refusing --fallback allow --verify");
  EXPECT_EQ(replaced.code, 0) << replaced.err;
  EXPECT_THAT(replaced.err, HasSubstr("note: backend refusing cannot be used"));
  write_own("plugins.folders = [\"" + std::string(CRUCIBLE_REFUSING_FOLDER) + "\"]\n");
  EXPECT_EQ(replay("--backend refusing", "CRUCIBLE_PLUGIN_PATH=")["backend"], "refusing");
  write_own("plugins.pins.refusing = \"" + std::string(64, '0') + "\"\n");
  EXPECT_EQ(run("replay " + trace_ + " --backend refusing").code, 4);
}

TEST_F(ConfigCommand, ThreadsGoToWhoeverRuns) {
  const auto named = replay("--backend refusing --threads 1");
  EXPECT_EQ(named["receipt"]["config"]["backend.refusing.threads"]["from"], "command line, --threads");
  const auto replaced = replay("--backend nowhere --fallback allow --threads 1");
  EXPECT_EQ(replaced["receipt"]["device"]["properties"]["threads"], "1");
  const auto chosen = replay("--backend auto --threads 1");
  EXPECT_EQ(chosen["receipt"]["device"]["properties"]["threads"], "1");
  // A plugin whose threads nobody can set is passed over: it would run with others than were asked for.
  const Outcome told = run("replay " + trace_ + " --backend auto --threads 1 --explain");
  EXPECT_THAT(told.err, HasSubstr("--threads 1: it has no option 'threads'"));
}

TEST_F(ConfigCommand, DevicesShowTheirMarks) {
  const auto document = nlohmann::json::parse(run("devices --json", "CRUCIBLE_TRUST=off").out);
  bool found = false;
  for (const auto& device : document["devices"]) {
    if (device["backend"] != "refusing") continue;
    found = true;
    EXPECT_EQ(device["pci"], "0000:65:00.0");
    EXPECT_EQ(device["emulated"], false);
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace crucible
