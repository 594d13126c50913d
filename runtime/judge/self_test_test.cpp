// The self-test that admits devices to strict numerics: the real CPU plugin passes, with a compiler that bends a rule
// it does not.
#include "runtime/judge/self_test.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "plugins/loader/testing/kept.hpp"

namespace crucible::runtime {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

class SelfTestTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("crucible-self-test-" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// How many are in the store.
  int admissions() const {
    int count = 0;
    EXPECT_TRUE(backend::keep_in(folder_ / "store")->list("admission to strict numerics", 99, [&](const auto&) {
      return ++count > 0;
    }));
    return count;
  }

  std::shared_ptr<backend::Device> open(const std::string& compiler = "") {
    backend::Options options{{"threads", "2"}};
    if (!compiler.empty()) options["compiler"] = compiler;
    auto loaded = backend::Backend::load(CRUCIBLE_TEST_CPU_PLUGIN, options, backend::keep_in(folder_ / "store"));
    EXPECT_TRUE(loaded) << loaded.error().message;
    if (!loaded) return nullptr;
    auto opened = (*loaded)->open("");
    EXPECT_TRUE(opened) << opened.error().message;
    return opened ? *opened : nullptr;
  }
  /// A compiler that gets other flags behind the plugin's, or another text.
  std::string bent(const std::string& flags, const std::string& edit = "") {
    const fs::path path = folder_ / "bent-clang";
    std::ofstream(path) << "#!/bin/bash\n"
                        << (edit.empty() ? ""
                                         : "for a; do case $a in *.c) sed -i '" + edit + "' \"$a\" ;; esac; done\n")
                        << "exec clang-19 \"$@\" " << flags << "\n";
    fs::permissions(path, fs::perms::owner_all);
    return path.string();
  }
  std::string failed_with(const std::string& compiler) {
    const auto test = self_test(open(compiler), Extent::kStartUp);
    EXPECT_TRUE(test) << test.error().message;
    return test ? test->failed() : "";
  }

  fs::path folder_;
};

TEST_F(SelfTestTest, TheCpuPluginPasses) {
  const auto device = open();
  for (const auto& [extent, rounds] : {std::pair(Extent::kStartUp, 1u), {Extent::kOnDemand, 16u}}) {
    const auto test = self_test(device, extent);
    ASSERT_TRUE(test) << test.error().message;
    EXPECT_EQ(test->failed(), "");
    EXPECT_EQ(test->samples, std::uint64_t{rounds} << 18);
    EXPECT_GT(test->items.size(), 40u);
  }
}

TEST_F(SelfTestTest, SeesContraction) {
  EXPECT_THAT(failed_with(bent("-ffp-contract=fast")), HasSubstr("multiply, then add"));
}

TEST_F(SelfTestTest, SeesDivisionByReciprocals) {
  EXPECT_EQ(failed_with(bent("", "s/= (\\(v[0-9]*\\) \\/ \\(v[0-9]*\\));/= \\1 * (1.0f \\/ \\2);/")), "divide");
}

TEST_F(SelfTestTest, SeesAnExponentialThatIsALittleLarger) {
  const std::string failed = failed_with(bent("", "s/= crucible_exp_f32(/= 1.0000001f * crucible_exp_f32(/"));
  EXPECT_THAT(failed, HasSubstr("exp"));
  EXPECT_THAT(failed, Not(HasSubstr("log")));
}

TEST_F(SelfTestTest, RefusesBySayingWhatDiffers) {
  const auto refused = admit_to_strict(open(bent("-ffp-contract=fast")));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(refused.error().message, HasSubstr("cannot be strict: in the self-test its results of "));
  EXPECT_EQ(admissions(), 0);
}

TEST_F(SelfTestTest, AVerdictIsKeptForThisDeviceAlone) {
  ASSERT_TRUE(admit_to_strict(open()));
  EXPECT_EQ(admissions(), 1);
  ASSERT_TRUE(admit_to_strict(open()));
  EXPECT_EQ(admissions(), 1);
  EXPECT_FALSE(admit_to_strict(open(bent("-ffp-contract=fast"))));
  ASSERT_TRUE(admit_to_strict(open(bent("-O1"))));
  EXPECT_EQ(admissions(), 2);
}

}  // namespace
}  // namespace crucible::runtime
