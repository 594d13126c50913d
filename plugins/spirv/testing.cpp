// Running spirv-val and Intel's OpenCL driver: see testing.hpp.
#include "plugins/spirv/testing.hpp"

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS  // clCreateCommandQueue
#include <CL/cl.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "core/kernel/schedule.hpp"
#include "plugins/spirv/ordered_loops.hpp"

namespace crucible::spirv::testing {

using namespace crucible;

namespace {

constexpr const char* kValidator = "/usr/bin/spirv-val";

#define CRUCIBLE_TEST_CL_FUNCTIONS(X)                                                                            \
  X(clGetPlatformIDs)                                                                                            \
  X(clGetDeviceIDs)                                                                                              \
  X(clCreateContext) X(clCreateCommandQueue) X(clCreateProgramWithIL) X(clBuildProgram) X(clGetProgramBuildInfo) \
      X(clCreateKernel) X(clReleaseKernel) X(clReleaseProgram) X(clCreateBuffer) X(clReleaseMemObject)           \
          X(clSetKernelArg) X(clEnqueueNDRangeKernel) X(clEnqueueReadBuffer) X(clFinish)

struct Driver {
#define CRUCIBLE_TEST_CL_MEMBER(name) decltype(&::name) name = nullptr;
  CRUCIBLE_TEST_CL_FUNCTIONS(CRUCIBLE_TEST_CL_MEMBER)
#undef CRUCIBLE_TEST_CL_MEMBER
  cl_device_id device = nullptr;
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;
  std::string reason;
};

void check(cl_int code, const char* what) {
  if (code != CL_SUCCESS) throw std::runtime_error(fmt::format("{} failed with {}", what, code));
}

Driver open_driver() {
  Driver driver;
  const char* path = std::getenv("CRUCIBLE_INTEL_OPENCL");
  if (path == nullptr || *path == '\0') {
    driver.reason = "CRUCIBLE_INTEL_OPENCL does not name Intel's OpenCL driver for processors (ci/test sets it)";
    return driver;
  }
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    driver.reason = fmt::format("{} cannot be loaded: {}", path, dlerror());
    return driver;
  }
#define CRUCIBLE_TEST_CL_FIND(name) driver.name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name));
  CRUCIBLE_TEST_CL_FUNCTIONS(CRUCIBLE_TEST_CL_FIND)
#undef CRUCIBLE_TEST_CL_FIND
  cl_platform_id platform = nullptr;
  cl_int code = CL_SUCCESS;
  check(driver.clGetPlatformIDs(1, &platform, nullptr), "clGetPlatformIDs");
  check(driver.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &driver.device, nullptr), "clGetDeviceIDs");
  driver.context = driver.clCreateContext(nullptr, 1, &driver.device, nullptr, nullptr, &code);
  check(code, "clCreateContext");
  driver.queue = driver.clCreateCommandQueue(driver.context, driver.device, 0, &code);
  check(code, "clCreateCommandQueue");
  return driver;
}

Driver& driver() {
  static Driver opened = open_driver();
  return opened;
}

}  // namespace

std::string no_validator() {
  return access(kValidator, X_OK) == 0 ? "" : std::string(kValidator) + " is missing: install spirv-tools";
}

std::string validate(const Words& module) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / fmt::format("crucible-spirv-{}.spv", getpid());
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(module.data()), static_cast<std::streamsize>(module.size() * 4));
  // OpenCL 2.1 has SPIR-V 1.0, 2.2 what is newer.
  const std::string environment = module[1] > 0x10000 ? "opencl2.2" : "opencl2.1";
  std::FILE* pipe = popen(
      fmt::format("{} --target-env {} {} 2>&1; echo \"exit code $?\"", kValidator, environment, file.string()).c_str(),
      "r");
  std::string said;
  char line[512];
  while (pipe != nullptr && std::fgets(line, sizeof line, pipe) != nullptr) said += line;
  if (pipe != nullptr) pclose(pipe);
  const bool is_valid = said == "exit code 0\n";
  if (is_valid || std::getenv("CRUCIBLE_KEEP_KERNELS") == nullptr) std::filesystem::remove(file);
  return is_valid ? "" : said;
}

OneKernel::OneKernel(std::span<const sdk::Type> types) {
  for (std::size_t i = 0; i < types.size(); ++i) kernel.buffers.push_back({types[i], i + 1 == types.size(), false});
  kernel.variables.push_back({sdk::Type::kI64, false});
  item = add({.operation = sdk::Op::kVariable, .type = sdk::Type::kI64, .id = 0});
  kernel.body.push_back({.kind = sdk::StmtKind::kGrid, .id = 0, .body = {}});
}

