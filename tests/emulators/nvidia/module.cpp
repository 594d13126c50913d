// Modules from PTX, their kernels, and launches. Machine code is refused: nothing here could run it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/emulators/core/settings.hpp"
#include "tests/emulators/nvidia/driver.hpp"

namespace crucible::emulators::nvidia {
namespace {

/// Writes what went wrong where the application asked for it.
void give_log(unsigned count, const CUjit_option* options, void** values, const std::string& text) {
  char* buffer = nullptr;
  std::size_t size = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) buffer = static_cast<char*>(values[i]);
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) size = reinterpret_cast<std::size_t>(values[i]);
  }
  if (buffer != nullptr && size > 0) std::snprintf(buffer, size, "%s", text.c_str());
}

/// ELF, or a fat binary.
bool is_machine_code(const void* image) {
  unsigned magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  return std::memcmp(image,
                     "\x7f"
                     "ELF",
                     4) == 0 ||
         magic == 0xba55ed50 || magic == 0x466243b1;
}

int capability_of(const std::string& target) { return target.starts_with("sm_") ? std::atoi(target.c_str() + 3) : 0; }

CUresult load(CUcontext context, const char* text, std::unique_ptr<CUmod_st>& module, std::string& log) {
  ptx::Translation translation;
  try {
    const emulator::Settings& settings = emulator::settings();
    ptx::Telling telling = {.work = settings.timing == emulator::Timing::kRoofline, .shared = settings.races};
    translation = ptx::translate(text, telling);
    telling.warps = WarpReport::find() != nullptr && !translation.globals.empty();
    if (telling.warps) translation = ptx::translate(text, telling);
  } catch (const ptx::Error& error) {
    log = std::string("emulator: ") + error.what();
    return CUDA_ERROR_INVALID_PTX;
  }
  const int have = record_of(context).generation.capability, need = capability_of(translation.target);
  if (need > have) {
    log = "emulator: the text is for " + translation.target + ", the device is sm_" + std::to_string(have);
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  auto loaded = ptx::Library::load(std::move(translation));
  if (!loaded) {
    log = "emulator: the C compiler refuses what the translator wrote: " + loaded.error();
    return CUDA_ERROR_INVALID_PTX;
  }
  module = std::make_unique<CUmod_st>();
  module->library = std::make_shared<const ptx::Library>(std::move(*loaded));
  const auto& kernels = module->library->translation().kernels;
  std::shared_ptr<TellingModule> telling;
  if (module->library->translation().telling.warps) {
    telling = std::make_shared<TellingModule>(text, module->library);
  } else if (WarpReport::find() != nullptr) {
    telling = std::make_shared<TellingModule>(text);
  }
  for (std::uint32_t i = 0; i < kernels.size(); ++i) {
    CUfunc_st function;
    function.module = module.get();
    function.kernel = {module->library, module->library->code(i), i, 0, telling};
    if (kernels[i].shared_bytes > 49152) {
      log = "emulator: ptxas error: " + kernels[i].name + " uses too much shared data (" +
            std::to_string(kernels[i].shared_bytes) + " bytes, 49152 at most)";
      return CUDA_ERROR_INVALID_PTX;
    }
    function.kernel.most_dynamic_shared = 49152 - kernels[i].shared_bytes;
    module->functions.emplace(kernels[i].name, std::move(function));
  }
  return CUDA_SUCCESS;
}

bool owns(CUfunction function) { return function != nullptr && driver().modules.has(function->module); }

CUresult launch(CUfunction function, const emulator::Launch& shape, CUstream handle, void** parameters, void** extra) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  if (!owns(function)) return CUDA_ERROR_INVALID_HANDLE;
  auto* const stream = stream_of(context, handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult code = check_launch(record_of(context), function->kernel, shape)) return code;
  auto arguments = pack_arguments(function->kernel.kernel(), parameters, extra);
  if (!arguments) return CUDA_ERROR_INVALID_VALUE;
  stream->push(kernel_work(*context->device, *function, shape, std::move(*arguments)));
  return CUDA_SUCCESS;
}

