// From text to code that is loaded on the device: machine code where compiler and driver know it, else PTX.
#include "backends/nvidia/kernel.hpp"
#include "backends/nvidia/nvrtc.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host.hpp"
#include "plugins/sdk/kept.hpp"

namespace crucible_nvidia {

using namespace crucible;

namespace {

/// Machine code where the compiler knows the device and the driver has not refused it.
Code choose_code(const crucible_device& device, const Nvrtc& compiler) {
  const std::string& option = device.code;
  const bool knows = compiler.knows(device.facts.capability);
  if (option == "cubin" && !knows) {
    throw sdk::Failure(CRUCIBLE_E_INCOMPATIBLE,
                       compiler.describe() + " (" + compiler.file + ") makes no machine code for " +
                           device.facts.architecture() + ": set the option code to auto, or name a newer NVRTC",
                       {{"have", compiler.describe()}, {"need", device.facts.architecture()}});
  }
  if (option == "cubin") return Code::kCubin;
  return option == "ptx" || !knows || device.refuses_cubins ? Code::kPtx : Code::kCubin;
}

/// A module, or the driver's words about code that it does not take.
struct Loaded {
  CUresult code = CUDA_SUCCESS;
  Module module;
  std::string log;
};

/// `is_careful`: the driver compiles PTX with less optimisation.
Loaded try_load(crucible_device& device, const std::string& bytes, bool is_careful) {
  char log[4096] = {};
  int names[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_OPTIMIZATION_LEVEL};
  void* values[] = {log, reinterpret_cast<void*>(sizeof(log) - 1), reinterpret_cast<void*>(std::uintptr_t{1})};
  CUmodule module = nullptr;
  Loaded loaded;
  loaded.code = device.driver->cuModuleLoadDataEx(&module, bytes.data(), is_careful ? 3 : 2, names, values);
  if (loaded.code == CUDA_SUCCESS) loaded.module = Module(*device.driver, module);
  loaded.log = log;
  return loaded;
}

[[noreturn]] void refuse(crucible_device& device, const Nvrtc& compiler, const Loaded& loaded, const std::string& who) {
  std::string advice;
  if (loaded.code == CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
    advice = ": " + compiler.describe() + " is newer than the driver (CUDA " + version_text(device.driver->version) +
             "); update the driver, or name an older NVRTC with the option nvrtc";
  if (loaded.code == CUDA_ERROR_NO_BINARY_FOR_GPU) advice = ": set the option code to auto or ptx";
  const bool is_incompatible = loaded.code == CUDA_ERROR_UNSUPPORTED_PTX_VERSION ||
                               loaded.code == CUDA_ERROR_NO_BINARY_FOR_GPU || loaded.code == CUDA_ERROR_INVALID_IMAGE ||
                               loaded.code == CUDA_ERROR_INVALID_PTX;
  const std::string what = "cuModuleLoadDataEx of the kernels " + who + " on " + device.facts.id;
  if (!is_incompatible) device.check(loaded.code, what);
  throw sdk::Failure(CRUCIBLE_E_INCOMPATIBLE,
                     what + ": " + error_text(*device.driver, loaded.code) + advice +
                         (loaded.log.empty() ? "" : " (" + loaded.log + ")"),
                     {{"vendor.code", std::to_string(loaded.code)}, {"kernel", who}});
}

class Builder {
 public:
  Builder(crucible_device& device, const Nvrtc& compiler) : device_(device), compiler_(compiler) {}

  /// The bytes of one batch as `code`; `built` gets everything but the module.
  std::string compile(const sdk::KernelBatch& batch, Code code, Built& built) const {
    std::vector<std::string> flags = numeric_flags();
    flags.push_back(compiler_.architecture_flag(device_.facts.capability, code));
    if (batch.is_careful && code == Code::kCubin) flags.push_back("--ptxas-options=-O1");
    sdk::KeptKey key{.content = batch.text,
                     .target = device_.facts.architecture(),
                     .toolchain = compiler_.describe(),
                     .options = ""};
    for (const std::string& flag : flags) key.options += (key.options.empty() ? "" : " ") + flag;
    built.code = code == Code::kCubin ? "cubin" : "ptx";
    return sdk::compile_or_find(key, built,
                                [&] { return compiler_.compile(batch.text, flags, code, sdk::names_of(batch)); });
  }

 private:
  crucible_device& device_;
  const Nvrtc& compiler_;
};

}  // namespace

std::vector<Built> GraphApi::build_programs(crucible_device& device, const std::vector<sdk::KernelBatch>& batches) {
  const Nvrtc& compiler = nvrtc(*device.driver);
  const Builder builder(device, compiler);
  const Current current(device);  // modules of a failed attempt are unloaded here
  for (;;) {
    std::vector<Built> all(batches.size());
    if (batches.empty()) return all;
    const Code code = choose_code(device, compiler);
    /// False when the driver refuses machine code and PTX may be tried.
    const auto compile_and_load = [&](std::size_t i, bool may_refuse) {
      const std::string bytes = builder.compile(batches[i], code, all[i]);
      const Current on_this_thread(device);
      Loaded loaded = try_load(device, bytes, batches[i].is_careful);
      if (loaded.code == CUDA_ERROR_NO_BINARY_FOR_GPU && may_refuse) return false;
      if (loaded.code != CUDA_SUCCESS) refuse(device, compiler, loaded, sdk::names_of(batches[i]));
      all[i].module = std::move(loaded.module);
      return true;
    };
    // A driver that takes no machine code says so of the first batch: the others are not compiled for nothing.
    if (!compile_and_load(0, code == Code::kCubin && device.code == "auto")) {
      device.refuses_cubins = true;
      sdk::log(sdk::LogLevel::kInfo, "compile",
               device.facts.id + " refuses machine code for " + device.facts.architecture() +
                   " (CUDA_ERROR_NO_BINARY_FOR_GPU): it gets PTX from now on");
      continue;
    }
    sdk::for_each_batch(batches.size() - 1, [&](std::size_t i) { compile_and_load(i + 1, false); });
    return all;
  }
}

}  // namespace crucible_nvidia
