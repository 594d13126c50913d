// Compiling and loading programs: see program.hpp.
#include "backends/amd/program.hpp"

#include "backends/amd/compiler.hpp"
#include "backends/amd/options.hpp"
#include "plugins/sdk/binary_cache.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host.hpp"

namespace crucible_amd {

using namespace crucible;

namespace {

std::string names_of(const sdk::KernelBatch& batch) {
  std::string names;
  for (const std::string& name : batch.names) names += (names.empty() ? "" : ", ") + name;
  return names;
}

Module load(crucible_device& device, const std::string& bytes, const std::string& who) {
  hipModule_t module = nullptr;
  const hipError_t code = device.hip->hipModuleLoadData(&module, bytes.data());
  if (code == hipSuccess) return {*device.hip, module};
  const std::string what = "hipModuleLoadData of the kernels " + who + " on " + device.facts.id;
  if (code != hipErrorNoBinaryForGpu && code != hipErrorInvalidImage && code != hipErrorInvalidKernelFile) device.check(code, what);
  throw sdk::Failure(CRUCIBLE_E_INCOMPATIBLE,
                     what + ": " + error_text(*device.hip, code) + ": name the device's architecture with the option arch",
                     {{"vendor.code", std::to_string(code)}, {"kernel", who}});
}

/// The bytes of one batch; `built` gets everything but the module.
std::string compile(const Compiler& compiler, const sdk::BinaryCache& cache, const crucible_device& device,
                    const sdk::KernelBatch& batch, Built& built) {
  // HIPRTC asks the device for its architecture, so that the device is part of the key.
  std::string key = compiler.describe() + "\n" + version_text(device.hip->version) + "\n" + device.facts.name + "\n";
  key += compiler.flags(*device.hip, batch.is_careful) + "\n" + batch.text;
  std::string bytes = cache.find(key);
  built.from_cache = !bytes.empty();
  if (!built.from_cache) {
    Hiprtc::Compiled compiled = compiler.compile(*device.hip, batch.text, names_of(batch), batch.is_careful);
    built.log = std::move(compiled.log);
    bytes = std::move(compiled.bytes);
    cache.add(key, bytes);
  }
  built.binary_bytes = bytes.size();
  built.binary = sdk::binary_id(bytes);
  return bytes;
}

}  // namespace

std::vector<Built> build_programs(crucible_device& device, const std::vector<sdk::KernelBatch>& batches) {
  const Compiler& compiler = compiler_of(device);
  const sdk::BinaryCache cache("amd", device.cache_dir);
  const Current current(device);  // modules of a failed attempt are unloaded here
  std::vector<Built> all(batches.size());
  sdk::for_each_batch(batches.size(), [&](std::size_t i) {
    const Current on_this_thread(device);
    all[i].module = load(device, compile(compiler, cache, device, batches[i], all[i]), names_of(batches[i]));
  });
  return all;
}

std::unique_ptr<MatrixProducts> make_matrix_products(crucible_device& device) {
  auto unit = options().get_bool("matrix_units") ? sdk::matrix_unit_of_amd(architecture_of(*device.hip, device.facts.device)) : sdk::MatrixUnit::kNone;
  if (sdk::wave_of(unit) != device.facts.wave) unit = sdk::MatrixUnit::kNone;  // the fragments are those of one width
  const auto build = [&device](const sdk::KernelBatch& batch) {
    MatrixKernel kernel{.module = std::move(build_programs(device, {batch}).front().module)};
    device.check(device.hip->hipModuleGetFunction(&kernel.function, kernel.module.get(), batch.names.front().c_str()),
                 "hipModuleGetFunction of " + batch.names.front());
    return kernel;
  };
  return std::make_unique<MatrixProducts>(unit, sdk::dialect_hip(), device.facts.units, build);
}

}  // namespace crucible_amd
