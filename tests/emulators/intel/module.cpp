// Modules and kernels: SPIR-V that Intel's OpenCL driver compiles, its loops ordered first
// (plugins/spirv/ordered_loops.hpp), because that driver would sum floats in another order than a device does. A
// "native" binary is a word of ours, the SPIR-V and what that driver made of it: as on a device, to load one compiles
// nothing.
#include <cstdint>
#include <cstring>
#include <optional>

#include "plugins/spirv/ordered_loops.hpp"
#include "tests/emulators/intel/machine.hpp"

using namespace crucible::emulator;

namespace {

constexpr std::string_view kNativeMark = "emulated Xe 1\n\0\0";  // a multiple of 4 bytes

std::string name_at(const std::uint32_t* words, std::size_t count) {
  const char* text = reinterpret_cast<const char*>(words);
  return std::string(text, strnlen(text, count * 4));
}

/// The kernels of a module and what they take.
std::map<std::string, std::vector<KernelParameter>> kernels_of(const crucible::spirv::Words& words) {
  using crucible::spirv::Op;
  std::map<std::uint32_t, std::string> entries;
  std::map<std::uint32_t, KernelParameter> types;
  std::map<std::string, std::vector<KernelParameter>> kernels;
  std::vector<KernelParameter>* present = nullptr;
  for (std::size_t at = 5; at < words.size(); at += words[at] >> 16) {
    const std::size_t count = words[at] >> 16;
    if (count == 0) break;
    const std::uint32_t* w = words.data() + at;
    switch (static_cast<Op>(w[0] & 0xffff)) {
      case Op::kEntryPoint:
        entries[w[2]] = name_at(w + 3, count - 3);
        break;
      case Op::kTypePointer:
        types[w[1]] = {true, 8};
        break;
      case Op::kTypeInt:
      case Op::kTypeFloat:
        types[w[1]] = {false, w[2] / 8};
        break;
      case Op::kFunction:
        present = entries.contains(w[2]) ? &kernels[entries[w[2]]] : nullptr;
        break;
      case Op::kFunctionParameter:
        if (present != nullptr) present->push_back(types[w[1]]);
        break;
      default:
        break;
    }
  }
  return kernels;
}

/// The parts of a native binary, whose second part may be empty.
struct Native {
  std::string_view spirv, code;
};

std::string native_of(const Native& parts) {
  const std::uint64_t length = parts.spirv.size();
  std::string all(kNativeMark);
  all.append(reinterpret_cast<const char*>(&length), sizeof length);
  return all.append(parts.spirv).append(parts.code);
}

/// Nothing where the bytes are no native binary.
std::optional<Native> parts_of(std::string_view bytes) {
  std::uint64_t length = 0;
  if (!bytes.starts_with(kNativeMark) || bytes.size() < kNativeMark.size() + sizeof length) return std::nullopt;
  bytes.remove_prefix(kNativeMark.size());
  std::memcpy(&length, bytes.data(), sizeof length);
  bytes.remove_prefix(sizeof length);
  if (length > bytes.size()) return std::nullopt;
  return Native{bytes.substr(0, length), bytes.substr(length)};
}

/// What the OpenCL driver made of a program, for its one device; "" where it does not hand it out.
std::string code_of(cl_program program) {
  std::size_t size = 0;
  if (machine()->clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr) != CL_SUCCESS)
    return "";
  std::string code(size, '\0');
  auto* place = reinterpret_cast<unsigned char*>(code.data());
  return machine()->clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof place, &place, nullptr) == CL_SUCCESS ? code
                                                                                                                : "";
}

std::string build_log(cl_program program) {
  std::string log(20000, '\0');
  machine()->clGetProgramBuildInfo(program, machine()->device, CL_PROGRAM_BUILD_LOG, log.size(), log.data(), nullptr);
  log.resize(strnlen(log.data(), log.size()));
  return log;
}

/// Level Zero's build flags as OpenCL spells them.
std::string flags_of_cl(const char* given) {
  std::string flags = given == nullptr ? "" : given;
  constexpr std::string_view kNoOptimisation = "-ze-opt-disable";
  if (const std::size_t at = flags.find(kNoOptimisation); at != std::string::npos)
    flags.replace(at, kNoOptimisation.size(), "-cl-opt-disable");
  constexpr std::string_view kLargeRegisters = "-ze-opt-large-register-file";  // a processor's are as they are
  if (const std::size_t at = flags.find(kLargeRegisters); at != std::string::npos)
    flags.erase(at, kLargeRegisters.size());
  return flags;
}

}  // namespace

