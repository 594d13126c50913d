// What a compiled kernel is on this device, and a set of them.
#pragma once

#include <crucible/sdk/c_dialect.hpp>
#include <crucible/sdk/host_compiler.hpp>
#include <map>
#include <memory>
#include <string>

#include "device.hpp"

struct crucible_kernel {
  crucible::sdk::HostKernel function = nullptr;  // (7) your driver's handle of a kernel
  std::string name;
  std::uint64_t binary_bytes = 0;  // of its machine code
};

struct crucible_module {
  crucible_device* device = nullptr;
  std::unique_ptr<crucible::sdk::HostLibrary> library;  // (7) your driver's handle of a module
  std::map<std::string, crucible_kernel, std::less<>> kernels;
  std::string text;  // what your compiler is to take; crucible shows it with the compiler's log
};

namespace acme {

/// (6) How the device's language spells kernels: dialect.cpp.
const crucible::sdk::Dialect& dialect();

/// (7) Compiles the kernels that are in `module` by name already and sets their functions: build_module.cpp. `text` is
/// in the device's dialect; `host_text` is the same in C for the host, which runs it until your compiler does.
void build_module(crucible_module& module, const std::string& text, const std::string& host_text);

}  // namespace acme
