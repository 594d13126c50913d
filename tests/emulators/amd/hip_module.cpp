// Modules, functions and launches of libamdhip64.
#include <algorithm>
#include <cstring>
#include <string>

#include "tests/emulators/amd/machine.hpp"

using namespace crucible::emulator;

namespace crucible::emulator {
namespace {

/// An argument buffer that lives as long as the work that reads it, at an alignment that any parameter is happy with.
struct Arguments {
  explicit Arguments(std::size_t size) : words(size / 16 + 1) {}
  struct alignas(16) Word {
    char bytes[16] = {};
  };
  std::vector<Word> words;
  char* data() { return words.front().bytes; }
  const char* data() const { return words.front().bytes; }
};

/// A device pointer as the kernel follows it. One of the host's that no device may use becomes one that faults, as does
/// one to memory of another device that this one may not use.
std::uint64_t for_kernel(const AmdDevice& device, std::uint64_t address, bool surely_a_pointer) {
  if (is_device_address(address)) {
    const auto found = machine().memory->check(address, 0);
    if (found && found->device != device.physical && (device.reached.load() >> found->device & 1) == 0)
      return address | kUnreachable;
    return (surely_a_pointer || found) && (address & ~EMU_TAG) >> 47 == 0 ? address & ~EMU_TAG : address;
  }
  if (!surely_a_pointer || address == 0 || machine().pinned.holds(reinterpret_cast<const void*>(address), 0))
    return address;
  return address | kUnreachable;
}

/// The buffer that HIP_LAUNCH_PARAM_BUFFER_POINTER names, with its size; null when `extra` is none.
const char* extra_buffer(void** extra, std::size_t& size) {
  const char* buffer = nullptr;
  size = 0;
  for (int i = 0; extra != nullptr && extra[i] != HIP_LAUNCH_PARAM_END && i < 8; i += 2) {
    if (extra[i] == HIP_LAUNCH_PARAM_BUFFER_POINTER) buffer = static_cast<const char*>(extra[i + 1]);
    if (extra[i] == HIP_LAUNCH_PARAM_BUFFER_SIZE) size = *static_cast<std::size_t*>(extra[i + 1]);
  }
  return buffer;
}

/// Rewrites the addresses among the packed arguments.
void convert_addresses(const AmdDevice& device, const LoadedKernel& kernel, char* arguments) {
  for (const Parameter& parameter : kernel.parameters) {
    if (parameter.kind == Parameter::Kind::kNumber) continue;
    const bool pointer = parameter.kind == Parameter::Kind::kPointer;
    for (std::uint32_t at = 0; at + 8 <= parameter.size; at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, arguments + parameter.offset + at, 8);
      word = for_kernel(device, word, pointer);
      std::memcpy(arguments + parameter.offset + at, &word, 8);
    }
  }
}

void flip_after(const Rule& rule, const LoadedKernel& kernel, const char* arguments) {
  std::uint64_t address = 0;
  const bool fits =
      rule.arg < kernel.parameters.size() && kernel.parameters[rule.arg].kind == Parameter::Kind::kPointer;
  if (fits) std::memcpy(&address, arguments + kernel.parameters[rule.arg].offset, 8);
  if (!fits || rule.bit > 7 || !machine().memory->check(address | EMU_TAG, rule.byte + 1)) {
    faults().note("flip: " + kernel.name + " has no byte " + std::to_string(rule.byte) + " behind argument " +
                  std::to_string(rule.arg));
    return;
  }
  host_address(address)[rule.byte] ^= static_cast<char>(1 << rule.bit);
}

}  // namespace

hipError_t check_launch(const AmdDevice& device, const ihipModuleSymbol_t* function, const LaunchShape& shape,
                        void** parameters, void** extra) {
  if (function == nullptr) return hipErrorInvalidDeviceFunction;
  if (function->code->arch() != device.arch) return hipErrorInvalidDeviceFunction;
  const LoadedKernel& kernel = *function->kernel;
  const std::uint64_t grid[] = {shape.grid.x, shape.grid.y, shape.grid.z};
  const std::uint64_t block[] = {shape.block.x, shape.block.y, shape.block.z};
  for (int i = 0; i < 3; ++i) {
    if (grid[i] == 0 || block[i] == 0 || block[i] > kMostThreads) return hipErrorInvalidConfiguration;
    if (grid[i] * block[i] > 0xffffffffu) return hipErrorInvalidConfiguration;
  }
  const std::uint64_t threads = block[0] * block[1] * block[2];
  if (threads > kMostThreads) return hipErrorInvalidConfiguration;
  if (threads > kernel.most_threads) return hipErrorLaunchFailure;  // of __launch_bounds__
  if (std::uint64_t{kernel.static_shared_bytes} + shape.shared > kSharedBytes) return hipErrorInvalidValue;
  std::size_t size = 0;
  const bool buffer = extra_buffer(extra, size) != nullptr;
  if (buffer ? size < kernel.argument_bytes : parameters == nullptr && !kernel.parameters.empty())
    return hipErrorInvalidValue;
  return parameters != nullptr && buffer ? hipErrorInvalidValue : hipSuccess;
}

