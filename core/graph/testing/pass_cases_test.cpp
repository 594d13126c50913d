// The cases of passes/, each file a test. After a change that is meant, this writes what the passes make now, to be
// read in the diff:
//
//     CRUCIBLE_UPDATE_TESTS=1 build/release/graph_random_test --gtest_filter='Files/PassCases.*'
#include "core/graph/testing/pass_cases.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>

namespace crucible::graph {
namespace {

using testing::HasSubstr;

std::vector<std::string> files() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(CRUCIBLE_PASS_CASES))
    names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

class PassCases : public testing::TestWithParam<std::string> {};

TEST_P(PassCases, AreAsWritten) {
  const std::filesystem::path file = std::filesystem::path(CRUCIBLE_PASS_CASES) / (GetParam() + ".program");
  auto cases = read_pass_cases(file);
  ASSERT_TRUE(cases) << cases.error().message;
  ASSERT_FALSE(cases->empty());
  const bool updates = std::getenv("CRUCIBLE_UPDATE_TESTS") != nullptr;
  for (PassCase& each : *cases) {
    SCOPED_TRACE(file.string() + ":" + std::to_string(each.line) + ": " + each.name);
    const auto after = run_pass_case(each);
    ASSERT_TRUE(after) << after.error().message;
    if (updates) each.after = *after;
    EXPECT_EQ(*after, each.after);
  }
  if (updates) std::ofstream(file, std::ios::binary) << to_text(*cases);
}

INSTANTIATE_TEST_SUITE_P(Files, PassCases, testing::ValuesIn(files()), [](const auto& file) { return file.param; });

/// A case of a file that holds this text, in a folder of this process: tests run beside each other.
Result<std::vector<PassCase>> read(const std::string& text) {
  const auto folder = std::filesystem::path(testing::TempDir()) / ("pass_cases_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "one.program") << text;
  auto cases = read_pass_cases(folder / "one.program");
  std::filesystem::remove_all(folder);
  return cases;
}

constexpr const char* kCase =
    "; one\ncase one\npasses all\nblob 0 f32 0.5, -1.0\nbefore\n"
    "crucible program 2: 1 ops, 2 values, 1 iterations\n"
    "input %0 \"x\": f32[2] (blobs [0])\n"
    "  %1: f32[2] = exp(%0[2])\n"
    "output \"y\" %1[2] (blobs [1])\n"
    "after\n";

TEST(PassCaseFiles, AreReadAndWrittenBack) {
  const auto cases = read(kCase);
  ASSERT_TRUE(cases) << cases.error().message;
  ASSERT_EQ(cases->size(), 1u);
  EXPECT_EQ((*cases)[0].stated.at(0).size(), 8u);
  EXPECT_EQ(to_text(*cases), kCase);
}

TEST(PassCaseFiles, SayWhatIsWrongAndWhere) {
  const auto changed = [](const std::string& from, const std::string& to) {
    std::string text = kCase;
    return text.replace(text.find(from), from.size(), to);
  };
  EXPECT_THAT(read(changed("passes", "pass")).error().message, HasSubstr("one.program:3: expected 'passes '"));
  EXPECT_THAT(read(changed("f32 0.5", "f33 0.5")).error().message, HasSubstr("one.program:4: this is no dtype"));
  EXPECT_THAT(read(changed("0.5", "half")).error().message, HasSubstr("one.program:4: this is no list of numbers"));
  EXPECT_THAT(read(changed("crucible", "Crucible")).error().message, HasSubstr("one.program:6: expected a program"));
  EXPECT_THAT(read("; alone\n").error().message, HasSubstr("one.program:2: a comment without a case"));
  EXPECT_THAT(read_pass_cases("no/such/file").error().message, HasSubstr("cannot read no/such/file"));
}

TEST(PassCaseFiles, AreRefusedWhereThePassOrTheProgramIsNone) {
  auto cases = read(kCase);
  ASSERT_TRUE(cases);
  PassCase each = (*cases)[0];
  each.passes = {"merge_everything"};
  EXPECT_THAT(run_pass_case(each).error().message, HasSubstr("there is no pass merge_everything"));
  each.passes = {"all"};
  each.before += "\n";
  EXPECT_THAT(run_pass_case(each).error().message, HasSubstr("the program before is not as it is printed"));
}

}  // namespace
}  // namespace crucible::graph