/// Turns a bit over in the memory that an argument points to.
void flip(const emulator::Rule& rule, const ptx::Kernel& kernel, const std::vector<char>& arguments) {
  if (rule.arg >= kernel.parameters.size() || kernel.parameters[rule.arg].size != 8) {
    return emulator::faults().note("flip: argument " + std::to_string(rule.arg) + " of " + kernel.name +
                                   " is no pointer");
  }
  CUdeviceptr address = 0;
  std::memcpy(&address, arguments.data() + kernel.parameters[rule.arg].offset, sizeof address);
  const auto where = resolve(address + rule.byte, 1);
  if (!where)
    return emulator::faults().note("flip: byte " + std::to_string(rule.byte) +
                                   " is outside of the memory of argument " + std::to_string(rule.arg));
  **where = static_cast<char>(**where ^ (1 << (rule.bit & 7)));
}

}  // namespace

std::optional<std::vector<char>> pack_arguments(const ptx::Kernel& kernel, void** parameters, void** extra) {
  std::vector<char> bytes(kernel.parameter_bytes + 16);
  if (kernel.parameters.empty()) return bytes;
  if (parameters != nullptr) {
    for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
      if (parameters[i] == nullptr) return std::nullopt;
      std::memcpy(bytes.data() + kernel.parameters[i].offset, parameters[i], kernel.parameters[i].size);
    }
    return bytes;
  }
  const void* buffer = nullptr;
  std::size_t size = 0;
  for (std::size_t i = 0; extra != nullptr && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = extra[i + 1];
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) size = *static_cast<const std::size_t*>(extra[i + 1]);
  }
  if (buffer == nullptr || size < kernel.parameter_bytes) return std::nullopt;
  std::memcpy(bytes.data(), buffer, kernel.parameter_bytes);
  return bytes;
}

CUresult check_launch(const DeviceRecord&, const KernelOfModule& kernel, const emulator::Launch& launch) {
  const auto& [x, y, z] = launch.block;
  for (std::size_t i = 0; i < 3; ++i) {
    if (launch.grid[i] == 0 || launch.block[i] == 0) return CUDA_ERROR_INVALID_VALUE;
  }
  if (launch.grid[0] > 2147483647u || launch.grid[1] > 65535 || launch.grid[2] > 65535) return CUDA_ERROR_INVALID_VALUE;
  if (x > 1024 || y > 1024 || z > 64 || std::uint64_t{x} * y * z > 1024) return CUDA_ERROR_INVALID_VALUE;
  const ptx::Kernel& facts = kernel.kernel();
  if (x * y * z > facts.max_threads) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  if (facts.required_block[0] != 0 &&
      (x != facts.required_block[0] || y != facts.required_block[1] || z != facts.required_block[2])) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return launch.dynamic_shared_bytes > kernel.most_dynamic_shared ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

emulator::NodeWork kernel_work(emulator::Device& device, const CUfunc_st& function, const emulator::Launch& launch,
                               std::vector<char> arguments) {
  return [&device, kernel = function.kernel, launch, arguments = std::move(arguments)] {
    if (device.state() != emulator::DeviceState::kGood) return;
    const auto rule = device.at(emulator::Site::kLaunch, kernel.kernel().name);
    if (rule && rule->action == emulator::Action::kFail) device.fail(emulator::DeviceState::kTrap);
    if (rule && rule->action == emulator::Action::kLost) {
      for (auto& record : driver().devices) {
        if (&record->device == &device) record->lost_code = code_of(*rule, CUDA_ERROR_DEVICE_UNAVAILABLE);
      }
    }
    if (device.state() != emulator::DeviceState::kGood) return;
    const std::vector<char> reachable = reachable_arguments(device, kernel.kernel(), arguments);
    emulator::Launch now = launch;
    now.arguments = reachable.data();
    const emulator::ActivityScope scope(emulator::launch_activity(kernel.code, now));
    std::optional<emulator::Sampling> sampling;
    if (kernel.telling != nullptr)
      sampling = WarpReport::find()->launched(*kernel.telling, kernel.index, now, emulator::running_graph());
    device.run(kernel.code, now, sampling ? &*sampling : nullptr);
    if (kernel.telling != nullptr && WarpReport::find()->runs_whole(kernel.kernel(), now)) {
      const emulator::Sampling none;
      device.run(kernel.code, now, &none);
    }
    if (rule && rule->action == emulator::Action::kFlip) flip(*rule, kernel.kernel(), arguments);
  };
}

}  // namespace crucible::emulators::nvidia

