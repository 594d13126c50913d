// A compiled module: objects that were loaded, and the kernels in them.
#pragma once

#include <dlfcn.h>

#include <map>
#include <string>
#include <vector>

#include "backends/cpu/kernel.hpp"

namespace crucible_cpu {

struct LoadedObject {
  void* handle = nullptr;
  std::vector<std::string> kernels;  // names
};

}  // namespace crucible_cpu

struct crucible_module {
  crucible_device* device = nullptr;
  std::vector<crucible_cpu::LoadedObject> objects;
  std::map<std::string, crucible_kernel, std::less<>> kernels;
  std::string log;                 // the compiler's words, when it said anything
  std::uint64_t binary_bytes = 0;  // of all objects
  bool from_cache = false;         // no kernel was compiled for it

  crucible_module() = default;
  crucible_module(const crucible_module&) = delete;
  crucible_module& operator=(const crucible_module&) = delete;
  ~crucible_module() {
    for (const crucible_cpu::LoadedObject& object : objects) {
      if (object.handle != nullptr) dlclose(object.handle);
    }
  }
};
