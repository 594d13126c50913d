// Loading OpenCL and naming its errors: see opencl.hpp.
#include "backends/opencl/opencl.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <span>

#include "backends/opencl/options.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/vendor_library.hpp"

namespace crucible_opencl {

using namespace crucible;

namespace {

constexpr const char* kLoader = "libOpenCL.so.1";

std::unique_ptr<Functions> load(const std::string& name) {
  const auto library = sdk::VendorLibrary::open(
      "the OpenCL library", std::span(&name, 1),
      "install a loader (Debian: ocl-icd-libopencl1) and a driver (for the processor: pocl-opencl-icd), or name a "
      "library with the option library");
  auto functions = std::make_unique<Functions>();
  std::string missing, ignored;
#define CRUCIBLE_OPENCL_FIND(name) library.find(#name, functions->name, missing);
  CRUCIBLE_OPENCL_FUNCTIONS(CRUCIBLE_OPENCL_FIND)
#undef CRUCIBLE_OPENCL_FIND
#define CRUCIBLE_OPENCL_FIND_OPTIONAL(name) library.find(#name, functions->name, ignored);
  CRUCIBLE_OPENCL_OPTIONAL_FUNCTIONS(CRUCIBLE_OPENCL_FIND_OPTIONAL)
  CRUCIBLE_OPENCL_SPIRV_FUNCTIONS(CRUCIBLE_OPENCL_FIND_OPTIONAL)
#undef CRUCIBLE_OPENCL_FIND_OPTIONAL
  library.require_complete(missing, "OpenCL 1.2 or newer");
  return functions;
}

std::vector<std::string> environment() {
  std::vector<std::string> all;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) all.emplace_back(*variable);
  return all;
}

}  // namespace

const Functions& opencl() {
  std::string library = options().get_text("library");
  if (library.empty()) library = kLoader;
  return sdk::load_once<Functions>(library, [&] { return load(library); });
}

std::string error_name(cl_int code) {
  static constexpr std::pair<cl_int, const char*> kNames[] = {
      {CL_DEVICE_NOT_FOUND, "CL_DEVICE_NOT_FOUND"},
      {CL_DEVICE_NOT_AVAILABLE, "CL_DEVICE_NOT_AVAILABLE"},
      {CL_COMPILER_NOT_AVAILABLE, "CL_COMPILER_NOT_AVAILABLE"},
      {CL_MEM_OBJECT_ALLOCATION_FAILURE, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
      {CL_OUT_OF_RESOURCES, "CL_OUT_OF_RESOURCES"},
      {CL_OUT_OF_HOST_MEMORY, "CL_OUT_OF_HOST_MEMORY"},
      {CL_PROFILING_INFO_NOT_AVAILABLE, "CL_PROFILING_INFO_NOT_AVAILABLE"},
      {CL_MEM_COPY_OVERLAP, "CL_MEM_COPY_OVERLAP"},
      {CL_BUILD_PROGRAM_FAILURE, "CL_BUILD_PROGRAM_FAILURE"},
      {CL_MAP_FAILURE, "CL_MAP_FAILURE"},
      {CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"},
      {CL_INVALID_VALUE, "CL_INVALID_VALUE"},
      {CL_INVALID_DEVICE, "CL_INVALID_DEVICE"},
      {CL_INVALID_CONTEXT, "CL_INVALID_CONTEXT"},
      {CL_INVALID_COMMAND_QUEUE, "CL_INVALID_COMMAND_QUEUE"},
      {CL_INVALID_MEM_OBJECT, "CL_INVALID_MEM_OBJECT"},
      {CL_INVALID_BINARY, "CL_INVALID_BINARY"},
      {CL_INVALID_BUILD_OPTIONS, "CL_INVALID_BUILD_OPTIONS"},
      {CL_INVALID_PROGRAM, "CL_INVALID_PROGRAM"},
      {CL_INVALID_PROGRAM_EXECUTABLE, "CL_INVALID_PROGRAM_EXECUTABLE"},
      {CL_INVALID_KERNEL_NAME, "CL_INVALID_KERNEL_NAME"},
      {CL_INVALID_KERNEL_ARGS, "CL_INVALID_KERNEL_ARGS"},
      {CL_INVALID_ARG_INDEX, "CL_INVALID_ARG_INDEX"},
      {CL_INVALID_ARG_VALUE, "CL_INVALID_ARG_VALUE"},
      {CL_INVALID_ARG_SIZE, "CL_INVALID_ARG_SIZE"},
      {CL_INVALID_WORK_GROUP_SIZE, "CL_INVALID_WORK_GROUP_SIZE"},
      {CL_INVALID_BUFFER_SIZE, "CL_INVALID_BUFFER_SIZE"},
      {CL_INVALID_OPERATION, "CL_INVALID_OPERATION"},
      {CL_PLATFORM_NOT_FOUND_KHR, "CL_PLATFORM_NOT_FOUND_KHR"}};
  for (const auto& [known, name] : kNames) {
    if (known == code) return std::string(name) + " (" + std::to_string(code) + ")";
  }
  return "OpenCL error " + std::to_string(code);
}

void check(cl_int code, std::string_view what) {
  if (code == CL_SUCCESS) return;
  crucible_code category = CRUCIBLE_E_INTERNAL;
  std::string advice;
  switch (code) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_HOST_MEMORY:
    case CL_OUT_OF_RESOURCES:
      category = CRUCIBLE_E_OUT_OF_MEMORY;
      advice = "; use a smaller batch, or a device with more memory";
      break;
    case CL_DEVICE_NOT_AVAILABLE:
      category = CRUCIBLE_E_DEVICE_LOST;
      advice = "; the device is gone: open it again";
      break;
    case CL_COMPILER_NOT_AVAILABLE:
      category = CRUCIBLE_E_UNAVAILABLE;
      advice = "; the driver has no compiler: install a complete one";
      break;
    default:
      break;
  }
  throw sdk::Failure(category, std::string(what) + ": " + error_name(code) + advice,
                     {{"vendor.code", std::to_string(code)}});
}

ProcessGuard::ProcessGuard() : environment_(environment()) {}

ProcessGuard::~ProcessGuard() {
  const std::vector<std::string> now = environment();
  if (now == environment_) return;
  for (const std::string& variable : now) {
    if (std::ranges::find(environment_, variable) == environment_.end())
      unsetenv(variable.substr(0, variable.find('=')).c_str());
  }
  for (const std::string& variable : environment_) {
    const std::size_t sign = variable.find('=');
    if (sign != std::string::npos && std::ranges::find(now, variable) == now.end())
      setenv(variable.substr(0, sign).c_str(), variable.substr(sign + 1).c_str(), 1);
  }
}

}  // namespace crucible_opencl
