// The emulated driver, as an emulated library of NVIDIA's calls it: the libcuda.so.1 in the library's own folder.
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <filesystem>
#include <string>

namespace crucible::emulator {

struct Driver {
  decltype(&cuCtxGetCurrent) get_current = nullptr;
  decltype(&cuLaunchHostFunc) launch = nullptr;
  decltype(&cuStreamIsCapturing) is_capturing = nullptr;
  explicit operator bool() const { return get_current != nullptr && launch != nullptr && is_capturing != nullptr; }
  bool has_context() const {
    CUcontext context = nullptr;
    return *this && get_current(&context) == CUDA_SUCCESS && context != nullptr;
  }
};

/// `own`: a function of the library. False when there is none. Threads: any.
inline Driver find_driver_beside(const void* own) {
  Dl_info self = {};
  Driver all;
  if (dladdr(own, &self) == 0) return all;
  const std::string file = std::filesystem::path(self.dli_fname).parent_path() / "libcuda.so.1";
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return all;
  all.get_current = reinterpret_cast<decltype(all.get_current)>(dlsym(library, "cuCtxGetCurrent"));
  all.launch = reinterpret_cast<decltype(all.launch)>(dlsym(library, "cuLaunchHostFunc"));
  all.is_capturing = reinterpret_cast<decltype(all.is_capturing)>(dlsym(library, "cuStreamIsCapturing"));
  return all;
}

}  // namespace crucible::emulator
