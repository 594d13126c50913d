// Compile table of a CUDA-like driver: kernel IR, printed as C++, in batches that are compiled side by side, or taken
// from the folder of those that were, and loaded as modules of the driver.
//
// A plugin defines crucible_kernel and crucible_module as structs that derive from GraphKernel and GraphModule, and
// makes the table with make_graph_compile_table(). Of its traits class (graph_driver.hpp) this calls `static
// std::vector<BuiltBatch<Api>> build_programs(Device&, const std::vector<KernelBatch>&)`, which compiles and loads:
// errors: INTERNAL with the compiler's own words and the kernels' names; INCOMPATIBLE when the driver takes none of
// what the compiler makes. And kModuleGetFunction(function*, module, name), kFunctionAttribute(value*, which, function)
// with the numbers kMostThreads, kRegisters, kLocalBytes and kSharedBytes.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plugins/sdk/compile_table.hpp"
#include "plugins/sdk/graph_driver.hpp"
#include "plugins/sdk/kept.hpp"

namespace crucible::sdk {

/// A kernel that does many launches of others (batch_kernel.hpp): made when a plan first wants it.
template <class Api>
struct GraphBatchKernel {
  std::shared_ptr<typename Api::DriverModule> module;  // kernels that were built together share one
  typename Api::Function function = nullptr;
  std::uint32_t most_threads = 0;  // of a block
};

template <class Api>
struct GraphKernel : DeviceKernel {
  typename Api::Function function = nullptr;
  std::map<std::string, std::shared_ptr<const GraphBatchKernel<Api>>> batches;  // by name: those that it is first in
};

template <class Api>
struct GraphModule : DeviceModule<typename Api::Device, typename Api::Kernel> {
  std::vector<typename Api::DriverModule> parts;  // one per batch of kernels
};

/// What became of one batch.
template <class Api>
struct BuiltBatch {
  typename Api::DriverModule module;
  std::string log;   // of the compiler
  std::string code;  // in the vendor's word: "cubin", "code object"
  std::uint64_t binary_bytes = 0;
  std::string binary;  // binary_id()
  bool from_cache = false;
};

/// "k1, k2".
inline std::string names_of(const KernelBatch& batch) {
  std::string names;
  for (const std::string& name : batch.names) names += (names.empty() ? "" : ", ") + name;
  return names;
}

/// The bytes of what `key` names: kept ones, else what `compile` gives, with `log` and `bytes`. `built` gets everything
/// but module and code.
template <class Api, class Compile>
std::string compile_or_find(const KeptKey& key, BuiltBatch<Api>& built, const Compile& compile) {
  std::string bytes = find_kept(key);
  built.from_cache = !bytes.empty();
  if (!built.from_cache) {
    auto compiled = compile();
    built.log = std::move(compiled.log);
    bytes = std::move(compiled.bytes);
    keep(key, bytes);
  }
  built.binary_bytes = bytes.size();
  built.binary = binary_id(bytes);
  return bytes;
}

template <class Api>
typename Api::Function find_function(typename Api::Device& device, const typename Api::DriverModule& module,
                                     const std::string& name) {
  typename Api::Function function = nullptr;
  device.call({"", " of " + name}, Api::kModuleGetFunction, &function, module.get(), name.c_str());
  return function;
}

/// Products by kernels that are built so. `device` outlives them.
template <class Api>
std::unique_ptr<typename GraphDevice<Api>::MatrixProducts> make_graph_matrix_products(typename Api::Device& device,
                                                                                      MatrixUnit unit) {
  const auto build = [&device](const KernelBatch& batch) {
    GraphMatrixKernel<Api> kernel{.module = std::move(Api::build_programs(device, {batch}).front().module)};
    kernel.function = find_function<Api>(device, kernel.module, batch.names.front());
    return kernel;
  };
  return std::make_unique<typename GraphDevice<Api>::MatrixProducts>(unit, Api::dialect(), device.facts.units, build);
}

template <class Api>
struct GraphCompile {
  using Device = typename Api::Device;
  using Current = typename Api::Current;

  static std::uint64_t function_number(Device& device, typename Api::Function function, int which) {
    int value = 0;
    device.call({}, Api::kFunctionAttribute, &value, which, function);
    return value > 0 ? static_cast<std::uint64_t>(value) : 0;
  }

  static void find_kernel(Device& device, const BuiltBatch<Api>& built, typename Api::Kernel& kernel) {
    kernel.function = find_function<Api>(device, built.module, kernel.name);
    kernel.most_threads = static_cast<std::uint32_t>(function_number(device, kernel.function, Api::kMostThreads));
    kernel.registers = function_number(device, kernel.function, Api::kRegisters);
    kernel.local_bytes = function_number(device, kernel.function, Api::kLocalBytes);
    kernel.shared_bytes = function_number(device, kernel.function, Api::kSharedBytes);
    kernel.code = built.code;
    kernel.binary_bytes = built.binary_bytes;
    kernel.binary = built.binary;
    kernel.from_cache = built.from_cache;
  }

  static void build(typename Api::Module& module, const std::vector<KernelBatch>& batches) {
    Device& device = *module.device;
    const Current current(device);
    std::vector<BuiltBatch<Api>> built = Api::build_programs(device, batches);
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

  static void destroy(typename Api::Module* module) {
    if (module->device->watchdog.is_suspect()) return abandon(module);
    const Current current(*module->device, typename Current::EvenIfLost{});
    delete module;
  }
};

template <class Api>
constexpr crucible_if_compile make_graph_compile_table() {
  using Part = GraphCompile<Api>;
  using Device = typename Api::Device;
  using Module = typename Api::Module;
  using Kernel = typename Api::Kernel;
  using Own = ThreadModules<Device, Module, Kernel, Api::dialect, Part::build, Part::destroy>;
  return make_module_table<Device, Module, Kernel, Own>();
}

}  // namespace crucible::sdk