using namespace crucible::emulators::nvidia;

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count, CUjit_option* options, void** values) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const auto fault =
          fault_at(context, crucible::emulator::Site::kLoad, "cuModuleLoadDataEx", CUDA_ERROR_INVALID_PTX)) {
    give_log(count, options, values, "a fault was asked for");
    return *fault;
  }
  if (is_machine_code(image)) {
    give_log(count, options, values, "emulator: machine code cannot be run, give PTX");
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  std::unique_ptr<CUmod_st> made;
  std::string log;
  if (const CUresult code = load(context, static_cast<const char*>(image), made, log)) {
    give_log(count, options, values, log);
    crucible::emulator::faults().note("refused: " + log);
    return code;
  }
  {
    Driver& the = driver();
    const std::lock_guard lock(the.mutex);
    for (const auto& global : made->library->translation().globals) {
      the.ranges[reinterpret_cast<std::uint64_t>(made->library->address(global)) | EMU_TAG] = {
          global.bytes, Range::Kind::kModule, context->device->index()};
    }
  }
  *module = driver().modules.add(std::move(made));
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}

CUresult cuModuleUnload(CUmodule module) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  const auto taken = driver().modules.take(module);
  if (taken == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  context->device->synchronize();
  const std::lock_guard lock(driver().mutex);
  for (const auto& global : taken->library->translation().globals) {
    driver().ranges.erase(reinterpret_cast<std::uint64_t>(taken->library->address(global)) | EMU_TAG);
  }
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  if (!driver().modules.has(module)) return CUDA_ERROR_INVALID_HANDLE;
  if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto found = module->functions.find(name);
  if (found == module->functions.end()) return CUDA_ERROR_NOT_FOUND;
  *function = &found->second;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal(CUdeviceptr* address, std::size_t* size, CUmodule module, const char* name) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  if (!driver().modules.has(module)) return CUDA_ERROR_INVALID_HANDLE;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& global : module->library->translation().globals) {
    if (global.name != name) continue;
    if (address != nullptr) *address = reinterpret_cast<CUdeviceptr>(module->library->address(global)) | EMU_TAG;
    if (size != nullptr) *size = global.bytes;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  if (const CUresult code = ready()) return code;
  if (!owns(function)) return CUDA_ERROR_INVALID_HANDLE;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto& kernel = function->kernel.kernel();
  const std::map<int, int> values = {
      {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, static_cast<int>(kernel.max_threads)},
      {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, static_cast<int>(kernel.shared_bytes)},
      {CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, 0},
      {CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, static_cast<int>(kernel.local_bytes)},
      // A guess: the text's registers are before allocation.
      {CU_FUNC_ATTRIBUTE_NUM_REGS, static_cast<int>(std::min(255u, kernel.registers / 4 + 16))},
      {CU_FUNC_ATTRIBUTE_PTX_VERSION, capability_of(function->kernel.library->translation().target)},
      {CU_FUNC_ATTRIBUTE_BINARY_VERSION, capability_of(function->kernel.library->translation().target)},
      {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(function->kernel.most_dynamic_shared)},
  };
  const auto found = values.find(attribute);
  *value = found == values.end() ? 0 : found->second;
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  if (!owns(function)) return CUDA_ERROR_INVALID_HANDLE;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_SUCCESS;  // preferences
  const int most =
      record_of(context).generation.most_shared_per_block - static_cast<int>(function->kernel.kernel().shared_bytes);
  if (value < 0 || value > most) return CUDA_ERROR_INVALID_VALUE;
  function->kernel.most_dynamic_shared = static_cast<std::uint32_t>(value);
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int block_size,
                                                     std::size_t dynamic_bytes) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  if (!owns(function)) return CUDA_ERROR_INVALID_HANDLE;
  if (blocks == nullptr || block_size <= 0) return CUDA_ERROR_INVALID_VALUE;
  const Generation& g = record_of(context).generation;
  const int shared = static_cast<int>(function->kernel.kernel().shared_bytes + dynamic_bytes) + 1024;
  const int by_threads = g.threads_per_multiprocessor / ((block_size + 31) / 32 * 32);
  *blocks = std::min({g.blocks_per_multiprocessor, by_threads, g.shared_per_multiprocessor / shared});
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** parameters,
                        void** extra) {
  return launch(function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, nullptr}, stream,
                parameters, extra);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  if (const CUresult code = ready()) return code;
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttributeID id = config->attrs[i].id;
    if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION || id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
      return CUDA_ERROR_NOT_SUPPORTED;
  }
  return launch(function,
                {{config->gridDimX, config->gridDimY, config->gridDimZ},
                 {config->blockDimX, config->blockDimY, config->blockDimZ},
                 config->sharedMemBytes,
                 nullptr},
                config->hStream, parameters, extra);
}
