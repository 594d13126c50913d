// `crucible health` as a user meets it, on emulated drivers: verdicts, exit codes, the three forms, watching until a
// signal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>

#include <nlohmann/json.hpp>

#include "tests/cli/run_command.hpp"

namespace crucible {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kFolder = CRUCIBLE_EMULATORS;

std::string of_nvidia() {
  const std::string folder = std::string(kFolder) + "/nvidia/";
  return "health --backend nvidia --set backend.nvidia.library=" + folder +
         "libcuda.so.1 --set backend.nvidia.nvml=" + folder + "libnvidia-ml.so.1 ";
}

std::string of_amd() {
  const std::string folder = std::string(kFolder) + "/amd/";
  return "health --backend amd --set backend.amd.library=" + folder +
         "libamdhip64.so.6 --set backend.amd.smi=" + folder + "librocm_smi64.so.7 ";
}

std::string faults(const std::string& rules) { return "CRUCIBLE_EMU_FAULTS='" + rules + "'"; }

class HealthCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(std::string(kFolder) + "/nvidia/libnvidia-ml.so.1"))
      GTEST_SKIP() << "no emulated NVIDIA driver was built";
  }
};

nlohmann::json device_of(const CommandOutcome& outcome, std::size_t index = 0) {
  return nlohmann::json::parse(outcome.out)["devices"][index];
}

TEST_F(HealthCommand, AGoodDeviceIsARowAndExitCodeZero) {
  const CommandOutcome outcome = run_command(of_nvidia());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("nvidia:0"), HasSubstr("emulated, not a GPU"), HasSubstr("good"), HasSubstr("61 C"),
                    HasSubstr("350 / 700 W"), HasSubstr("1800 MHz"), HasSubstr("4.00 GiB")));
}

