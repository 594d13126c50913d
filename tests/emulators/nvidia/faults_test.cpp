// Faults on demand, as the emulated driver shows them. The rules are read once in a process, so each case runs in a
// child of its own; a rule that did not fire leaves no line in the log, and its case fails.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>

#include "tests/emulators/nvidia/testing/cuda_session.hpp"

namespace crucible::emulators::nvidia::testing {
namespace {

constexpr const char* kAdd = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry add_one(.param .u64 p)
{
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [p]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r2, [%rd3]; add.u32 %r3, %r2, 1; st.global.u32 [%rd3], %r3;
  ret;
}
)";

struct Device {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  CUdeviceptr memory = 0;

  void open() {
    ASSERT_CUDA(cuInit(0));
    ASSERT_CUDA(cuDevicePrimaryCtxRetain(&context, 0));
    ASSERT_CUDA(cuCtxSetCurrent(context));
    ASSERT_CUDA(cuModuleLoadData(&module, kAdd));
    ASSERT_CUDA(cuModuleGetFunction(&kernel, module, "add_one"));
    ASSERT_CUDA(cuMemAlloc(&memory, 128));
    ASSERT_CUDA(cuMemsetD32(memory, 0, 32));
  }
  CUresult launch() {
    void* arguments[] = {&memory};
    const CUresult code = cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr);
    return code != CUDA_SUCCESS ? code : cuCtxSynchronize();
  }
};

/// Runs `body` in a child with these variables. The log's lines are what the rules left.
std::string with(const std::vector<std::pair<const char*, std::string>>& variables, const std::function<void()>& body) {
  std::string log = ::testing::TempDir() + "crucible-faults-XXXXXX";
  const int file = mkstemp(log.data());
  close(file);
  const pid_t child = fork();
  if (child == 0) {
    setenv("CRUCIBLE_EMU_LOG", log.c_str(), 1);
    for (const auto& [name, value] : variables) setenv(name, value.c_str(), 1);
    body();
    std::fflush(nullptr);
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the child ended with status " << status;
  std::ifstream stream(log);
  std::string lines(std::istreambuf_iterator<char>(stream), {});
  unlink(log.c_str());
  return lines;
}
std::string with_faults(const std::string& rules, const std::function<void()>& body) {
  return with({{"CRUCIBLE_EMU_FAULTS", rules}}, body);
}

TEST(EmulatedCudaFaults, NoDeviceAtInit) {
  EXPECT_EQ(with_faults("fail@init", [] { EXPECT_CUDA(CUDA_ERROR_NO_DEVICE, cuInit(0)); }), "fail@init() match 1\n");
  with_faults("fail:code=CUDA_ERROR_SYSTEM_DRIVER_MISMATCH@init",
              [] { EXPECT_CUDA(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, cuInit(0)); });
}

TEST(EmulatedCudaFaults, OutOfMemoryAtTheThirdAllocation) {
  const std::string log = with_faults("oom@alloc#3", [] {
    Device device;
    device.open();
    CUdeviceptr address = 0;
    EXPECT_CUDA(CUDA_SUCCESS, cuMemAlloc(&address, 4));
    EXPECT_CUDA(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&address, 4));
    EXPECT_CUDA(CUDA_SUCCESS, cuMemAlloc(&address, 4));
  });
  EXPECT_EQ(log, "oom@alloc(cuMemAlloc) match 3\n");
}

TEST(EmulatedCudaFaults, LostAtALaunchOfThatName) {
  const std::string log = with_faults("lost@launch(add_*)#2", [] {
    Device device;
    device.open();
    EXPECT_CUDA(CUDA_SUCCESS, device.launch());
    EXPECT_CUDA(CUDA_ERROR_DEVICE_UNAVAILABLE, device.launch());
    CUdeviceptr address = 0;
    EXPECT_CUDA(CUDA_ERROR_DEVICE_UNAVAILABLE, cuMemAlloc(&address, 4));
  });
  EXPECT_EQ(log, "lost@launch(add_one) match 2\n");
}

TEST(EmulatedCudaFaults, LostWithTheCodeThatTheRuleNames) {
  with_faults("lost:code=CUDA_ERROR_ECC_UNCORRECTABLE@launch", [] {
    Device device;
    device.open();
    EXPECT_CUDA(CUDA_ERROR_ECC_UNCORRECTABLE, device.launch());
    EXPECT_CUDA(CUDA_ERROR_ECC_UNCORRECTABLE, cuCtxSynchronize());
  });
}