extern "C" {

ze_result_t zeModuleCreate(ze_context_handle_t, ze_device_handle_t, const ze_module_desc_t* description,
                           ze_module_handle_t* module, ze_module_build_log_handle_t* log) {
  if (description->stype != ZE_STRUCTURE_TYPE_MODULE_DESC) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  auto words_of_compiler = std::make_unique<_ze_module_build_log_handle_t>();
  _ze_module_build_log_handle_t& said = *words_of_compiler;
  if (log != nullptr) *log = words_of_compiler.release();
  if (const auto rule = faults().hit(Site::kCompile)) {
    act(*rule);
    if (rule->action == Action::kFail) {
      if (log != nullptr) said.text = "error: a fault was asked for";
      return ZE_RESULT_ERROR_MODULE_BUILD_FAILURE;
    }
  }
  if (machine()->is_lost) return ZE_RESULT_ERROR_DEVICE_LOST;
  std::string_view bytes(reinterpret_cast<const char*>(description->pInputModule), description->inputSize);
  std::string_view code_before;
  if (description->format == ZE_MODULE_FORMAT_NATIVE) {
    const std::optional<Native> parts = parts_of(bytes);
    if (!parts) return ZE_RESULT_ERROR_INVALID_NATIVE_BINARY;
    bytes = parts->spirv;
    code_before = parts->code;
  }
  if (bytes.size() < 20 || bytes.size() % 4 != 0) return ZE_RESULT_ERROR_MODULE_BUILD_FAILURE;
  crucible::spirv::Words words(bytes.size() / 4);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  auto made = std::make_unique<_ze_module_handle_t>();
  made->spirv = bytes;
  made->kernels = kernels_of(words);
  words = crucible::spirv::with_ordered_loops(words);
  Machine& cl = *machine();
  const std::lock_guard lock(cl.mutex);
  cl_int code = CL_SUCCESS;
  if (code_before.empty()) {
    made->program = cl.clCreateProgramWithIL(cl.context, words.data(), words.size() * 4, &code);
    if (code != CL_SUCCESS) return ZE_RESULT_ERROR_MODULE_BUILD_FAILURE;
  } else {
    const auto* place = reinterpret_cast<const unsigned char*>(code_before.data());
    const std::size_t size = code_before.size();
    made->program = cl.clCreateProgramWithBinary(cl.context, 1, &cl.device, &size, &place, nullptr, &code);
    if (code != CL_SUCCESS) return ZE_RESULT_ERROR_INVALID_NATIVE_BINARY;  // another version's of that driver
  }
  const std::string flags = flags_of_cl(description->pBuildFlags);
  code = cl.clBuildProgram(made->program, 1, &cl.device, flags.c_str(), nullptr, nullptr);
  if (code != CL_SUCCESS) {
    if (log != nullptr) said.text = build_log(made->program);
    cl.clReleaseProgram(made->program);
    return ZE_RESULT_ERROR_MODULE_BUILD_FAILURE;
  }
  *module = made.release();
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeModuleDestroy(ze_module_handle_t module) {
  const std::lock_guard lock(machine()->mutex);
  machine()->clReleaseProgram(module->program);
  delete module;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeModuleBuildLogGetString(ze_module_build_log_handle_t log, std::size_t* size, char* text) {
  if (text != nullptr) std::memcpy(text, log->text.c_str(), std::min(*size, log->text.size() + 1));
  *size = log->text.size() + 1;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeModuleBuildLogDestroy(ze_module_build_log_handle_t log) {
  delete log;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeModuleGetNativeBinary(ze_module_handle_t module, std::size_t* size, std::uint8_t* bytes) {
  const std::lock_guard lock(machine()->mutex);
  const std::string all = native_of({module->spirv, code_of(module->program)});
  if (bytes != nullptr) std::memcpy(bytes, all.data(), std::min(*size, all.size()));
  *size = all.size();
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeKernelCreate(ze_module_handle_t module, const ze_kernel_desc_t* description, ze_kernel_handle_t* kernel) {
  if (description->stype != ZE_STRUCTURE_TYPE_KERNEL_DESC) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  const auto found = module->kernels.find(description->pKernelName);
  if (found == module->kernels.end()) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  auto made = std::make_unique<_ze_kernel_handle_t>();
  made->name = found->first;
  made->parameters = found->second;
  made->arguments.resize(found->second.size());
  cl_int code = CL_SUCCESS;
  const std::lock_guard lock(machine()->mutex);
  made->kernel = machine()->clCreateKernel(module->program, made->name.c_str(), &code);
  if (code != CL_SUCCESS) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  *kernel = made.release();
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeKernelDestroy(ze_kernel_handle_t kernel) {
  const std::lock_guard lock(machine()->mutex);
  machine()->clReleaseKernel(kernel->kernel);
  delete kernel;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeKernelSetGroupSize(ze_kernel_handle_t kernel, std::uint32_t x, std::uint32_t y, std::uint32_t z) {
  if (x == 0 || y == 0 || z == 0 || std::uint64_t{x} * y * z > 1024) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  kernel->group[0] = x;
  kernel->group[1] = y;
  kernel->group[2] = z;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeKernelSetIndirectAccess(ze_kernel_handle_t, std::uint32_t) { return ZE_RESULT_SUCCESS; }

ze_result_t zeKernelSetArgumentValue(ze_kernel_handle_t kernel, std::uint32_t index, std::size_t size,
                                     const void* value) {
  if (index >= kernel->parameters.size() || size != kernel->parameters[index].size || value == nullptr) {
    faults().note("zeKernelSetArgumentValue: argument " + std::to_string(index) + " of " + kernel->name + " with " +
                  std::to_string(size) + " bytes");
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  std::uint64_t bits = 0;
  std::memcpy(&bits, value, size);
  kernel->arguments[index] = bits;
  return ZE_RESULT_SUCCESS;
}

}  // extern "C"
