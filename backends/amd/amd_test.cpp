// The plugin through the loader: the cases that all such plugins have (plugins/sdk/testing), and AMD's own. The runtime
// is that of CRUCIBLE_HIP_LIBRARY, else the emulated one of this build, else the machine's; HIPRTC that of
// CRUCIBLE_HIPRTC, else beside it.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <tuple>

#include "plugins/sdk/testing/device_plugin.hpp"

namespace crucible::backend {
namespace {

using ::testing::HasSubstr;

PluginUnderTest amd() {
  PluginUnderTest plugin = {"amd", "hip", {}};
  const std::filesystem::path emulated = CRUCIBLE_TEST_HIP_FOLDER;
  for (const auto& [option, variable, name] : {std::tuple("library", "CRUCIBLE_HIP_LIBRARY", "libamdhip64.so."),
                                               std::tuple("hiprtc", "CRUCIBLE_HIPRTC", "libhiprtc.so.")}) {
    if (const char* named = std::getenv(variable); named != nullptr && *named != '\0') {
      plugin.options[option] = named;
      continue;
    }
    for (const char* version : {"5", "6", "7"}) {
      const std::filesystem::path file = emulated / (std::string(name) + version);
      if (std::filesystem::exists(file)) plugin.options[option] = file;
    }
  }
  return plugin;
}

INSTANTIATE_TEST_SUITE_P(Amd, DevicePlugin, ::testing::Values(amd()), ::testing::PrintToStringParamName());

TEST(AmdLibrary, AMissingRuntimeIsNamedWithWhatToInstall) {
  const auto opened = try_open({"amd", "hip", {{"library", "/nowhere/libamdhip64.so.6"}}});
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("AMD's HIP runtime /nowhere/libamdhip64.so.6 cannot be loaded"));
  EXPECT_THAT(opened.error().message, HasSubstr("hip-runtime-amd"));
}

TEST(AmdLibrary, ALibraryOfSomethingElseIsRefused) {
  const auto opened = try_open({"amd", "hip", {{"library", "libz.so.1"}}});
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("lacks hipInit"));
}

class AmdDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (auto opened = try_open(amd()); !opened) GTEST_SKIP() << opened.error().message;
  }
};

TEST_F(AmdDevice, AMissingCompilerIsNamedAndTheDeviceStillCopies) {
  const auto device = take(try_open(amd(), {{"hiprtc", "/nowhere/libhiprtc.so.6"}, {"compiler", "hiprtc"}}));
  const KernelSource kernel = sums(3, DType::kF32);
  const auto module = Module::compile(device, std::span(&kernel, 1));
  ASSERT_FALSE(module);
  EXPECT_THAT(module.error().message, HasSubstr("/nowhere/libhiprtc.so.6"));
  Buffer buffer = take(Buffer::allocate(device, 16, 64));
  EXPECT_TRUE(buffer.fill(0, 16, 3));
}

const std::filesystem::path kEmulated = std::filesystem::path(CRUCIBLE_TEST_HIP_FOLDER) / "libamdhip64.so.6";

/// Whatever the variables say: only the emulated runtime has faults on demand. HIPRTC alone: clang stands in for one
/// that refuses all.
PluginUnderTest emulated() {
  return {"amd",
          "hip",
          {{"library", kEmulated}, {"hiprtc", kEmulated.parent_path() / "libhiprtc.so.6"}, {"compiler", "hiprtc"}}};
}

/// In a process of its own, which has opened no device before: what is told under these rules.
void expect_told(const char* rules, const std::vector<std::string>& parts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const std::string told = run_under_faults(emulated(), rules);
        std::fprintf(stderr, "told: %s\n", told.c_str());
        for (const std::string& part : parts) {
          if (told.find(part) == std::string::npos) std::_Exit(1);
        }
        std::_Exit(parts.empty() && !told.empty() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "told: ")
      << rules;
}

class AmdFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kEmulated)) GTEST_SKIP() << "no emulated runtime was built (crucible_emulated_hip)";
  }
};

TEST_F(AmdFaults, MemoryThatIsRefusedIsToldAndTheDeviceGoesOn) {
  expect_told("oom@alloc#1", {});  // asked again, it has some
  expect_told("oom@alloc#1;oom@alloc#2", {"cannot have 64 bytes on amd:0: ", "are free"});
}

TEST_F(AmdFaults, AProgramThatCannotBeCompiledOrLoaded) {
  expect_told("fail@compile", {"the kernels sums"});
  expect_told("fail@load", {"hipModuleLoadData of the kernels sums on amd:0"});
}

TEST_F(AmdFaults, ALostDeviceStaysLost) {
  expect_told("trap@launch(sums)#1", {"queue.submit", "; then ", "amd:0 was lost ("});
}

}  // namespace
}  // namespace crucible::backend