TEST_F(HealthCommand, JsonHasEveryValue) {
  const CommandOutcome outcome = run_command(of_nvidia() + "--json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto device = device_of(outcome);
  EXPECT_EQ(device["verdict"], "good");
  EXPECT_EQ(device["emulated"], true);
  for (const char* key : {"temperature_celsius", "temperature_slowdown_celsius", "temperature_shutdown_celsius",
                          "power_milliwatt", "power_limit_milliwatt", "energy_microjoule", "clock_hz", "clock_max_hz",
                          "clock_memory_hz", "memory_used_bytes", "memory_total_bytes", "ecc_errors", "ecc_corrected",
                          "ecc_errors_lifetime", "remapped_rows", "repair_pending", "device_errors", "processes"}) {
    EXPECT_TRUE(device["values"].contains(key)) << key;
  }
  EXPECT_EQ(device["texts"]["clock_limit"], "idle");
  EXPECT_EQ(device["not_measured"].size(), 0u) << device["not_measured"];
}

TEST_F(HealthCommand, ASickDeviceIsExitCodeOneWithReasonAndNextStep) {
  const CommandOutcome hot = run_command(of_nvidia(), faults("hot:celsius=95@query"));
  EXPECT_EQ(hot.code, 1);
  EXPECT_THAT(hot.out, AllOf(HasSubstr("sick"),
                             HasSubstr("95 C, 94 C is too hot, and the device slows down at 92 C; pause the job"),
                             HasSubstr("nvidia:0 warn: the device slows itself down: too hot (software)")));
  const CommandOutcome warm = run_command(of_nvidia(), "CRUCIBLE_EMU_CELSIUS=88");
  EXPECT_EQ(warm.code, 0) << "a warning fails nothing";
  EXPECT_THAT(warm.out, HasSubstr("nvidia:0 warn: 88 C"));
  EXPECT_EQ(device_of(run_command(of_nvidia() + "--json", faults("ecc:count=2@query")))["values"]["ecc_errors"], 2);
  const CommandOutcome xid = run_command(of_nvidia(), faults("xid:number=79@query#1"));
  EXPECT_EQ(xid.code, 1);
  EXPECT_THAT(xid.out, HasSubstr("Xid 79 (fallen off the bus)"));
  const CommandOutcome program = run_command(of_nvidia(), faults("xid:number=31@query#1"));
  EXPECT_EQ(program.code, 0);
  EXPECT_THAT(program.out,
              HasSubstr("warn: the driver blames 1 errors on a program (Xid 31 (page fault of a kernel))"));
}

TEST_F(HealthCommand, OneSickDeviceOfTwoIsEnough) {
  const std::string two = "CRUCIBLE_EMU_DEVICES=2 " + faults("ecc@query(nvmlDeviceGetTotalEccErrors)#5+");
  const CommandOutcome outcome = run_command(of_nvidia() + "--json", two);
  EXPECT_EQ(outcome.code, 1);
  ASSERT_EQ(nlohmann::json::parse(outcome.out)["devices"].size(), 2u);
  const CommandOutcome one = run_command(of_nvidia() + "--device nvidia:1 --json", "CRUCIBLE_EMU_DEVICES=2");
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(nlohmann::json::parse(one.out)["devices"].size(), 1u);
  EXPECT_EQ(device_of(one)["id"], "nvidia:1");
}

TEST_F(HealthCommand, WhatIsNotPermittedOrMissingIsAbsentWithItsReason) {
  const CommandOutcome outcome = run_command(
      of_nvidia() + "--json", faults("deny@query(nvmlDeviceGetTotalEnergyConsumption); missing@query(*Ecc*);"
                                     "fail@query(nvmlDeviceGetPowerUsage); hot:celsius=5000@query(*Temperature)"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto device = device_of(outcome);
  EXPECT_THAT(device["not_measured"]["energy_microjoule"].get<std::string>(),
              HasSubstr("nvmlDeviceGetTotalEnergyConsumption is not permitted: ask as root"));
  EXPECT_EQ(device["not_measured"]["ecc_errors"], "the device does not tell it");
  EXPECT_EQ(device["not_measured"]["power_milliwatt"], "nvmlDeviceGetPowerUsage: NVML error 999");
  EXPECT_EQ(device["not_measured"]["temperature_celsius"], "the driver told 5000, which cannot be");
  EXPECT_FALSE(device["values"].contains("energy_microjoule"));
  EXPECT_EQ(device["verdict"], "good") << "what is absent is no complaint";
}

TEST_F(HealthCommand, ALostDeviceIsSick) {
  const CommandOutcome outcome = run_command(of_nvidia() + "--json", faults("lost@query(nvml*)"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(device_of(outcome)["state"], "lost");
  EXPECT_EQ(device_of(outcome)["verdict"], "sick");
}

TEST_F(HealthCommand, WithoutTheLibraryTheVerdictIsUnknownAndSaysWhatToInstall) {
  const CommandOutcome outcome = run_command(of_nvidia() + "--set backend.nvidia.nvml=/nowhere/libnvidia-ml.so.1");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("unknown"),
                    HasSubstr("nvidia:0: health is not measured: NVML /nowhere/libnvidia-ml.so.1 cannot be loaded"),
                    HasSubstr("Debian: libnvidia-ml1")));
}

TEST_F(HealthCommand, OfAmdOnItsEmulatedLibrary) {
  const CommandOutcome good = run_command(of_amd() + "--json");
  ASSERT_EQ(good.code, 0) << good.err;
  EXPECT_EQ(device_of(good)["verdict"], "good");
  EXPECT_EQ(device_of(good)["values"]["clock_hz"], 1'800'000'000u);
  EXPECT_EQ(device_of(good)["values"]["power_milliwatt"], 350'000);
  const CommandOutcome sick = run_command(of_amd(), faults("ecc:count=1@query; hot@query"));
  EXPECT_EQ(sick.code, 1);
  EXPECT_THAT(sick.out,
              AllOf(HasSubstr("amd:0 sick: 1 errors of the memory"), HasSubstr("slows itself down: too hot")));
}

TEST_F(HealthCommand, PrometheusGoesToAFileThatIsComplete) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("crucible-health-" + std::to_string(getpid()) + ".prom");
  const CommandOutcome outcome = run_command(of_nvidia() + "--prometheus -o " + file.string());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  std::ifstream stream(file);
  const std::string text((std::istreambuf_iterator<char>(stream)), {});
  EXPECT_THAT(text, AllOf(HasSubstr("# TYPE crucible_device_energy_joules_total counter\n"),
                          HasSubstr("crucible_device_temperature_celsius{backend=\"nvidia\",device=\"nvidia:0\",name="
                                    "\"NVIDIA sm_90 (emulated, not a GPU)\","
                                    "emulated=\"true\"} 61\n")));
  std::filesystem::remove(file);
}

TEST_F(HealthCommand, WrongUseIsRefused) {
  EXPECT_EQ(run_command(of_nvidia() + "--prometheus --json").code, 2);
  EXPECT_EQ(run_command(of_nvidia() + "--watch 0").code, 2);
  const CommandOutcome no_file = run_command(of_nvidia() + "--prometheus --watch 1");
  EXPECT_EQ(no_file.code, 2);
  EXPECT_THAT(no_file.err, HasSubstr("--prometheus with --watch needs -o FILE"));
  const CommandOutcome no_device = run_command(of_nvidia() + "--device nvidia:7");
  EXPECT_EQ(no_device.code, 4);
  EXPECT_THAT(no_device.err, HasSubstr("there is no device 'nvidia:7', only nvidia:0"));
  EXPECT_EQ(run_command("health --backend nobody").code, 4);
}

TEST_F(HealthCommand, AllPluginsAreAskedAndOneThatCannotIsALine) {
  const CommandOutcome outcome = run_command("health --set backend.nvidia.library=/nowhere/libcuda.so.1");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("cpu"), HasSubstr("nvidia cannot be asked: "), HasSubstr("/nowhere/libcuda.so.1")));
}

/// The command while it runs: its lines, one by one.
class Running {
 public:
  Running(const std::string& arguments, const std::string& environment) {
    int ends[2] = {};
    if (pipe(ends) != 0) return;
    process_ = fork();
    if (process_ == 0) {
      dup2(ends[1], 1);
      close(ends[0]);
      const std::string command = environment + " exec " CRUCIBLE_COMMAND " " + arguments;
      execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
      _exit(127);
    }
    close(ends[1]);
    stream_ = fdopen(ends[0], "r");
  }
  ~Running() {
    if (stream_ != nullptr) fclose(stream_);
  }
  std::string line() {
    char* text = nullptr;
    std::size_t size = 0;
    const ssize_t got = getline(&text, &size, stream_);
    std::string result = got > 0 ? std::string(text, static_cast<std::size_t>(got)) : "";
    free(text);
    return result;
  }
  /// What it returned after that signal; 128 + N when a signal ended it.
  int end(int signal) {
    kill(process_, signal);
    int status = 0;
    waitpid(process_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t process_ = -1;
  std::FILE* stream_ = nullptr;
};

TEST_F(HealthCommand, WatchingGoesOnUntilASignalAndEndsInOrder) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Running running(of_nvidia() + "--json --watch 0.05", "");
    const auto first = nlohmann::json::parse(running.line()), second = nlohmann::json::parse(running.line());
    EXPECT_TRUE(first.contains("time_s"));
    EXPECT_GT(second["devices"][0]["values"]["energy_microjoule"].get<std::uint64_t>(),
              first["devices"][0]["values"]["energy_microjoule"].get<std::uint64_t>());
    EXPECT_EQ(running.end(signal), 0);
  }
}

TEST_F(HealthCommand, WatchingEndsWithTheLastVerdict) {
  // The first sample asks for errors before the third event: sick from the second on.
  Running running(of_nvidia() + "--json --watch 0.05", faults("ecc@query(nvmlDeviceGetTotalEccErrors)#9+"));
  EXPECT_EQ(nlohmann::json::parse(running.line())["devices"][0]["verdict"], "good");
  EXPECT_EQ(nlohmann::json::parse(running.line())["devices"][0]["verdict"], "sick");
  EXPECT_EQ(running.end(SIGINT), 1);
}

TEST_F(HealthCommand, DevicesShowsAVerdict) {
  const std::string folder = std::string(kFolder) + "/nvidia/";
  const CommandOutcome outcome =
      run_command("devices --json", "CRUCIBLE_CUDA_LIBRARY=" + folder + "libcuda.so.1 CRUCIBLE_NVML=" + folder +
                                        "libnvidia-ml.so.1 " + faults("ecc@query(nvmlDeviceGetTotalEccErrors)"));
  const auto document = nlohmann::json::parse(outcome.out);
  std::map<std::string, std::string> verdicts;
  for (const auto& device : document["devices"]) verdicts[device["id"]] = device["health"];
  EXPECT_EQ(verdicts["nvidia:0"], "sick");
}

}  // namespace
}  // namespace crucible
