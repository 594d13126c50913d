// The emulated driver, as an emulated library of NVIDIA's calls it: the libcuda.so.1 in the library's own folder.
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <filesystem>
#include <string>

#include "tests/emulators/core/activity.hpp"
#include "tests/emulators/core/product.hpp"
#include "tests/emulators/core/timing.hpp"

namespace crucible::emulator {

struct Driver {
  decltype(&cuCtxGetCurrent) get_current = nullptr;
  CUresult (*launch)(CUstream stream, const char* name, CUhostFn function,
                     void* data) = nullptr;  // a kernel of the library's
  decltype(&cuStreamIsCapturing) is_capturing = nullptr;
  void (*spend)(const Work*) = nullptr;  // from a host function: what a device would have done for it (core/timing.hpp)
  void (*listen)(ActivityListener) = nullptr;  // to what devices do (core/activity.hpp)
  unsigned (*index_of)(CUcontext) = nullptr;  // of the context's device; a large number for no context
  explicit operator bool() const {
    return get_current != nullptr && launch != nullptr && is_capturing != nullptr && spend != nullptr &&
           listen != nullptr && index_of != nullptr;
  }
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
  all.launch = reinterpret_cast<decltype(all.launch)>(dlsym(library, "crucible_emulator_launch"));
  all.is_capturing = reinterpret_cast<decltype(all.is_capturing)>(dlsym(library, "cuStreamIsCapturing"));
  all.spend = reinterpret_cast<decltype(all.spend)>(dlsym(library, "crucible_emulator_spend"));
  all.listen = reinterpret_cast<decltype(all.listen)>(dlsym(library, "crucible_emulator_listen"));
  all.index_of = reinterpret_cast<decltype(all.index_of)>(dlsym(library, "crucible_emulator_index_of"));
  return all;
}

/// The matrix units of a type: f32 goes over the vector units, unless it may be rounded to tf32.
inline Unit matrix_unit(ElementType type, bool may_round) {
  switch (type) {
    case ElementType::kF16:
      return Unit::kMatrixF16;
    case ElementType::kBF16:
      return Unit::kMatrixBF16;
    case ElementType::kF32:
      return may_round ? Unit::kMatrixTF32 : Unit::kF32;
    case ElementType::kF64:
      return Unit::kMatrixF64;
  }
  return Unit::kF32;
}

}  // namespace crucible::emulator