NodeWork launch_work(AmdDevice& device, const ihipModuleSymbol_t& function, const LaunchShape& shape, void** parameters,
                     void** extra) {
  const LoadedKernel& kernel = *function.kernel;
  auto arguments = std::make_shared<Arguments>(kernel.argument_bytes);
  std::size_t size = 0;
  if (const char* const buffer = extra_buffer(extra, size)) {
    std::memcpy(arguments->data(), buffer, kernel.argument_bytes);
  } else {
    for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
      std::memcpy(arguments->data() + kernel.parameters[i].offset, parameters[i], kernel.parameters[i].size);
    }
  }
  const Launch launch = {.grid = {shape.grid.x, shape.grid.y, shape.grid.z},
                         .block = {shape.block.x, shape.block.y, shape.block.z},
                         .dynamic_shared_bytes = shape.shared};
  return [&device, &kernel, code = function.code, arguments = std::move(arguments), launch] {
    if (device.error() != hipSuccess) return;
    const auto rule = fault_in_stream(device, Site::kLaunch, kernel.name);
    if (device.error() != hipSuccess) return;
    Arguments now = *arguments;  // what the device may use is known when it runs
    convert_addresses(device, kernel, now.data());
    Launch with_arguments = launch;
    with_arguments.arguments = now.data();
    const ActivityScope scope(launch_activity(kernel.code, with_arguments));
    device.device.run(kernel.code, with_arguments);
    if (rule && rule->action == Action::kFlip && device.error() == hipSuccess)
      flip_after(*rule, kernel, arguments->data());
  };
}

}  // namespace crucible::emulator

namespace {

hipError_t error_of(ImageError error) {
  switch (error) {
    case ImageError::kNotOurs:
      faults().note("load: an image that the emulated hiprtc did not make; real code objects do not run here");
      return hipErrorNoBinaryForGpu;
    case ImageError::kDamaged:
      return hipErrorInvalidImage;
    case ImageError::kNotLoadable:
      return hipErrorSharedObjectInitFailed;
  }
  return hipErrorUnknown;
}

}  // namespace

extern "C" {

hipError_t hipModuleLoadData(hipModule_t* module, const void* image) {
  return answer_on_device([&](AmdDevice& device) {
    if (module == nullptr || image == nullptr) return hipErrorInvalidValue;
    if (const hipError_t fault = fault_at(device, Site::kLoad, "hipModuleLoadData", hipErrorInvalidImage)) return fault;
    const auto code = read_code_object(static_cast<const char*>(image));
    if (!code) return error_of(code.error());
    if (code->arch != device.arch || code->wave != device.wave) {
      faults().note("load: code for " + code->arch + " with waves of " + std::to_string(code->wave) + " on " +
                    device.arch + " with waves of " + std::to_string(device.wave));
      return hipErrorNoBinaryForGpu;
    }
    auto loaded = LoadedCode::load(*code);
    if (!loaded) return error_of(loaded.error());
    auto made = std::make_unique<ihipModule_t>();
    made->code = *std::move(loaded);
    *module = machine().modules.add(std::move(made));
    return hipSuccess;
  });
}

hipError_t hipModuleLoadDataEx(hipModule_t* module, const void* image, unsigned, void*, void**) {
  return hipModuleLoadData(module, image);
}

hipError_t hipModuleUnload(hipModule_t module) {
  return answer([&] { return machine().modules.take(module) != nullptr ? hipSuccess : hipErrorInvalidHandle; });
}

hipError_t hipModuleGetFunction(hipFunction_t* function, hipModule_t module, const char* name) {
  return answer_on_device([&](AmdDevice&) {
    if (function == nullptr || name == nullptr) return hipErrorInvalidValue;
    if (!machine().modules.has(module)) return hipErrorInvalidHandle;
    const LoadedKernel* const kernel = module->code->find(name);
    if (kernel == nullptr) return hipErrorNotFound;
    std::unique_ptr<ihipModuleSymbol_t>& symbol = module->functions[name];
    if (symbol == nullptr) symbol = std::make_unique<ihipModuleSymbol_t>(ihipModuleSymbol_t{module->code, kernel});
    *function = symbol.get();
    return hipSuccess;
  });
}

hipError_t hipFuncGetAttribute(int* value, hipFunction_attribute attribute, hipFunction_t function) {
  return answer([&] {
    if (value == nullptr || function == nullptr) return hipErrorInvalidValue;
    const LoadedKernel& kernel = *function->kernel;
    switch (attribute) {
      case HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = static_cast<int>(kernel.most_threads);
        return hipSuccess;
      case HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = static_cast<int>(kernel.static_shared_bytes);
        return hipSuccess;
      case HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = static_cast<int>(kSharedBytes - kernel.static_shared_bytes);
        return hipSuccess;
      case HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      case HIP_FUNC_ATTRIBUTE_NUM_REGS:
        *value = 0;  // an emulator has none
        return hipSuccess;
    }
    return hipErrorInvalidValue;
  });
}

hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, hipFunction_t function, int block,
                                                              size_t dynamic) {
  return answer([&] {
    if (blocks == nullptr || function == nullptr || block <= 0) return hipErrorInvalidValue;
    const std::size_t shared = function->kernel->static_shared_bytes + dynamic;
    const int by_shared = shared == 0 ? 32 : static_cast<int>(kSharedBytes / shared);
    *blocks = block > static_cast<int>(kMostThreads) ? 0 : std::min({32, 2048 / block, by_shared});
    return hipSuccess;
  });
}

hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz, unsigned shared, hipStream_t stream, void** parameters,
                                 void** extra) {
  return answer_on_stream(stream, [&](const Target& target) {
    const LaunchShape shape = {{gx, gy, gz}, {bx, by, bz}, shared};
    if (const hipError_t problem = check_launch(*target.device, function, shape, parameters, extra)) return problem;
    target.stream->push(launch_work(*target.device, *function, shape, parameters, extra));
    return hipSuccess;
  });
}

}  // extern "C"