std::uint32_t OneKernel::add(sdk::Expr expr) {
  kernel.exprs.push_back(expr);
  return static_cast<std::uint32_t>(kernel.exprs.size() - 1);
}

std::uint32_t OneKernel::load(std::uint32_t buffer) {
  return add({.operation = sdk::Op::kLoad,
              .type = kernel.buffers[buffer].type,
              .in = {item, sdk::kNoId, sdk::kNoId},
              .id = buffer});
}

void OneKernel::store(std::uint32_t result) {
  const auto last = static_cast<std::uint32_t>(kernel.buffers.size() - 1);
  kernel.body[0].body.push_back({.kind = sdk::StmtKind::kStore, .id = last, .a = item, .b = result, .body = {}});
  sdk::check_kernel(kernel);
}

struct DeviceProgram::State {
  cl_program program = nullptr;
  std::map<std::string, cl_kernel> kernels;
};

std::string DeviceProgram::no_device() { return driver().reason; }

DeviceProgram::DeviceProgram(const Words& clean) : state_(std::make_unique<State>()) {
  Driver& cl = driver();
  const Words module = with_ordered_loops(clean);
  cl_int code = CL_SUCCESS;
  state_->program = cl.clCreateProgramWithIL(cl.context, module.data(), module.size() * 4, &code);
  check(code, "clCreateProgramWithIL");
  code = cl.clBuildProgram(state_->program, 1, &cl.device, "-cl-fp32-correctly-rounded-divide-sqrt", nullptr, nullptr);
  if (code == CL_SUCCESS) return;
  std::string log(20000, '\0');
  cl.clGetProgramBuildInfo(state_->program, cl.device, CL_PROGRAM_BUILD_LOG, log.size(), log.data(), nullptr);
  throw std::runtime_error(fmt::format("clBuildProgram failed with {}: {}", code, log.c_str()));
}

DeviceProgram::~DeviceProgram() {
  for (const auto& [name, kernel] : state_->kernels) driver().clReleaseKernel(kernel);
  driver().clReleaseProgram(state_->program);
}

void DeviceProgram::run(const std::string& name, const std::vector<Parameter>& parameters,
                        std::span<std::vector<std::byte>* const> buffers, std::span<const std::uint64_t> scalars,
                        std::int64_t begin, std::int64_t end, std::size_t width, std::size_t group) {
  Driver& cl = driver();
  cl_int code = CL_SUCCESS;
  cl_kernel& kernel = state_->kernels[name];
  if (kernel == nullptr) {
    kernel = cl.clCreateKernel(state_->program, name.c_str(), &code);
    check(code, "clCreateKernel");
  }
  std::map<std::vector<std::byte>*, cl_mem> memories;
  for (std::vector<std::byte>* buffer : buffers) {
    cl_mem& memory = memories[buffer];
    if (memory != nullptr) continue;
    std::byte nothing[8] = {};
    const bool is_empty = buffer->empty();
    memory = cl.clCreateBuffer(cl.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                               is_empty ? sizeof nothing : buffer->size(), is_empty ? nothing : buffer->data(), &code);
    check(code, "clCreateBuffer");
  }
  for (cl_uint i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    std::uint64_t bits = 0;
    if (parameter.kind == ParameterKind::kScalar) bits = scalar_bits(parameter, scalars[parameter.index]);
    if (parameter.kind == ParameterKind::kBegin) bits = static_cast<std::uint64_t>(begin);
    if (parameter.kind == ParameterKind::kEnd) bits = static_cast<std::uint64_t>(end);
    const bool is_buffer = parameter.kind == ParameterKind::kBuffer;
    const void* value = is_buffer ? static_cast<const void*>(&memories[buffers[parameter.index]]) : &bits;
    check(cl.clSetKernelArg(kernel, i, is_buffer ? sizeof(cl_mem) : parameter.size(), value), "clSetKernelArg");
  }
  check(cl.clEnqueueNDRangeKernel(cl.queue, kernel, 1, nullptr, &width, group == 0 ? nullptr : &group, 0, nullptr,
                                  nullptr),
        "clEnqueueNDRangeKernel");
  for (const auto& [buffer, memory] : memories) {
    if (!buffer->empty())
      check(cl.clEnqueueReadBuffer(cl.queue, memory, CL_TRUE, 0, buffer->size(), buffer->data(), 0, nullptr, nullptr),
            "clEnqueueReadBuffer");
  }
  check(cl.clFinish(cl.queue), "clFinish");
  for (const auto& [buffer, memory] : memories) cl.clReleaseMemObject(memory);
}

}  // namespace crucible::spirv::testing
