// What a compiled kernel is on this device, and a set of them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backends/intel/device.hpp"
#include "plugins/spirv/emit_kernel.hpp"

namespace crucible_intel {

/// A module that the driver made.
struct BuiltModule {
  OwnedModule object;
  std::string log;  // of the driver's compiler
  std::uint64_t binary_bytes = 0, spirv_bytes = 0;
  std::string binary;  // binary_id() of the machine code, or, where the driver hands out none, of what it was made of
  bool from_cache = false;
};

}  // namespace crucible_intel

struct crucible_kernel {
  crucible_module* module = nullptr;
  std::string name;
  std::uint32_t buffer_count = 0, scalar_count = 0;
  std::vector<crucible::spirv::Parameter> parameters;
  std::uint32_t lanes = 1;         // work-items of a group that do an item together
  std::uint32_t most_threads = 1;  // of a group, where that is so
  bool has_large_registers = false;
  const crucible_intel::BuiltModule& built() const;
  crucible_intel::OwnedKernel object;  // arguments are captured when a launch is appended, so one does for all plans
};

struct crucible_module {
  crucible_device* device = nullptr;
  // Registers are a module's choice: kernels that need many have one of their own. Before the kernels, which go first.
  crucible_intel::BuiltModule usual, large;
  std::uint64_t binary_bytes = 0;  // of both
  bool from_cache = false;         // all of it
  std::map<std::string, crucible_kernel, std::less<>> kernels;
};

inline const crucible_intel::BuiltModule& crucible_kernel::built() const {
  return has_large_registers ? module->large : module->usual;
}
