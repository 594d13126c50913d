// From text to code that is loaded on the device.
#include "backends/amd/compiler.hpp"
#include "backends/amd/kernel.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host.hpp"
#include "plugins/sdk/kept.hpp"

namespace crucible_amd {

using namespace crucible;

namespace {

Module load(crucible_device& device, const std::string& bytes, const std::string& who) {
  hipModule_t module = nullptr;
  const hipError_t code = device.driver->hipModuleLoadData(&module, bytes.data());
  if (code == hipSuccess) return {*device.driver, module};
  const std::string what = "hipModuleLoadData of the kernels " + who + " on " + device.facts.id;
  if (code != hipErrorNoBinaryForGpu && code != hipErrorInvalidImage && code != hipErrorInvalidKernelFile)
    device.check(code, what);
  throw sdk::Failure(
      CRUCIBLE_E_INCOMPATIBLE,
      what + ": " + error_text(*device.driver, code) + ": name the device's architecture with the option arch",
      {{"vendor.code", std::to_string(code)}, {"kernel", who}});
}

/// The bytes of one batch; `built` gets everything but the module.
std::string compile(const Compiler& compiler, const crucible_device& device, const sdk::KernelBatch& batch,
                    Built& built) {
  // HIPRTC asks the device for its architecture, so that the device is part of the key.
  const sdk::KeptKey key{.content = batch.text,
                         .target = device.facts.name,
                         .toolchain = compiler.describe() + ", HIP " + version_text(device.driver->version),
                         .options = compiler.flags(*device.driver, batch.is_careful)};
  built.code = "code object";
  return sdk::compile_or_find(
      key, built, [&] { return compiler.compile(*device.driver, batch.text, sdk::names_of(batch), batch.is_careful); });
}

}  // namespace

std::vector<Built> GraphApi::build_programs(crucible_device& device, const std::vector<sdk::KernelBatch>& batches) {
  const Compiler& compiler = compiler_of(device);
  const Current current(device);  // modules of a failed attempt are unloaded here
  std::vector<Built> all(batches.size());
  sdk::for_each_batch(batches.size(), [&](std::size_t i) {
    const Current on_this_thread(device);
    all[i].module = load(device, compile(compiler, device, batches[i], all[i]), sdk::names_of(batches[i]));
  });
  return all;
}

}  // namespace crucible_amd
