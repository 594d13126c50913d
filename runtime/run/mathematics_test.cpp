// Strict numerics on a device whose plugin was built with another SDK: it is told before anything is compiled.
#include "runtime/run/mathematics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "plugins/kernel_ir/math_prelude.hpp"
#include "plugins/loader/testing/kept.hpp"
#include "runtime/run/session.hpp"
#include "runtime/testing/test_programs.hpp"

namespace crucible::runtime {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::shared_ptr<backend::Device> open(const char* path, backend::Options options) {
  auto loaded = backend::Backend::load(path, options, backend::shared_store());
  EXPECT_TRUE(loaded) << loaded.error().message;
  if (!loaded) return nullptr;
  auto opened = (*loaded)->open("");
  EXPECT_TRUE(opened) << opened.error().message;
  return opened ? *opened : nullptr;
}

/// "" or why there is no session of a small program on a device that tells `math` of its mathematics ("": the truth).
/// `words` are refused there, and the CPU plugin runs them.
std::string session_on(const std::string& math, kernel::Numerics numerics, const std::string& words = "") {
  backend::Options told = {{"words", words}};
  if (!math.empty()) told["math"] = math;
  const Recording recording = record(training_step(), 1, 1);
  Options options;
  options.numerics = numerics;
  options.fallback = Fallback::kAllow;
  options.open_second = []() -> Result<std::shared_ptr<backend::Device>> { return open(CRUCIBLE_TEST_CPU_PLUGIN, {}); };
  const auto session = Session::create(std::make_shared<const graph::Program>(recording.program), recording.blobs,
                                       open(CRUCIBLE_TEST_REFUSING_PLUGIN, told), options);
  return session ? "" : session.error().message;
}

TEST(Mathematics, StrictNumericsWantTheHostsOnes) {
  EXPECT_EQ(session_on("", kernel::Numerics::kStrict), "");
  EXPECT_EQ(session_on("", kernel::Numerics::kStrict, "tanh"), "");
  EXPECT_THAT(
      session_on("0123456789abcdef", kernel::Numerics::kStrict),
      AllOf(HasSubstr("strict numerics: device refusing:0 of plugin refusing 1.0.0 computes with the mathematics "
                      "0123456789abcdef, this host with the mathematics " +
                      std::string(kernel::math_identity())),
            HasSubstr("use a plugin that was built with the SDK of this Crucible, or --numerics fast")));
  EXPECT_THAT(session_on("none", kernel::Numerics::kStrict),
              HasSubstr("computes with mathematics that it does not name (property math)"));
}

TEST(Mathematics, FastNumericsTakeAny) {
  EXPECT_EQ(session_on("0123456789abcdef", kernel::Numerics::kFast), "");
  EXPECT_EQ(session_on("none", kernel::Numerics::kFast), "");
}

}  // namespace
}  // namespace crucible::runtime
