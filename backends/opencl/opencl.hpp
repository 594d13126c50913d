// OpenCL as this plugin sees it: the functions of the machine's loader, found at run time, and its errors in words. The
// plugin links no OpenCL library, so it is built and loaded on machines that have none.
#pragma once

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS  // clCreateCommandQueue, which every version has
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include <string>
#include <string_view>
#include <vector>

#include "plugins/sdk/owned.hpp"
#include "plugins/sdk/signal_guard.hpp"

namespace crucible_opencl {

// All that are called always. Everything is in OpenCL 1.2, so that devices of any age will do.
#define CRUCIBLE_OPENCL_FUNCTIONS(X)                                                                             \
  X(clGetPlatformIDs) X(clGetPlatformInfo) X(clGetDeviceIDs) X(clGetDeviceInfo)                                  \
  X(clCreateContext) X(clReleaseContext) X(clCreateCommandQueue) X(clReleaseCommandQueue) X(clFlush) X(clFinish) \
  X(clCreateBuffer) X(clReleaseMemObject)                                                                         \
  X(clEnqueueWriteBuffer) X(clEnqueueReadBuffer) X(clEnqueueFillBuffer) X(clEnqueueCopyBuffer)                   \
  X(clCreateProgramWithSource) X(clCreateProgramWithBinary) X(clBuildProgram) X(clReleaseProgram)                \
  X(clGetProgramInfo) X(clGetProgramBuildInfo)                                                                   \
  X(clCreateKernel) X(clReleaseKernel) X(clSetKernelArg) X(clGetKernelWorkGroupInfo) X(clEnqueueNDRangeKernel)   \
  X(clGetEventProfilingInfo) X(clReleaseEvent) X(clGetExtensionFunctionAddressForPlatform)                       \
  X(clEnqueueMarkerWithWaitList) X(clGetEventInfo)

// Of OpenCL 2.0: shared virtual memory.
#define CRUCIBLE_OPENCL_OPTIONAL_FUNCTIONS(X)                                                                    \
  X(clSVMAlloc) X(clSVMFree) X(clSetKernelArgSVMPointer) X(clSetKernelExecInfo) X(clEnqueueSVMMemcpy)            \
  X(clEnqueueSVMMemFill)

// Of OpenCL 2.1: programs in SPIR-V.
#define CRUCIBLE_OPENCL_SPIRV_FUNCTIONS(X) X(clCreateProgramWithIL)

struct Functions {
#define CRUCIBLE_OPENCL_MEMBER(name) decltype(&::name) name = nullptr;
  CRUCIBLE_OPENCL_FUNCTIONS(CRUCIBLE_OPENCL_MEMBER)
  CRUCIBLE_OPENCL_OPTIONAL_FUNCTIONS(CRUCIBLE_OPENCL_MEMBER)  // null: not there
  CRUCIBLE_OPENCL_SPIRV_FUNCTIONS(CRUCIBLE_OPENCL_MEMBER)     // null: not there
#undef CRUCIBLE_OPENCL_MEMBER
};

/// The functions of the library that the option `library` names, loaded at the first call and never unloaded: the
/// reference is good until the process ends. Threads: any. Errors: UNAVAILABLE with what was tried and what to install.
const Functions& opencl();

/// "CL_OUT_OF_RESOURCES (-5)"; a number alone for one that is not known.
std::string error_name(cl_int code);

/// Throws a Failure "`what`: CL_..." unless `code` is CL_SUCCESS: OUT_OF_MEMORY, DEVICE_LOST, UNAVAILABLE or INTERNAL,
/// with the number as vendor.code.
void check(cl_int code, std::string_view what);

/// Signal handlers and environment as they were when the guard was made. Drivers change them when they start (PoCL
/// handles divisions by zero and sets a variable for a library of its own); they belong to the process, whose guest the
/// plugin is.
class ProcessGuard {
 public:
  ProcessGuard();
  ~ProcessGuard();
  ProcessGuard(const ProcessGuard&) = delete;
  ProcessGuard& operator=(const ProcessGuard&) = delete;

 private:
  crucible::sdk::SignalGuard signals_;
  std::vector<std::string> environment_;
};

/// A reference to an object of OpenCL.
template <class Handle, auto release>
using Owned = crucible::sdk::Owned<Functions, Handle, release>;
using Context = Owned<cl_context, &Functions::clReleaseContext>;
using Queue = Owned<cl_command_queue, &Functions::clReleaseCommandQueue>;
using Memory = Owned<cl_mem, &Functions::clReleaseMemObject>;
using Program = Owned<cl_program, &Functions::clReleaseProgram>;
using KernelObject = Owned<cl_kernel, &Functions::clReleaseKernel>;
using Event = Owned<cl_event, &Functions::clReleaseEvent>;

}  // namespace crucible_opencl
