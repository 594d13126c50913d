// `crucible devices --calibrate` as a user meets it: the file that it writes, who finds it, and profiles that are
// files. No time is judged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
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

/// loss = sum(x x).
trace::Trace recording() {
  TraceBuilder b;
  const auto t = [](trace::TensorId id) { return TraceBuilder::tensor(id); };
  const trace::TensorId x = b.fresh({8, 8}), square = b.fresh({8, 8}), sum = b.fresh({});
  b.external(b.storage_of(x), std::vector<float>(64, 0.5f), trace::Role::kInput, "x");
  b.op(aten::kMul, {t(x), t(x)}, {t(square)});
  b.op(aten::kSum, {t(square), TraceBuilder::none()}, {t(sum)});
  b.loss(sum, 16);
  b.end_iteration();
  return b.trace();
}

constexpr const char* kToy = R"(name = "toy"
source = "made up"
[memory]
size = { value = "1 GiB", provenance = "datasheet" }
[level.dram]
bandwidth = { value = "5 GB/s", provenance = "datasheet" }
[peak.vector]
f32 = { value = "2 TFLOP/s", provenance = "datasheet" }
[cost]
launch = { value = "250 ns", provenance = "guessed", note = "so" }
)";

class Calibrate : public ::testing::Test {
 protected:
  Calibrate() : trace_((folder_ / "a.crtrace").string()) { EXPECT_TRUE(trace::write_file(recording(), trace_)); }
  CommandOutcome run(const std::string& arguments) {
    return run_command(arguments, "HOME=" + folder_.path().string() + " XDG_CONFIG_HOME= CRUCIBLE_THREADS=2");
  }
  std::string write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }

  trace::samples::Folder folder_;
  std::string trace_;
};

TEST_F(Calibrate, WhatWasMeasuredIsNotMeasuredAgainUnlessAsked) {
  const std::string line = "devices --calibrate --backend cpu --rounds 1 --largest 1 --json";
  const auto first = nlohmann::json::parse(run(line).out);
  EXPECT_EQ(first["kept"], false);
  std::filesystem::remove(first["file"].get<std::string>());
  const auto again = nlohmann::json::parse(run(line).out);
  EXPECT_EQ(again["kept"], true);
  EXPECT_EQ(again["figures"], first["figures"]);
  EXPECT_TRUE(std::filesystem::exists(first["file"].get<std::string>()));
  EXPECT_EQ(nlohmann::json::parse(run(line + " --anew").out)["kept"], false);
  EXPECT_EQ(nlohmann::json::parse(run("devices --calibrate --backend cpu --rounds 2 --largest 1 --json").out)["kept"],
            false);
  EXPECT_THAT(run("devices --calibrate --backend cpu --rounds 1 --largest 1").out, HasSubstr("--anew measures again"));
}

