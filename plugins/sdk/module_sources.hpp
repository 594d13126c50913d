// What one call of compile.compile hands over, read and checked: the kernels of a module.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "plugins/abi/crucible_plugin.h"
#include "plugins/sdk/kernel_ir.hpp"

namespace crucible::sdk {

/// By name; one name twice was the same kernel twice.
struct ModuleSources {
  std::map<std::string, Kernel> kernels;
  std::map<std::string, std::string_view> opaque_ops;  // their descriptions, borrowed
  std::uint64_t ir_bytes = 0;                          // of all kernels
  bool is_careful = false;  // they came out wrong with all optimisation: with less, where the compiler has less
};

/// Which forms a device takes.
struct SourceForms {
  bool kernel_ir = true, opaque_ops = false;
};

/// Errors: INVALID_ARGUMENT for a name that C does not take or two different kernels of one name; UNSUPPORTED with
/// payload kernel for a form that the device does not take; those of read_kernel().
ModuleSources read_sources(const crucible_kernel_source* sources, std::uint32_t count, std::uint32_t flags,
                           const SourceForms& forms);

}  // namespace crucible::sdk
