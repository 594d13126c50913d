// The plugin through the loader: the cases that all such plugins have (plugins/sdk/testing), and NVIDIA's own. The
// driver is that of CRUCIBLE_CUDA_LIBRARY, else the emulated one of this build, else the machine's; NVRTC that of
// CRUCIBLE_NVRTC, else torch's.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "plugins/sdk/testing/device_plugin.hpp"

namespace crucible::backend {
namespace {

using ::testing::HasSubstr;

/// The variable's value, else `file` where it exists, else "": the plugin looks by itself.
std::string choose(const char* variable, const std::string& file) {
  const char* named = std::getenv(variable);
  if (named != nullptr && *named != '\0') return named;
  return !file.empty() && std::filesystem::exists(file) ? file : "";
}

PluginUnderTest nvidia() {
  PluginUnderTest plugin = {"nvidia", "cuda", {}};
  const std::string library = choose("CRUCIBLE_CUDA_LIBRARY", CRUCIBLE_TEST_CUDA);
  const std::string nvrtc = choose("CRUCIBLE_NVRTC", CRUCIBLE_TEST_NVRTC);
  if (!library.empty()) plugin.options["library"] = library;
  if (!nvrtc.empty()) plugin.options["nvrtc"] = nvrtc;
  return plugin;
}

INSTANTIATE_TEST_SUITE_P(Nvidia, DevicePlugin, ::testing::Values(nvidia()), ::testing::PrintToStringParamName());

TEST(NvidiaLibrary, AMissingDriverIsNamedWithWhatToInstall) {
  const auto opened = try_open({"nvidia", "cuda", {{"library", "/nowhere/libcuda.so.1"}}});
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("the NVIDIA driver's library /nowhere/libcuda.so.1 cannot be loaded"));
  EXPECT_THAT(opened.error().message, HasSubstr("install NVIDIA's driver"));
}

TEST(NvidiaLibrary, ALibraryOfSomethingElseIsRefused) {
  const auto opened = try_open({"nvidia", "cuda", {{"library", "libz.so.1"}}});
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("lacks cuDriverGetVersion"));
}

TEST(NvidiaLibrary, AWrongOptionNamesWhatIsRight) {
  const auto opened = try_open(nvidia(), {{"code", "sass"}});
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("sass"));
}

class NvidiaDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (auto opened = try_open(nvidia()); !opened) GTEST_SKIP() << opened.error().message;
  }
  /// What became of a kernel that is compiled with these options.
  Result<std::shared_ptr<Device>> compile_with(const Options& options) {
    auto device = try_open(nvidia(), options);
    if (!device) return device;
    const KernelSource kernel = sums(3, DType::kF32);
    auto module = Module::compile(*device, std::span(&kernel, 1));
    if (!module) return module.error();
    return device;
  }
};

TEST_F(NvidiaDevice, AMissingCompilerIsNamedAndTheDeviceStillCopies) {
  const auto compiled = compile_with({{"nvrtc", "/nowhere/libnvrtc.so.13"}});
  ASSERT_FALSE(compiled);
  EXPECT_THAT(compiled.error().message, HasSubstr("/nowhere/libnvrtc.so.13"));
  EXPECT_THAT(compiled.error().message, HasSubstr("nvidia-cuda-nvrtc"));
  const auto device = take(try_open(nvidia(), {{"nvrtc", "/nowhere/libnvrtc.so.13"}}));
  Buffer buffer = take(Buffer::allocate(device, 16, 64));
  EXPECT_TRUE(buffer.fill(0, 16, 3));
}

TEST_F(NvidiaDevice, PtxIsTakenWhereMachineCodeIsNot) {
  EXPECT_TRUE(compile_with({{"code", "ptx"}}));
  EXPECT_TRUE(compile_with({{"code", "auto"}}));
  const auto emulated = take(try_open(nvidia()))->info().emulated;
  const auto cubin = compile_with({{"code", "cubin"}});
  if (!emulated) {
    EXPECT_TRUE(cubin) << cubin.error().message;
    return;
  }
  ASSERT_FALSE(cubin);  // the emulator runs PTX alone, as a driver of another generation would
  EXPECT_THAT(cubin.error().message, HasSubstr("CUDA_ERROR_NO_BINARY_FOR_GPU"));
  EXPECT_THAT(cubin.error().message, HasSubstr("set the option code to auto or ptx"));
}

/// What health says: keys of health.sample, and the reason of health.state.
std::map<std::string, std::string> health_of(const std::shared_ptr<Device>& device) {
  std::map<std::string, std::string> told;
  const auto sink = [](void* user, const crucible_kv* items, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      (*static_cast<std::map<std::string, std::string>*>(user))[std::string(items[i].key.data, items[i].key.size)] =
          items[i].type == CRUCIBLE_V_STR ? std::string(items[i].s.data, items[i].s.size) : std::to_string(items[i].u);
    }
  };
  const auto& table = device->backend().tables().health;
  const std::string& id = device->info().id;
  std::uint32_t state = 99;
  EXPECT_TRUE(to_result(table.sample({id.data(), id.size()}, sink, &told), "health.sample"));
  EXPECT_TRUE(to_result(table.state({id.data(), id.size()}, &state, sink, &told), "health.state"));
  EXPECT_EQ(state, CRUCIBLE_STATE_OK);
  return told;
}

