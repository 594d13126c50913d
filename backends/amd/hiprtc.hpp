// HIPRTC, AMD's compiler as a library: HIP C++ to a code object of the current device's architecture.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/amd/hip.hpp"

namespace crucible_amd {

using hiprtcResult = int;
using hiprtcProgram = struct _hiprtcProgram*;
inline constexpr hiprtcResult HIPRTC_SUCCESS = 0, HIPRTC_ERROR_COMPILATION = 6;

#define CRUCIBLE_HIPRTC_FUNCTIONS(X)                                                               \
  X(hiprtcVersion, hiprtcResult, (int* major, int* minor))                                         \
  X(hiprtcGetErrorString, const char*, (hiprtcResult result))                                      \
  X(hiprtcCreateProgram, hiprtcResult,                                                             \
    (hiprtcProgram * program, const char* text, const char* name, int count, const char** headers, \
     const char** names))                                                                          \
  X(hiprtcDestroyProgram, hiprtcResult, (hiprtcProgram * program))                                 \
  X(hiprtcCompileProgram, hiprtcResult, (hiprtcProgram program, int count, const char** options))  \
  X(hiprtcGetProgramLogSize, hiprtcResult, (hiprtcProgram program, std::size_t* size))             \
  X(hiprtcGetProgramLog, hiprtcResult, (hiprtcProgram program, char* log))                         \
  X(hiprtcGetCodeSize, hiprtcResult, (hiprtcProgram program, std::size_t* size))                   \
  X(hiprtcGetCode, hiprtcResult, (hiprtcProgram program, char* code))

class Hiprtc {
 public:
#define CRUCIBLE_HIPRTC_MEMBER(name, result, parameters) result(*name) parameters = nullptr;
  CRUCIBLE_HIPRTC_FUNCTIONS(CRUCIBLE_HIPRTC_MEMBER)
#undef CRUCIBLE_HIPRTC_MEMBER
  int major = 0, minor = 0;
  std::string file;  // of the library

  /// "HIPRTC 6.3"
  std::string describe() const { return "HIPRTC " + std::to_string(major) + "." + std::to_string(minor); }

  struct Compiled {
    std::string bytes, log;
  };
  /// For the calling thread's current device, unless a flag names an architecture. Threads: any. Errors: INTERNAL with
  /// the compiler's words and `who`.
  Compiled compile(const std::string& text, const std::vector<std::string>& flags, const std::string& who) const;
};

/// The compiler of option `hiprtc`, else that of the runtime's major version; never unloaded. Threads: any. Errors:
/// UNAVAILABLE with what was tried; INCOMPATIBLE when it is no HIPRTC or of another major version than the runtime.
const Hiprtc& hiprtc(const Hip& hip);

/// What every kernel is compiled with: nothing fuses, and division and square root stay correctly rounded, as is HIP's
/// default; that no block has more threads than launch_shape() gives (without it a thread has half as many registers,
/// and spills); then the architecture of option `arch`.
std::vector<std::string> compile_flags(bool is_careful = false);

}  // namespace crucible_amd
