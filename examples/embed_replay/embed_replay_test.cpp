// The example beside the command: the same recording, the same device, the same losses.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "core/trace/trace_file.hpp"
#include "core/trace/trace_samples.hpp"
#include "frontends/aten/testing/trace_builder.hpp"

namespace crucible {
namespace {

/// loss = sum(w * x), then w += -rate * x, in three iterations.
trace::Trace recording() {
  aten::TraceBuilder b;
  const trace::TensorId w = b.fresh({4});
  std::vector<float> weights = {1, -2, 3, 0.5f};
  for (int iteration = 0; iteration < 3; ++iteration) {
    const std::vector<float> data = {0.5f * static_cast<float>(iteration), 1, -1, 2};
    const double rate = 0.25 / (1 << iteration);
    const trace::TensorId x = b.fresh({4}), product = b.fresh({4}), sum = b.fresh({});
    b.external(b.storage_of(x), data, trace::Role::kInput, "x");
    if (iteration == 0) b.external(b.storage_of(w), weights, trace::Role::kParameter, "layer.weight");
    b.op(aten::kMul, {b.tensor(w), b.tensor(x)}, {b.tensor(product)});
    b.op(aten::kSum, {b.tensor(product), b.none()}, {b.tensor(sum)});
    b.op(aten::kAddInPlace, {b.tensor(w), b.tensor(x), b.number(-rate)}, {b.tensor(w)}, trace::Phase::kOptimizer);
    double loss = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      loss += weights[i] * data[i];
      weights[i] -= static_cast<float>(rate) * data[i];
    }
    b.loss(sum, loss);
    b.end_iteration();
  }
  b.final_state(b.storage_of(w), weights, "layer.weight");
  return b.trace();
}

struct Outcome {
  int code = -1;
  std::string out;
};

Outcome run(const std::string& command) {
  Outcome outcome;
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  char buffer[4096];
  for (std::size_t size; (size = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) outcome.out.append(buffer, size);
  outcome.code = pclose(pipe);
  return outcome;
}

class EmbedReplay : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "embed-replay-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(EmbedReplay, HasTheLossesAndTheDeviceOfTheCommand) {
  const std::string file = (folder_ / "step.crtrace").string();
  ASSERT_TRUE(trace::write_file(recording(), file));
  const Outcome command = run(CRUCIBLE_COMMAND " replay " + file + " --backend auto --iterations 3 --json");
  ASSERT_EQ(command.code, 0) << command.out;
  const nlohmann::json document = nlohmann::json::parse(command.out);
  const Outcome example = run(CRUCIBLE_EXAMPLE " " + file);
  ASSERT_EQ(example.code, 0) << example.out;

  std::vector<double> losses;
  const std::regex line("iteration [0-9]+: loss ([^,]+), recorded");
  for (std::sregex_iterator at(example.out.begin(), example.out.end(), line), end; at != end; ++at)
    losses.push_back(std::stod((*at)[1]));
  ASSERT_EQ(losses.size(), 3u) << example.out;
  for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_EQ(losses[i], document["iterations"][i]["loss"].get<double>());
  EXPECT_NE(losses[0], losses[2]);
  const std::string id = document["receipt"]["device"]["id"];
  EXPECT_NE(example.out.find(" ns per iteration on " + id + "\n"), std::string::npos) << example.out;
}

TEST_F(EmbedReplay, SaysWhatIsWrong) {
  const Outcome example = run(CRUCIBLE_EXAMPLE " " + (folder_ / "nothing.crtrace").string() + " 2>&1");
  EXPECT_NE(example.code, 0);
  EXPECT_NE(example.out.find("nothing.crtrace"), std::string::npos) << example.out;
}

}  // namespace
}  // namespace crucible