TEST_F(NvidiaDevice, WithoutNvmlNothingIsMeasuredAndThatIsSaid) {
  auto told = health_of(take(try_open(nvidia(), {{"nvml", "/nowhere/libnvidia-ml.so.1"}})));
  EXPECT_EQ(told.count("temperature_celsius"), 0u);
  EXPECT_THAT(told["note"], HasSubstr("health is not measured: NVML /nowhere/libnvidia-ml.so.1 cannot be loaded"));
  EXPECT_THAT(told["reason"], HasSubstr("the driver answers; health is not measured"));
}

TEST_F(NvidiaDevice, NvmlsNumbersAreTold) {
  const std::filesystem::path library = std::filesystem::path(CRUCIBLE_TEST_CUDA).parent_path() / "libnvidia-ml.so.1";
  if (!std::filesystem::exists(library)) GTEST_SKIP() << "no emulated NVML was built (crucible_emulated_nvml)";
  PluginUnderTest plugin = nvidia();
  plugin.options["library"] = CRUCIBLE_TEST_CUDA;
  plugin.options["nvml"] = library;
  auto told = health_of(take(try_open(plugin)));
  for (const char* key : {"temperature_celsius", "power_milliwatt", "clock_hz", "memory_used_bytes"})
    EXPECT_NE(told[key], "") << key;
  EXPECT_EQ(told["reason"], "nothing to complain of");
}

/// Whatever the variables say: only the emulated driver has faults on demand.
PluginUnderTest emulated() {
  PluginUnderTest plugin = nvidia();
  plugin.options["library"] = CRUCIBLE_TEST_CUDA;
  return plugin;
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

class NvidiaFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(CRUCIBLE_TEST_CUDA))
      GTEST_SKIP() << "no emulated driver was built (crucible_emulated_cuda)";
  }
};

TEST_F(NvidiaFaults, NothingIsToldWithoutAny) { expect_told("slow:1ms@copy#1", {}); }

TEST_F(NvidiaFaults, ADriverThatDoesNotStart) {
  expect_told("fail@init", {"does not start: CUDA_ERROR_NO_DEVICE (100)", "CUDA_VISIBLE_DEVICES hides all"});
  expect_told("fail:code=CUDA_ERROR_SYSTEM_DRIVER_MISMATCH@init",
              {"restart the machine after an update of the driver"});
}

TEST_F(NvidiaFaults, MemoryThatIsRefusedIsToldAndTheDeviceGoesOn) {
  expect_told("oom@alloc#1", {});  // asked again, it has some
  expect_told("oom@alloc#1;oom@alloc#2", {"cannot have 64 bytes on nvidia:0: ", "are free"});
}

TEST_F(NvidiaFaults, AProgramThatTheDriverRefuses) {
  expect_told("fail@load", {"cuModuleLoadDataEx of the kernels sums on nvidia:0", "CUDA_ERROR_INVALID_PTX"});
}

TEST_F(NvidiaFaults, ALostDeviceStaysLost) {
  expect_told("lost@launch(sums)#1", {"nvidia:0 was lost (queue.submit", "CUDA_ERROR_DEVICE_UNAVAILABLE", "; then ",
                                      "use another device, or a new process"});
  expect_told("trap@launch(sums)#1", {"CUDA_ERROR_LAUNCH_FAILED", "; then ", "nvidia:0 was lost ("});
  expect_told("lost:code=CUDA_ERROR_ECC_UNCORRECTABLE@launch",
              {"CUDA_ERROR_ECC_UNCORRECTABLE", "; then ", "nvidia:0 was lost ("});
}

TEST_F(NvidiaFaults, ALostDeviceIsNotOpenedAgainInItsProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("CRUCIBLE_EMU_DEVICES", "2", 1);
        std::fprintf(stderr, "told: %s\n", run_under_faults(emulated(), "trap@launch(sums)#1").c_str());
        const auto again = try_open(emulated());
        std::fprintf(stderr, "again: %s\n", again ? "it is open" : again.error().message.c_str());
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0),
      AllOf(HasSubstr("use another device, or a new process"),
            HasSubstr("again: opening device nvidia:0 of nvidia: device nvidia:0 is suspect (queue.submit: "
                      "cuStreamSynchronize: CUDA_ERROR_LAUNCH_FAILED"),
            HasSubstr("it is not used again before a new process")));
}

}  // namespace
}  // namespace crucible::backend
