// Compile table: kernel IR, printed as HIP C++, in batches that are compiled side by side and loaded as modules of the runtime.
#include "backends/amd/kernel.hpp"
#include "backends/amd/program.hpp"
#include "backends/amd/tables.hpp"
#include "plugins/sdk/c_dialect.hpp"

namespace crucible_amd {
namespace {

using namespace crucible;

std::uint64_t function_number(crucible_device& device, hipFunction_t function, int which) {
  int value = 0;
  device.check(device.hip->hipFuncGetAttribute(&value, which, function), "hipFuncGetAttribute");
  return value > 0 ? static_cast<std::uint64_t>(value) : 0;
}

void find_kernel(crucible_device& device, const Built& built, crucible_kernel& kernel) {
  device.check(device.hip->hipModuleGetFunction(&kernel.function, built.module.get(), kernel.name.c_str()),
               "hipModuleGetFunction of " + kernel.name);
  kernel.most_threads = static_cast<std::uint32_t>(function_number(device, kernel.function, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  kernel.registers = function_number(device, kernel.function, HIP_FUNC_ATTRIBUTE_NUM_REGS);
  kernel.local_bytes = function_number(device, kernel.function, HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  kernel.shared_bytes = function_number(device, kernel.function, HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  kernel.code = built.code;
  kernel.binary_bytes = built.binary_bytes;
  kernel.binary = built.binary;
  kernel.from_cache = built.from_cache;
}

void build(crucible_module& module, const std::vector<sdk::KernelBatch>& batches) {
  crucible_device& device = *module.device;
  const Current current(device);
  std::vector<Built> built = build_programs(device, batches);
  module.from_cache = true;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    for (const std::string& name : batches[i].names) find_kernel(device, built[i], module.kernels.find(name)->second);
    module.log += built[i].log;
    module.code = built[i].code;
    module.binary_bytes += built[i].binary_bytes;
    module.from_cache &= built[i].from_cache;
    module.parts.push_back(std::move(built[i].module));
  }
}

void destroy(crucible_module* module) {
  if (module->device->watchdog.is_suspect()) return sdk::abandon(module);
  const Current current(*module->device, Current::EvenIfLost{});
  delete module;
}

using Functions =
    sdk::CompileFunctions<crucible_device, crucible_module, crucible_kernel, sdk::dialect_hip, build, destroy>;

}  // namespace

const crucible_if_compile kCompileTable = sdk::make_compile_table<Functions>();

}  // namespace crucible_amd
