// `crucible doctor` as a user meets it: the verdicts are those of checks that were made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/run_command.hpp"

namespace crucible {
namespace {

using testing::HasSubstr;

nlohmann::json check(const nlohmann::json& document, const std::string& name) {
  for (const auto& row : document["checks"]) {
    if (row["name"] == name) return row;
  }
  ADD_FAILURE() << "no check " << name;
  return {};
}

TEST(DoctorCommand, FindsTheCpuWell) {
  const CommandOutcome outcome = run_command("doctor --json");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const auto document = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(document["well"], true);
  EXPECT_EQ(check(document, "plugin cpu")["verdict"], "ok");
  EXPECT_THAT(check(document, "device cpu:0")["detail"].get<std::string>(), HasSubstr("tests itself, compiles"));
  for (const auto& row : document["checks"]) {
    const bool helps = row["fix"] != "";
    EXPECT_TRUE(helps || row["verdict"] != "missing") << row;
  }
}

TEST(DoctorCommand, ADeviceThatCannotCompileFails) {
  const CommandOutcome outcome =
      run_command("doctor --json", "CRUCIBLE_CLANG=/nonexistent CRUCIBLE_STORE_DIR=/nonexistent/cache");
  EXPECT_EQ(outcome.code, 1);
  const auto document = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(document["well"], false);
  EXPECT_EQ(check(document, "device cpu:0")["verdict"], "failed");
  EXPECT_THAT(check(document, "device cpu:0")["detail"].get<std::string>(), HasSubstr("clang-19"));
}

TEST(DoctorCommand, ADriverThatIsNotThereIsMissingAndNoFault) {
  const CommandOutcome outcome = run_command("doctor --json", "CRUCIBLE_CUDA_LIBRARY=/nowhere/libcuda.so.1");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const auto row = check(nlohmann::json::parse(outcome.out), "plugin nvidia");
  EXPECT_EQ(row["verdict"], "missing");
  EXPECT_THAT(row["detail"].get<std::string>(), HasSubstr("/nowhere/libcuda.so.1 cannot be loaded"));
}

TEST(DoctorCommand, ThePagesAreForPeople) {
  const CommandOutcome table = run_command("doctor"), help = run_command("doctor --help");
  EXPECT_EQ(table.code, 0);
  EXPECT_THAT(table.out, HasSubstr("check"));
  EXPECT_THAT(help.out, HasSubstr("crucible doctor --json"));
  EXPECT_EQ(run_command("doctor --nonsense").code, 2);
}

}  // namespace
}  // namespace crucible
