// What compile.cpp calls the vendor's types of modules and kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/intel/vendor_headers.hpp"

namespace crucible_intel::ze {

using Module = ze_module_handle_t;
using BuildLog = ze_module_build_log_handle_t;
using Kernel = ze_kernel_handle_t;

struct Result {
  static constexpr ze_result_t kSuccess = ZE_RESULT_SUCCESS, kModuleBuildFailure = ZE_RESULT_ERROR_MODULE_BUILD_FAILURE;
  ze_result_t code;
  Result(ze_result_t made) : code(made) {}
  operator ze_result_t() const { return code; }
};

inline constexpr std::uint32_t kSpirv = ZE_MODULE_FORMAT_IL_SPIRV, kNative = ZE_MODULE_FORMAT_NATIVE;
inline constexpr std::uint32_t kIndirectDevice = ZE_KERNEL_INDIRECT_ACCESS_FLAG_DEVICE;

struct ModuleDesc : ze_module_desc_t {
  struct Format {
    ze_module_format_t& place;
    void operator=(std::uint32_t value) { place = static_cast<ze_module_format_t>(value); }
  };
  ModuleDesc() : ze_module_desc_t(typed<ze_module_desc_t>(ZE_STRUCTURE_TYPE_MODULE_DESC)) {}
  Format format = {ze_module_desc_t::format};
  std::size_t& size = inputSize;
  const std::uint8_t*& bytes = pInputModule;
  const char*& flags = pBuildFlags;
};
struct KernelDesc : ze_kernel_desc_t {
  KernelDesc() : ze_kernel_desc_t(typed<ze_kernel_desc_t>(ZE_STRUCTURE_TYPE_KERNEL_DESC)) {}
  const char*& name = pKernelName;
};

}  // namespace crucible_intel::ze
