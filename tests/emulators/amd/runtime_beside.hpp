// The emulated runtime, as an emulated library of AMD's calls it: the libamdhip64.so.6 in the library's own folder.
#pragma once

#include <dlfcn.h>

#include <filesystem>
#include <string>

#include "tests/emulators/amd/hip_api.h"
#include "tests/emulators/core/activity.hpp"

namespace crucible::emulator {

struct Runtime {
  decltype(&hipGetDevice) get_device = nullptr;
  hipError_t (*launch)(hipStream_t stream, const char* name, hipHostFn_t function,
                       void* data) = nullptr;  // a kernel of the library's
  bool has_device() const {
    int device = 0;
    return get_device != nullptr && launch != nullptr && get_device(&device) == hipSuccess;
  }
};

/// Of a device, whatever HIP_VISIBLE_DEVICES says: its place in the machine, and how many threads are a wave.
struct ProfiledDevice {
  std::uint32_t physical = 0, wave = 64;
};

/// What an emulated profiler asks the runtime for.
struct ProfiledRuntime {
  void (*listen)(ActivityListener listener) = nullptr;
  bool (*has_started)() = nullptr;
  ProfiledDevice (*device)(unsigned ordinal) = nullptr;  // as activities have it
  explicit operator bool() const { return listen != nullptr && has_started != nullptr && device != nullptr; }
};

/// For dlsym; null when there is none. `own`: a function of the library. Threads: any.
inline void* open_runtime_beside(const void* own) {
  Dl_info self = {};
  if (dladdr(own, &self) == 0) return nullptr;
  const std::string file = std::filesystem::path(self.dli_fname).parent_path() / "libamdhip64.so.6";
  return dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
}

inline ProfiledRuntime find_profiled_runtime_beside(const void* own) {
  ProfiledRuntime all;
  void* const runtime = open_runtime_beside(own);
  if (runtime == nullptr) return all;
  all.listen = reinterpret_cast<decltype(all.listen)>(dlsym(runtime, "crucible_emulator_listen"));
  all.has_started = reinterpret_cast<decltype(all.has_started)>(dlsym(runtime, "crucible_emulator_has_started"));
  all.device = reinterpret_cast<decltype(all.device)>(dlsym(runtime, "crucible_emulator_profiled"));
  return all;
}

/// The same, with what libraries of products and convolutions call; without a device when there is none.
inline Runtime find_runtime_beside(const void* own) {
  Runtime all;
  void* const runtime = open_runtime_beside(own);
  if (runtime == nullptr) return all;
  all.get_device = reinterpret_cast<decltype(all.get_device)>(dlsym(runtime, "hipGetDevice"));
  all.launch = reinterpret_cast<decltype(all.launch)>(dlsym(runtime, "crucible_emulator_launch"));
  return all;
}

}  // namespace crucible::emulator