TEST(EmulatedCudaFaults, AFlippedBit) {
  const std::string log = with_faults("flip:arg=0,byte=6,bit=5@launch#1", [] {
    Device device;
    device.open();
    EXPECT_CUDA(CUDA_SUCCESS, device.launch());
    unsigned values[32] = {};
    EXPECT_CUDA(CUDA_SUCCESS, cuMemcpyDtoH(values, device.memory, sizeof values));
    for (int i = 0; i < 32; ++i) EXPECT_EQ(values[i], i == 1 ? 0x200001u : 1u) << i;
  });
  EXPECT_EQ(log, "flip@launch(add_one) match 1\n");
}

TEST(EmulatedCudaFaults, TrapsCompilesCopies) {
  with_faults("trap@launch", [] {
    Device device;
    device.open();
    EXPECT_CUDA(CUDA_ERROR_LAUNCH_FAILED, device.launch());
  });
  with_faults("fail@load", [] {
    ASSERT_CUDA(cuInit(0));
    Device device;
    ASSERT_CUDA(cuDevicePrimaryCtxRetain(&device.context, 0));
    ASSERT_CUDA(cuCtxSetCurrent(device.context));
    EXPECT_CUDA(CUDA_ERROR_INVALID_PTX, cuModuleLoadData(&device.module, kAdd));
  });
  with_faults("fail@copy(d2h)", [] {
    Device device;
    device.open();
    unsigned value = 0;
    EXPECT_CUDA(CUDA_ERROR_LAUNCH_FAILED, cuMemcpyDtoH(&value, device.memory, 4));
  });
}

TEST(EmulatedCudaFaults, ASlowLinkIsSlow) {
  with_faults("slow:0.001GBps@copy(d2h)", [] {
    Device device;
    device.open();
    std::vector<char> bytes(60000);
    CUdeviceptr address = 0;
    ASSERT_CUDA(cuMemAlloc(&address, bytes.size()));
    timespec begin = {}, end = {};
    clock_gettime(CLOCK_MONOTONIC, &begin);
    EXPECT_CUDA(CUDA_SUCCESS, cuMemcpyDtoH(bytes.data(), address, bytes.size()));
    clock_gettime(CLOCK_MONOTONIC, &end);
    EXPECT_GE(
        static_cast<double>(end.tv_sec - begin.tv_sec) * 1e3 + static_cast<double>(end.tv_nsec - begin.tv_nsec) / 1e6,
        59.0);
  });
}

/// NVML's functions that a case asks for.
struct Nvml {
  void* library = dlopen(CRUCIBLE_NVML, RTLD_NOW | RTLD_LOCAL);
  template <typename... Arguments>
  int call(const char* name, Arguments... arguments) const {
    return reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name))(arguments...);
  }
};

TEST(EmulatedCudaHealth, OfADeviceThatTheDriverShows) {
  with({{"CRUCIBLE_EMU_DEVICES", "2"}}, [] {
    const Nvml nvml;
    ASSERT_NE(nvml.library, nullptr) << dlerror();
    unsigned celsius = 0;
    void *device = nullptr, *other = nullptr;
    EXPECT_EQ(nvml.call("nvmlDeviceGetHandleByIndex_v2", 0u, &device), 1) << "not initialized";
    ASSERT_EQ(nvml.call("nvmlInit_v2"), 0);
    ASSERT_CUDA(cuInit(0));
    char pci[64] = {}, uuid[96] = {}, name[96] = {}, driver_name[96] = {};
    ASSERT_CUDA(cuDeviceGetPCIBusId(pci, sizeof pci, 1));
    ASSERT_EQ(nvml.call("nvmlDeviceGetHandleByPciBusId_v2", pci, &device), 0);
    ASSERT_EQ(nvml.call("nvmlDeviceGetUUID", device, uuid, 96u), 0);
    EXPECT_STREQ(uuid, "GPU-63727563-6962-6c65-2d65-6d752d303031");
    ASSERT_EQ(nvml.call("nvmlDeviceGetHandleByUUID", uuid, &other), 0);
    EXPECT_EQ(other, device);
    ASSERT_EQ(nvml.call("nvmlDeviceGetName", device, name, 96u), 0);
    ASSERT_CUDA(cuDeviceGetName(driver_name, sizeof driver_name, 1));
    EXPECT_STREQ(name, driver_name);
    EXPECT_EQ(nvml.call("nvmlDeviceGetName", device, name, 5u), 7) << "too small";
    EXPECT_EQ(nvml.call("nvmlDeviceGetTemperature", device, 0, &celsius), 0);
    EXPECT_EQ(celsius, 61u);
    EXPECT_EQ(nvml.call("nvmlDeviceGetHandleByIndex_v2", 2u, &device), 2);
  });
}

