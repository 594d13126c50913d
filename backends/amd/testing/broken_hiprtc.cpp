// A HIPRTC that is broken in the way that CRUCIBLE_BROKEN_HIPRTC says when it compiles: crash, abort, hang, exit,
// refuse. Else it makes bytes that are no code.
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <unistd.h>

namespace {
constexpr int kSuccess = 0, kCompilation = 6;
int program;  // every program is this one
}  // namespace

#define CRUCIBLE_VISIBLE extern "C" __attribute__((visibility("default")))

CRUCIBLE_VISIBLE int hiprtcVersion(int* major, int* minor) {
  *major = 6;
  *minor = 9;
  return kSuccess;
}
CRUCIBLE_VISIBLE const char* hiprtcGetErrorString(int) { return "HIPRTC_ERROR"; }
CRUCIBLE_VISIBLE int hiprtcCreateProgram(void** out, const char*, const char*, int, const char**, const char**) {
  *out = &program;
  return kSuccess;
}
CRUCIBLE_VISIBLE int hiprtcDestroyProgram(void**) { return kSuccess; }
CRUCIBLE_VISIBLE int hiprtcCompileProgram(void*, int, const char**) {
  const char* const variable = std::getenv("CRUCIBLE_BROKEN_HIPRTC");
  const std::string_view how = variable != nullptr ? variable : "";
  if (how == "crash") std::raise(SIGSEGV);
  if (how == "abort") std::abort();
  if (how == "exit") _exit(9);
  while (how == "hang") sleep(1);
  return how == "refuse" ? kCompilation : kSuccess;
}
CRUCIBLE_VISIBLE int hiprtcGetProgramLogSize(void*, std::size_t* size) {
  *size = 0;
  return kSuccess;
}
CRUCIBLE_VISIBLE int hiprtcGetProgramLog(void*, char*) { return kSuccess; }
CRUCIBLE_VISIBLE int hiprtcGetCodeSize(void*, std::size_t* size) {
  *size = 4;
  return kSuccess;
}
CRUCIBLE_VISIBLE int hiprtcGetCode(void*, char* code) {
  std::memcpy(code, "none", 4);
  return kSuccess;
}
