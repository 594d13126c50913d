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

/// For dlsym; null when there is none. `own`: a function of the library. Threads: any.
inline void* open_runtime_beside(const void* own) {
  Dl_info self = {};
  if (dladdr(own, &self) == 0) return nullptr;
  const std::string file = std::filesystem::path(self.dli_fname).parent_path() / "libamdhip64.so.6";
  return dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
}

/// The same, with what libraries of products and convolutions call; without a device when there is none.
inline Runtime find_runtime_beside(const void* own) {
  Runtime all;
  void* const runtime = open_runtime_beside(own);
  if (runtime == nullptr) return all;
  all.get_device = reinterpret_cast<decltype(all.get_device)>(dlsym(runtime, "hipGetDevice"));
  all.launch = reinterpret_cast<decltype(all.launch)>(dlsym(runtime, "hipLaunchHostFunc"));
  return all;
}

}  // namespace crucible::emulator