TEST(EmulatedCudaHealth, DisturbedByRules) {
  const std::string log = with_faults(
      "hot:celsius=96@query; ecc:count=2,corrected=5@query(nvmlDeviceGetTotalEccErrors); "
      "lost@query(nvmlDeviceGetPowerUsage);"
      "deny@query(nvmlDeviceGetTotalEnergyConsumption); missing@query(nvmlDeviceGetMaxClockInfo); "
      "xid:number=31@query#1",
      [] {
        const Nvml nvml;
        void *device = nullptr, *set = nullptr;
        unsigned value = 0;
        unsigned long long wide = 0;
        ASSERT_EQ(nvml.call("nvmlInit_v2"), 0);
        ASSERT_EQ(nvml.call("nvmlDeviceGetHandleByIndex_v2", 0u, &device), 0);
        EXPECT_EQ(nvml.call("nvmlDeviceGetTemperature", device, 0, &value), 0);
        EXPECT_EQ(value, 96u);
        EXPECT_EQ(nvml.call("nvmlDeviceGetTemperatureThreshold", device, 1, &value), 0);
        EXPECT_EQ(value, 92u) << "a threshold does not get hot";
        EXPECT_EQ(nvml.call("nvmlDeviceGetCurrentClocksThrottleReasons", device, &wide), 0);
        EXPECT_EQ(wide, 0x20u);
        EXPECT_EQ(nvml.call("nvmlDeviceGetTotalEccErrors", device, 1, 0, &wide), 0);
        EXPECT_EQ(wide, 2u);
        EXPECT_EQ(nvml.call("nvmlDeviceGetTotalEccErrors", device, 0, 0, &wide), 0);
        EXPECT_EQ(wide, 5u);
        EXPECT_EQ(nvml.call("nvmlDeviceGetPowerUsage", device, &value), 15);
        EXPECT_EQ(nvml.call("nvmlDeviceGetTotalEnergyConsumption", device, &wide), 4);
        EXPECT_EQ(nvml.call("nvmlDeviceGetMaxClockInfo", device, 1, &value), 3);
        struct {
          void* device;
          unsigned long long type, data;
          unsigned gpu, compute;
        } event = {};
        EXPECT_EQ(nvml.call("nvmlEventSetCreate", &set), 0);
        EXPECT_EQ(nvml.call("nvmlDeviceRegisterEvents", device, 8ull, set), 0);
        EXPECT_EQ(nvml.call("nvmlEventSetWait_v2", set, &event, 0u), 0);
        EXPECT_EQ(event.data, 31u);
        EXPECT_EQ(event.device, device);
        EXPECT_EQ(nvml.call("nvmlEventSetWait_v2", set, &event, 0u), 10) << "no second event";
        EXPECT_EQ(nvml.call("nvmlEventSetFree", set), 0);
      });
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 8) << log;
}

TEST(EmulatedCudaSettings, SeveralDevicesOfSeveralGenerations) {
  with({{"CRUCIBLE_EMU_DEVICES", "3"},
        {"CRUCIBLE_EMU_ARCH", "sm_80,sm_100"},
        {"CUDA_VISIBLE_DEVICES", "2,0"},
        {"CRUCIBLE_EMU_MEMORY_MIB", "64"}},
       [] {
         ASSERT_CUDA(cuInit(0));
         int count = 0, major = 0;
         ASSERT_CUDA(cuDeviceGetCount(&count));
         EXPECT_EQ(count, 2);
         ASSERT_CUDA(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
         EXPECT_EQ(major, 10);
         ASSERT_CUDA(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 1));
         EXPECT_EQ(major, 8);
         std::size_t bytes = 0;
         ASSERT_CUDA(cuDeviceTotalMem(&bytes, 0));
         EXPECT_EQ(bytes, std::size_t{64} << 20);
       });
  with({{"CUDA_VISIBLE_DEVICES", ""}}, [] { EXPECT_CUDA(CUDA_ERROR_NO_DEVICE, cuInit(0)); });
}

}  // namespace
}  // namespace crucible::emulators::nvidia::testing