TEST_F(Calibrate, WritesAProfileThatLaterCommandsFind) {
  const auto before = nlohmann::json::parse(run("replay " + trace_ + " --profile --json").out);
  EXPECT_EQ(before["device_profile"], nullptr);
  EXPECT_FALSE(before["profile"][0].contains("predicted_ns"));
  EXPECT_THAT(run("replay " + trace_ + " --profile").out, HasSubstr("crucible devices --calibrate"));

  const CommandOutcome outcome = run("devices --calibrate --backend cpu --rounds 1 --largest 1 --json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto document = nlohmann::json::parse(outcome.out);
  for (const char* key :
       {"name", "device", "backend", "driver", "date", "threads", "file", "wall_ns", "figures", "notes", "curve"}) {
    EXPECT_TRUE(document.contains(key)) << key;
  }
  EXPECT_EQ(document["backend"], "cpu");
  EXPECT_EQ(document["threads"], 2);
  for (const char* key : {"memory.size", "level.dram.bandwidth", "peak.vector.f32", "cost.launch"}) {
    EXPECT_EQ(document["figures"][key]["provenance"], "calibrated") << key;
    EXPECT_GT(document["figures"][key]["value"], 0) << key;
  }
  for (const auto& point : document["curve"]) EXPECT_GT(point["read_bytes_per_second"], 0);
  const std::string name = document["name"], file = document["file"];
  EXPECT_EQ(file, (folder_ / ".config/crucible/device_profiles" / (name + ".toml")).string());

  // The file passes the schema, by name and by path.
  for (const std::string& which : {name, file}) {
    const CommandOutcome shown = run("devices --json --profile " + which);
    ASSERT_EQ(shown.code, 0) << shown.err;
    EXPECT_EQ(nlohmann::json::parse(shown.out)["name"], name);
  }
  EXPECT_THAT(run("devices --profiles").out, HasSubstr(name));
  const auto after = nlohmann::json::parse(run("replay " + trace_ + " --profile --json").out);
  EXPECT_EQ(after["device_profile"]["name"], name);
  EXPECT_TRUE(after["profile"][0].contains("roofline_share"));
  EXPECT_EQ(nlohmann::json::parse(run("kernels " + trace_ + " --json").out)["device_profile"]["name"], name);
  // With other threads it is another device.
  EXPECT_EQ(nlohmann::json::parse(run("replay " + trace_ + " --threads 1 --profile --json").out)["device_profile"],
            nullptr);
}

TEST_F(Calibrate, WritesWhereItIsTold) {
  const std::string path = (folder_ / "deep/own.toml").string();
  const CommandOutcome outcome = run("devices --calibrate --rounds 1 --largest 1 -o " + path);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("working set"), HasSubstr("peak.vector.f32"), HasSubstr("written to " + path)));
  EXPECT_EQ(outcome.err, "");  // progress is for terminals
  EXPECT_EQ(run("kernels " + trace_ + " --device-profile " + path).code, 0);
  const CommandOutcome refused = run("devices --calibrate --rounds 1 --largest 1 -o " + path + "/inside.toml");
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("cannot write the device profile"));
}

TEST_F(Calibrate, RefusesWhatMakesNoSense) {
  EXPECT_EQ(run("devices --backend cpu").code, 2);
  EXPECT_EQ(run("devices --calibrate --profiles").code, 2);
  EXPECT_EQ(run("devices --calibrate --rounds 0").code, 2);
  EXPECT_EQ(run("devices --calibrate --backend reference").code, 2);
  EXPECT_EQ(run("devices --calibrate --backend nowhere").code, 4);
}

TEST_F(Calibrate, ProfilesMayBeFiles) {
  const std::string good = write("toy.toml", kToy), bad = write("bad.toml", std::string(kToy) + "[cots]\nlaunch = 1\n");
  EXPECT_EQ(run("plan " + trace_ + " --backend none --device-profile " + good).code, 0);
  const CommandOutcome shown = run("devices --profile " + good);
  EXPECT_THAT(shown.out,
              AllOf(HasSubstr("memory.size"), HasSubstr("1 GiB"), HasSubstr("datasheet"), HasSubstr("250 ns")));
  const CommandOutcome refused = run("plan " + trace_ + " --backend none --device-profile " + bad);
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("bad.toml:12:1: unknown key 'cots.launch'; did you mean 'cost.launch'?"));
  EXPECT_EQ(run("devices --profile missing.toml").code, 3);
  EXPECT_EQ(run("devices --profile missing").code, 2);
}

TEST_F(Calibrate, OwnProfilesTakeThePlaceOfShippedOnes) {
  std::string text = kToy;
  text.replace(text.find("toy"), 3, "l4");
  write(".config/crucible/device_profiles/l4.toml", text);
  EXPECT_EQ(nlohmann::json::parse(run("devices --profile l4 --json").out)["source"], "made up");
  write(".config/crucible/device_profiles/broken.toml", "name =\n");
  const CommandOutcome refused = run("devices --profiles");
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("broken.toml:1:"));
}

}  // namespace
}  // namespace crucible
