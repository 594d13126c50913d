// Test support: modules before spirv-val, and on a device: Intel's OpenCL driver for processors, which takes SPIR-V.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plugins/spirv/emit_kernel.hpp"

namespace crucible::spirv::testing {

/// "" when spirv-val finds nothing wrong; else what it says.
std::string validate(const Words& module);
/// Why there is no spirv-val, or "".
std::string no_validator();

/// The kernel: buffer `outputs` of type `to` at item i = expression `result`, the last one, of loads from the buffers
/// before it. What the tests of single operations are made of.
struct OneKernel {
  crucible::sdk::Kernel kernel;
  std::uint32_t item = 0;  // the expression that is the work item
  /// A kernel with one buffer per type, the last one written.
  explicit OneKernel(std::span<const crucible::sdk::Type> types);
  std::uint32_t add(crucible::sdk::Expr expr);
  std::uint32_t load(std::uint32_t buffer);
  /// Stores the expression; then the kernel is complete.
  void store(std::uint32_t result);
};

/// One program on the device.
class DeviceProgram {
 public:
  /// Why there is no device, or "": it is named by the environment variable CRUCIBLE_INTEL_OPENCL.
  static std::string no_device();
  /// Its loops are made ordered ones (ordered_loops.hpp). Errors: a std::runtime_error with the driver's words, here
  /// and below.
  explicit DeviceProgram(const Words& module);
  ~DeviceProgram();
  DeviceProgram(const DeviceProgram&) = delete;
  DeviceProgram& operator=(const DeviceProgram&) = delete;

  /// Runs the items [begin, end) on `width` work-items, in groups of `group`, or as the driver likes (0). Buffers that
  /// are the same memory are the same pointer.
  void run(const std::string& kernel, const std::vector<Parameter>& parameters,
           std::span<std::vector<std::byte>* const> buffers, std::span<const std::uint64_t> scalars, std::int64_t begin,
           std::int64_t end, std::size_t width, std::size_t group = 0);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace crucible::spirv::testing
