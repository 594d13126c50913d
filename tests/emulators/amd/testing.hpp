// What the emulator's tests open it with: by path, as a plugin does, every function by its name.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/emulators/amd/hip_api.h"
#include "tests/emulators/amd/hiprtc_api.h"

namespace crucible::emulator {

#define CRUCIBLE_TEST_HIP_FUNCTIONS(X)                                                                                 \
  X(hipInit)                                                                                                           \
  X(hipDriverGetVersion) X(hipRuntimeGetVersion) X(hipGetErrorName) X(hipGetErrorString) X(hipGetLastError)            \
      X(hipPeekAtLastError) X(hipGetDeviceCount) X(hipGetDevice) X(hipSetDevice) X(hipDeviceGet) X(hipDeviceGetName)   \
          X(hipDeviceGetUuid) X(hipDeviceGetPCIBusId) X(hipDeviceTotalMem) X(hipDeviceGetAttribute) X(                 \
              hipDeviceComputeCapability) X(hipGetDevicePropertiesR0600) X(hipDeviceSynchronize) X(hipDeviceReset)     \
              X(hipDeviceCanAccessPeer) X(hipMalloc) X(hipDeviceEnablePeerAccess) X(hipDeviceDisablePeerAccess) X(     \
                  hipMemcpyPeer) X(hipMemcpyPeerAsync) X(hipMallocAsync) X(hipFree) X(hipFreeAsync) X(hipHostMalloc)   \
                  X(hipHostFree) X(hipHostRegister) X(hipHostUnregister) X(hipMemGetInfo) X(hipMemGetAddressRange)     \
                      X(hipPointerGetAttributes) X(hipMemcpy) X(hipMemcpyAsync) X(hipMemcpyDtoDAsync) X(hipMemset)     \
                          X(hipMemsetAsync) X(hipMemsetD16Async) X(hipMemsetD32Async) X(hipStreamCreate) X(            \
                              hipStreamCreateWithFlags) X(hipStreamDestroy) X(hipStreamSynchronize) X(hipStreamQuery)  \
                              X(hipStreamWaitEvent) X(hipEventCreate) X(hipEventCreateWithFlags) X(hipEventDestroy)    \
                                  X(hipEventRecord) X(hipEventSynchronize) X(hipEventQuery) X(hipEventElapsedTime)     \
                                      X(hipModuleLoadData) X(hipModuleUnload) X(hipModuleGetFunction)                  \
                                          X(hipFuncGetAttribute) X(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor) \
                                              X(hipModuleLaunchKernel) X(hipGraphCreate) X(hipGraphDestroy)            \
                                                  X(hipGraphAddKernelNode) X(hipGraphAddMemcpyNode1D)                  \
                                                      X(hipGraphAddMemsetNode) X(hipGraphAddEmptyNode)                 \
                                                          X(hipGraphAddDependencies) X(hipGraphGetNodes) X(            \
                                                              hipGraphInstantiate) X(hipGraphExecKernelNodeSetParams)  \
                                                              X(hipGraphExecMemcpyNodeSetParams1D)                     \
                                                                  X(hipGraphExecMemsetNodeSetParams)                   \
                                                                      X(hipGraphKernelNodeSetParams)                   \
                                                                          X(hipGraphExecUpdate) X(hipGraphExecDestroy) \
                                                                              X(hipGraphUpload) X(hipGraphLaunch)      \
                                                                                  X(crucible_emulator_reload)

#define CRUCIBLE_TEST_HIPRTC_FUNCTIONS(X)                                                                    \
  X(hiprtcVersion) X(hiprtcGetErrorString) X(hiprtcCreateProgram) X(hiprtcDestroyProgram)                    \
  X(hiprtcCompileProgram) X(hiprtcGetProgramLogSize) X(hiprtcGetProgramLog) X(hiprtcGetCodeSize)             \
  X(hiprtcGetCode) X(crucible_emulator_reload_hiprtc)

#define CRUCIBLE_TEST_MEMBER(name) decltype(&::name) name = nullptr;
struct HipLibrary {
  CRUCIBLE_TEST_HIP_FUNCTIONS(CRUCIBLE_TEST_MEMBER)
  CRUCIBLE_TEST_HIPRTC_FUNCTIONS(CRUCIBLE_TEST_MEMBER)
};
#undef CRUCIBLE_TEST_MEMBER

/// Ends the process when a library or a function is missing.
inline const HipLibrary& hip() {
  static const HipLibrary library = [] {
    HipLibrary found;
    const auto open = [](const char* path) {
      void* const handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
      if (handle == nullptr) ADD_FAILURE() << dlerror(), std::abort();
      return handle;
    };
    void* const runtime = open(CRUCIBLE_EMULATED_HIP);
    void* const compiler = open(CRUCIBLE_EMULATED_HIPRTC);
#define CRUCIBLE_TEST_FIND(handle, name)                                          \
  found.name = reinterpret_cast<decltype(found.name)>(dlsym(handle, #name));      \
  if (found.name == nullptr) ADD_FAILURE() << #name " is missing", std::abort();
#define CRUCIBLE_TEST_FIND_HIP(name) CRUCIBLE_TEST_FIND(runtime, name)
#define CRUCIBLE_TEST_FIND_HIPRTC(name) CRUCIBLE_TEST_FIND(compiler, name)
    CRUCIBLE_TEST_HIP_FUNCTIONS(CRUCIBLE_TEST_FIND_HIP)
    CRUCIBLE_TEST_HIPRTC_FUNCTIONS(CRUCIBLE_TEST_FIND_HIPRTC)
    return found;
  }();
  return library;
}

#define EXPECT_HIP(call) EXPECT_STREQ(hip().hipGetErrorName(call), "hipSuccess")
#define ASSERT_HIP_OK(call) ASSERT_STREQ(hip().hipGetErrorName(call), "hipSuccess")
#define EXPECT_HIP_ERROR(call, error) EXPECT_STREQ(hip().hipGetErrorName(call), #error)

/// Each case starts with the environment that it asks for and leaves none behind.
class HipTest : public ::testing::Test {
 protected:
  void set(const char* name, const std::string& value) {
    setenv(name, value.c_str(), 1);
    changed_.push_back(name);
    reload();
  }
  void set_faults(const std::string& rules) {
    log_ = (std::filesystem::temp_directory_path() / ("crucible-emulator-hip-" + std::to_string(getpid()))).string();
    std::filesystem::remove(log_);
    set("CRUCIBLE_EMU_LOG", log_);
    set("CRUCIBLE_EMU_FAULTS", rules);
  }
  /// What was written to the log of set_faults().
  std::string log() const {
    std::ifstream stream(log_);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  }
  void TearDown() override {
    for (const char* name : changed_) unsetenv(name);
    if (!changed_.empty()) reload();
    if (!log_.empty()) std::filesystem::remove(log_);
  }

  /// Code of the text, or a failure with the compiler's words.
  std::string compile(const std::string& text, std::vector<const char*> options = {"-ffp-contract=off"}) {
    hiprtcProgram program = nullptr;
    EXPECT_EQ(hip().hiprtcCreateProgram(&program, text.c_str(), "test.hip", 0, nullptr, nullptr), HIPRTC_SUCCESS);
    result_ = hip().hiprtcCompileProgram(program, static_cast<int>(options.size()), options.data());
    std::size_t size = 0;
    hip().hiprtcGetProgramLogSize(program, &size);
    words_.resize(size);
    hip().hiprtcGetProgramLog(program, words_.data());
    words_.resize(size - 1);
    std::string code;
    if (result_ == HIPRTC_SUCCESS) {
      EXPECT_EQ(hip().hiprtcGetCodeSize(program, &size), HIPRTC_SUCCESS);
      code.resize(size);
      EXPECT_EQ(hip().hiprtcGetCode(program, code.data()), HIPRTC_SUCCESS);
    }
    EXPECT_EQ(hip().hiprtcDestroyProgram(&program), HIPRTC_SUCCESS);
    return code;
  }
  /// The kernel of a text, in a module that stays until the end of the process.
  hipFunction_t kernel(const std::string& text, const char* name,
                       std::vector<const char*> options = {"-ffp-contract=off"}) {
    const std::string code = compile(text, std::move(options));
    EXPECT_EQ(result_, HIPRTC_SUCCESS) << words_;
    hipModule_t module = nullptr;
    hipFunction_t function = nullptr;
    EXPECT_HIP(hip().hipModuleLoadData(&module, code.c_str()));
    EXPECT_HIP(hip().hipModuleGetFunction(&function, module, name));
    return function;
  }

  template <class T>
  T* upload(const std::vector<T>& values) {
    T* const memory = allocate<T>(values.size());
    EXPECT_HIP(hip().hipMemcpy(memory, values.data(), values.size() * sizeof(T), hipMemcpyHostToDevice));
    return memory;
  }
  template <class T>
  T* allocate(std::size_t count) {
    void* memory = nullptr;
    EXPECT_HIP(hip().hipMalloc(&memory, count * sizeof(T)));
    return static_cast<T*>(memory);
  }
  template <class T>
  std::vector<T> download(const T* memory, std::size_t count) {
    std::vector<T> values(count);
    EXPECT_HIP(hip().hipMemcpy(values.data(), memory, count * sizeof(T), hipMemcpyDeviceToHost));
    return values;
  }
  struct Shape {
    unsigned grid_x = 1, grid_y = 1, block_x = 1, block_y = 1, shared = 0;
  };
  template <class... A>
  hipError_t launch(hipFunction_t function, Shape shape, A... arguments) {
    void* pointers[] = {&arguments..., nullptr};
    return hip().hipModuleLaunchKernel(function, shape.grid_x, shape.grid_y, 1, shape.block_x, shape.block_y, 1,
                                       shape.shared, nullptr, pointers, nullptr);
  }
  static void reload() {
    hip().crucible_emulator_reload();
    hip().crucible_emulator_reload_hiprtc();
  }

  hiprtcResult result_ = HIPRTC_SUCCESS;
  std::string words_;  // of the compiler
  std::string log_;

 private:
  std::vector<const char*> changed_;
};

}  // namespace crucible::emulator
