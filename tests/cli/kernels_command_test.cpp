// `crucible kernels` as a user meets it: the list of steps, the text of one, and why it is what it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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

/// Step 0: y = exp(x x), kept in the sum and in a product; step 1: z = y y^T is a contraction; step 2: loss = sum(z +
/// y).
trace::Trace recording() {
  TraceBuilder b;
  const auto t = [](trace::TensorId id) { return TraceBuilder::tensor(id); };
  const trace::TensorId x = b.fresh({8, 8}), square = b.fresh({8, 8}), y = b.fresh({8, 8}), z = b.fresh({8, 8}),
                        w = b.fresh({8, 8});
  const trace::TensorId sum = b.fresh({});
  b.external(b.storage_of(x), std::vector<float>(64, 0.5f), trace::Role::kInput, "x");
  b.module("net.body");
  b.op(aten::kMul, {t(x), t(x)}, {t(square)});
  b.op("aten::exp(Tensor self) -> Tensor", {t(square)}, {t(y)});
  b.op("aten::mm(Tensor self, Tensor mat2) -> Tensor", {t(y), t(y)}, {t(z)});
  b.op(aten::kAdd, {t(z), t(y), TraceBuilder::integer(1)}, {t(w)});
  b.op(aten::kSum, {t(w), TraceBuilder::none()}, {t(sum)});
  b.loss(sum, 1);
  b.end_iteration();
  return b.trace();
}

class KernelsCommand : public ::testing::Test {
 protected:
  KernelsCommand() : path_((folder_ / "a.crtrace").string()) { EXPECT_TRUE(trace::write_file(recording(), path_)); }
  CommandOutcome kernels(const std::string& arguments) {
    return run_command("kernels " + path_ + " --backend none " + arguments, "HOME=" + folder_.path().string());
  }

  trace::samples::Folder folder_;
  std::string path_;
};

TEST_F(KernelsCommand, ListsTheSteps) {
  const CommandOutcome outcome = kernels("--json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto document = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(document["steps"], 3);
  EXPECT_EQ(document["kernels"][0]["ops"], nlohmann::json({"multiply", "exp"}));
  EXPECT_EQ(document["kernels"][1]["ops"], nlohmann::json({"matmul"}));
  EXPECT_THAT(kernels("").out, AllOf(HasSubstr("multiply exp"), HasSubstr("5 ops in 3 steps")));
  EXPECT_THAT(kernels("--show 0").out, HasSubstr("void k_"));
}

TEST_F(KernelsCommand, SaysWhatStepsTakeAtBest) {
  const auto without = nlohmann::json::parse(kernels("--json").out);
  EXPECT_EQ(without["device_profile"], nullptr);
  EXPECT_FALSE(without["kernels"][0].contains("predicted_ns"));
  const CommandOutcome outcome = kernels("--device-profile l4 --json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto document = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(document["device_profile"]["name"], "l4");
  for (const auto& step : document["kernels"]) {
    EXPECT_GT(step["predicted_ns"], 0);
    EXPECT_EQ(step["bound"], "launch");  // of 64 numbers each
    const double memory_ns = step["memory_ns"], compute_ns = step["compute_ns"], launch_ns = step["launch_ns"],
                 predicted_ns = step["predicted_ns"];
    EXPECT_NEAR(predicted_ns, std::max(memory_ns, compute_ns) + launch_ns, 1e-6);
  }
  EXPECT_THAT(kernels("--device-profile l4").out, AllOf(HasSubstr("at best  bound by"), HasSubstr("An iteration takes"),
                                                        HasSubstr("on l4 (NVIDIA L4 datasheet)")));
  const CommandOutcome unknown = kernels("--device-profile l5");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("no device profile is called 'l5'"));
}

TEST_F(KernelsCommand, SaysWhyAStepIsWhatItIs) {
  const CommandOutcome outcome = kernels("--why 0");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("2 ops: multiply exp"), HasSubstr("fused: 1 launches and 512 B of reads and writes less"),
                    HasSubstr("step 1: "), HasSubstr("one of the two is a kernel of its own kind"),
                    HasSubstr("step 2: "), HasSubstr("a third step lies between them")));
  const auto document = nlohmann::json::parse(kernels("--why 2 --json").out);
  EXPECT_EQ(document["index"], 2);
  EXPECT_EQ(document["launches_saved"], 1);
  EXPECT_EQ(document["bytes_saved"], 512);
  ASSERT_EQ(document["apart"].size(), 2u);
  EXPECT_EQ(document["apart"][0]["step"], 0);
  EXPECT_EQ(document["apart"][1]["step"], 1);
}

TEST_F(KernelsCommand, RefusesStepsThatAreNotThere) {
  for (const char* what : {"--why 3", "--show 3"}) {
    const CommandOutcome outcome = kernels(what);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(what), HasSubstr("has steps 0 to 2")));
  }
  EXPECT_EQ(kernels("--why 0 --no-fuse").code, 2);
}

}  // namespace
}  // namespace crucible
