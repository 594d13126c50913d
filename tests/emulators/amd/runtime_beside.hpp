// The emulated runtime, as an emulated library of AMD's calls it: the libamdhip64.so.6 in the library's own folder.
#pragma once

#include <dlfcn.h>

#include <filesystem>
#include <string>

#include "tests/emulators/amd/hip_api.h"

namespace crucible::emulator {

struct Runtime {
  decltype(&hipGetDevice) get_device = nullptr;
  decltype(&hipLaunchHostFunc) launch = nullptr;
  bool has_device() const {
    int device = 0;
    return get_device != nullptr && launch != nullptr && get_device(&device) == hipSuccess;
  }
};

/// `own`: a function of the library. Without a device when there is none. Threads: any.
inline Runtime find_runtime_beside(const void* own) {
  Dl_info self = {};
  Runtime all;
  if (dladdr(own, &self) == 0) return all;
  const std::string file = std::filesystem::path(self.dli_fname).parent_path() / "libamdhip64.so.6";
  void* const runtime = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (runtime == nullptr) return all;
  all.get_device = reinterpret_cast<decltype(all.get_device)>(dlsym(runtime, "hipGetDevice"));
  all.launch = reinterpret_cast<decltype(all.launch)>(dlsym(runtime, "hipLaunchHostFunc"));
  return all;
}

}  // namespace crucible::emulator
