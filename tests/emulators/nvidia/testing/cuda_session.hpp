// A device of the emulated driver for tests: started, with its context current and nothing left from the case before;
// and NVIDIA's real compiler, opened at run time.
#pragma once

#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace crucible::emulators::nvidia::testing {

inline std::string name_of(CUresult code) {
  const char* name = nullptr;
  cuGetErrorName(code, &name);
  return name == nullptr ? "code " + std::to_string(code) : name;
}

#define EXPECT_CUDA(wanted, call) EXPECT_EQ(name_of(call), name_of(wanted))
#define ASSERT_CUDA(call) ASSERT_EQ(name_of(call), "CUDA_SUCCESS")

struct Nvrtc {
  void* library = dlopen(CRUCIBLE_CUDA_HOME "/lib/libnvrtc.so.13", RTLD_NOW | RTLD_LOCAL);
  template <typename Function>
  Function find(const char* name) const {
    if (library == nullptr) throw std::runtime_error("libnvrtc.so.13 is missing beside cuda.h");
    return reinterpret_cast<Function>(dlsym(library, name));
  }
};

/// PTX of a CUDA C++ text. Errors: throws with the compiler's words, or with what is missing.
inline std::string compile_cuda(const std::string& text, const std::string& arch = "compute_90",
                                std::vector<std::string> options = {"--fmad=false"}) {
  static const Nvrtc nvrtc;
  using Program = void*;
  const auto create =
      nvrtc.find<int (*)(Program*, const char*, const char*, int, const char* const*, const char* const*)>(
          "nvrtcCreateProgram");
  const auto compile = nvrtc.find<int (*)(Program, int, const char* const*)>("nvrtcCompileProgram");
  const auto sized = [](auto size_of, auto get, Program program) {
    std::size_t size = 0;
    size_of(program, &size);
    std::string out(size, '\0');
    get(program, out.data());
    return out;
  };
  using SizeOf = int (*)(Program, std::size_t*);
  using Get = int (*)(Program, char*);
  options.push_back("-arch=" + arch);
  options.push_back("-default-device");
  options.push_back("-I" CRUCIBLE_CUDA_HOME "/include");
  std::vector<const char*> words;
  for (const std::string& option : options) words.push_back(option.c_str());
  Program program = nullptr;
  create(&program, text.c_str(), "kernels.cu", 0, nullptr, nullptr);
  const bool failed = compile(program, static_cast<int>(words.size()), words.data()) != 0;
  const std::string made =
      failed ? sized(nvrtc.find<SizeOf>("nvrtcGetProgramLogSize"), nvrtc.find<Get>("nvrtcGetProgramLog"), program)
             : sized(nvrtc.find<SizeOf>("nvrtcGetPTXSize"), nvrtc.find<Get>("nvrtcGetPTX"), program);
  nvrtc.find<int (*)(Program*)>("nvrtcDestroyProgram")(&program);
  if (failed) throw std::runtime_error(made);
  return made;
}

class CudaSession : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_CUDA(cuInit(0));
    ASSERT_CUDA(cuDevicePrimaryCtxReset(0));
    ASSERT_CUDA(cuDevicePrimaryCtxRetain(&context_, 0));
    ASSERT_CUDA(cuCtxSetCurrent(context_));
    ASSERT_CUDA(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
  }
  void TearDown() override {
    cuDevicePrimaryCtxReset(0);
    cuStreamDestroy(stream_);
    cuDevicePrimaryCtxRelease(0);
    cuCtxSetCurrent(nullptr);
  }

  /// Errors: fails the case with the driver's log.
  CUmodule load(const std::string& ptx) {
    CUmodule module = nullptr;
    std::string log;
    const CUresult code = load(ptx, &module, &log);
    if (code != CUDA_SUCCESS) ADD_FAILURE() << name_of(code) << ": " << log;
    return module;
  }
  static CUresult load(const std::string& ptx, CUmodule* module, std::string* log) {
    char buffer[4096] = {};
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {buffer, reinterpret_cast<void*>(sizeof buffer)};
    const CUresult code = cuModuleLoadDataEx(module, ptx.c_str(), 2, options, values);
    *log = buffer;
    return code;
  }
  static CUfunction function(CUmodule module, const char* name) {
    CUfunction found = nullptr;
    EXPECT_CUDA(CUDA_SUCCESS, cuModuleGetFunction(&found, module, name)) << name;
    return found;
  }

  template <typename T>
  CUdeviceptr upload(const std::vector<T>& values) {
    const CUdeviceptr address = allocate(values.size() * sizeof(T));
    EXPECT_CUDA(CUDA_SUCCESS, cuMemcpyHtoD(address, values.data(), values.size() * sizeof(T)));
    return address;
  }
  static CUdeviceptr allocate(std::size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_CUDA(CUDA_SUCCESS, cuMemAlloc(&address, bytes));
    return address;
  }
  template <typename T>
  static std::vector<T> download(CUdeviceptr address, std::size_t count) {
    std::vector<T> values(count);
    EXPECT_CUDA(CUDA_SUCCESS, cuMemcpyDtoH(values.data(), address, count * sizeof(T)));
    return values;
  }

  struct Shape {
    unsigned grid_x = 1, grid_y = 1, block_x = 1, block_y = 1, shared_bytes = 0;
  };
  /// Launches and waits.
  template <typename... Arguments>
  CUresult run(CUfunction kernel, Shape shape, Arguments... arguments) {
    void* pointers[] = {&arguments..., nullptr};
    const CUresult code = cuLaunchKernel(kernel, shape.grid_x, shape.grid_y, 1, shape.block_x, shape.block_y, 1,
                                         shape.shared_bytes, stream_, pointers, nullptr);
    return code != CUDA_SUCCESS ? code : cuStreamSynchronize(stream_);
  }

  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
};

}  // namespace crucible::emulators::nvidia::testing
