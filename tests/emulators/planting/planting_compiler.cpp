// A run-time compiler with a bug: NVRTC and HIPRTC as they are, but for one piece of every program's text, which it
// replaces before the real compiler sees it. So a test can have a printer of one vendor that writes something wrong,
// without a build of its own.
//
// CRUCIBLE_PLANT_COMPILER: the real library; CRUCIBLE_PLANT_FROM, CRUCIBLE_PLANT_TO: the piece, and what stands there
// instead. A program without the piece is handed over as it is. Unset variables end the process: a test under other
// settings than it asked for proves nothing.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

const char* setting(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) {
    std::fprintf(stderr, "planting compiler: %s is not set\n", name);
    std::abort();
  }
  return value;
}

void* real(const char* name) {
  static void* const library = dlopen(setting("CRUCIBLE_PLANT_COMPILER"), RTLD_NOW | RTLD_LOCAL);
  void* function = library == nullptr ? nullptr : dlsym(library, name);
  if (function == nullptr) {
    std::fprintf(stderr, "planting compiler: %s\n", dlerror());
    std::abort();
  }
  return function;
}

std::string planted(std::string text) {
  const std::string from = setting("CRUCIBLE_PLANT_FROM"), to = setting("CRUCIBLE_PLANT_TO");
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

using Create = int (*)(void** program, const char* text, const char* name, int count, const char* const* headers,
                       const char* const* names);
// The others take at most three integers or pointers, and both libraries return an int but for one, which returns a
// pointer.
using Any = std::intptr_t (*)(std::intptr_t, std::intptr_t, std::intptr_t);

}  // namespace

#define PLANTING_CREATE(name)                                                                                    \
  extern "C" int name(void** program, const char* text, const char* file, int count, const char* const* headers, \
                      const char* const* names) {                                                                \
    return reinterpret_cast<Create>(real(#name))(program, planted(text).c_str(), file, count, headers, names);   \
  }
#define PLANTING_FORWARD(name)                                                              \
  extern "C" std::intptr_t name(std::intptr_t a, std::intptr_t b, std::intptr_t c) {         \
    return reinterpret_cast<Any>(real(#name))(a, b, c);                                      \
  }

PLANTING_CREATE(nvrtcCreateProgram)
PLANTING_FORWARD(nvrtcVersion)
PLANTING_FORWARD(nvrtcGetErrorString)
PLANTING_FORWARD(nvrtcGetNumSupportedArchs)
PLANTING_FORWARD(nvrtcGetSupportedArchs)
PLANTING_FORWARD(nvrtcDestroyProgram)
PLANTING_FORWARD(nvrtcCompileProgram)
PLANTING_FORWARD(nvrtcGetProgramLogSize)
PLANTING_FORWARD(nvrtcGetProgramLog)
PLANTING_FORWARD(nvrtcGetPTXSize)
PLANTING_FORWARD(nvrtcGetPTX)
PLANTING_FORWARD(nvrtcGetCUBINSize)
PLANTING_FORWARD(nvrtcGetCUBIN)

PLANTING_CREATE(hiprtcCreateProgram)
PLANTING_FORWARD(hiprtcVersion)
PLANTING_FORWARD(hiprtcGetErrorString)
PLANTING_FORWARD(hiprtcDestroyProgram)
PLANTING_FORWARD(hiprtcCompileProgram)
PLANTING_FORWARD(hiprtcGetProgramLogSize)
PLANTING_FORWARD(hiprtcGetProgramLog)
PLANTING_FORWARD(hiprtcGetCodeSize)
PLANTING_FORWARD(hiprtcGetCode)
