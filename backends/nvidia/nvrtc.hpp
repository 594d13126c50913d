// NVRTC, NVIDIA's compiler as a library: CUDA C++ to machine code of one architecture (a cubin) or to PTX, which
// drivers finish.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/nvidia/cuda.hpp"

namespace crucible_nvidia {

using nvrtcResult = int;
using nvrtcProgram = struct nvrtcProgram_st*;
inline constexpr nvrtcResult NVRTC_SUCCESS = 0, NVRTC_ERROR_COMPILATION = 6;

#define CRUCIBLE_NVRTC_FUNCTIONS(X)                                                                     \
  X(nvrtcVersion, nvrtcResult, (int* major, int* minor))                                                \
  X(nvrtcGetErrorString, const char*, (nvrtcResult result))                                             \
  X(nvrtcGetNumSupportedArchs, nvrtcResult, (int* count))                                               \
  X(nvrtcGetSupportedArchs, nvrtcResult, (int* architectures))                                          \
  X(nvrtcCreateProgram, nvrtcResult,                                                                    \
    (nvrtcProgram * program, const char* text, const char* name, int count, const char* const* headers, \
     const char* const* names))                                                                         \
  X(nvrtcDestroyProgram, nvrtcResult, (nvrtcProgram * program))                                         \
  X(nvrtcCompileProgram, nvrtcResult, (nvrtcProgram program, int count, const char* const* options))    \
  X(nvrtcGetProgramLogSize, nvrtcResult, (nvrtcProgram program, std::size_t* size))                     \
  X(nvrtcGetProgramLog, nvrtcResult, (nvrtcProgram program, char* log))                                 \
  X(nvrtcGetPTXSize, nvrtcResult, (nvrtcProgram program, std::size_t* size))                            \
  X(nvrtcGetPTX, nvrtcResult, (nvrtcProgram program, char* text))                                       \
  X(nvrtcGetCUBINSize, nvrtcResult, (nvrtcProgram program, std::size_t* size))                          \
  X(nvrtcGetCUBIN, nvrtcResult, (nvrtcProgram program, char* bytes))

enum class Code : std::uint8_t { kPtx, kCubin };

class Nvrtc {
 public:
#define CRUCIBLE_NVRTC_MEMBER(name, result, parameters) result(*name) parameters = nullptr;
  CRUCIBLE_NVRTC_FUNCTIONS(CRUCIBLE_NVRTC_MEMBER)
#undef CRUCIBLE_NVRTC_MEMBER
  int major = 0, minor = 0;
  std::string file;                // of the library
  std::vector<int> architectures;  // 80, 90, ...: those it compiles for, ascending

  /// "NVRTC 13.0"
  std::string describe() const { return "NVRTC " + std::to_string(major) + "." + std::to_string(minor); }
  /// True when it makes machine code for compute capability `capability`.
  bool knows(int capability) const;
  /// "--gpu-architecture=sm_90", or of PTX for the newest architecture that the device has and this compiler knows.
  /// Errors: INCOMPATIBLE for a device that is older than all of them.
  std::string architecture_flag(int capability, Code code) const;

  struct Compiled {
    std::string bytes, log;  // PTX ends with its NUL
  };
  /// Threads: any. Errors: INTERNAL with the compiler's words and `who`.
  Compiled compile(const std::string& text, const std::vector<std::string>& flags, Code code,
                   const std::string& who) const;
};

/// The compiler of option `nvrtc`, or the newest by name that is not of a later major version than the driver; never
/// unloaded. Threads: any. Errors: UNAVAILABLE with what was tried; INCOMPATIBLE when it is newer than the driver or no
/// NVRTC.
const Nvrtc& nvrtc(const Cuda& cuda);

/// What every kernel is compiled with: nothing fuses, flushes or approximates. Where the code is made for one
/// architecture, its flag comes on top.
std::vector<std::string> numeric_flags();

}  // namespace crucible_nvidia
