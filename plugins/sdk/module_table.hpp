// A compile table: reading what is to be compiled, looking kernels up, giving modules back, what a compilation answers.
// Compiling and loading is the plugin's, or that of compile_table.hpp (CUDA, HIP) or text_module.hpp (one text for all
// kernels).
//
// A plugin defines crucible_module as a struct with `Device* device` and `std::map<std::string, Kernel, std::less<>>
// kernels`, and a struct `Own` of static functions:
//   void build(Module&, const ModuleSources&)              if it takes kernel IR: fills in a module of some kernels
//   void build_opaque(Module&, const ModuleSources&)       if it takes opaque ops: adds these
//   void describe(const Kernel&, crucible_kv_sink, void*)  if it wants: compile.kernel_info
//   void log(const Module&, crucible_kv_sink, void*)       if it wants: compile.compile_log
//   void destroy(Module*)                                  if it wants: of one that may be half built or whose device
//   is lost
// A Module may have `binary_bytes` and `from_cache`, which are told. The table is make_module_table<Device, Module,
// Kernel, Own>().
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "plugins/sdk/error.hpp"
#include "plugins/sdk/module_sources.hpp"
#include "plugins/sdk/text.hpp"
#include "plugins/sdk/watchdog.hpp"

namespace crucible::sdk {

template <class Own, class Module>
concept TakesKernelIr = requires(Module& module, const ModuleSources& sources) {
  Own::build(module, sources);
};
template <class Own, class Module>
concept TakesOpaqueOps = requires(Module& module, const ModuleSources& sources) {
  Own::build_opaque(module, sources);
};

template <class Device, class Module, class Kernel, class Own>
struct ModuleFunctions {
  using Clock = std::chrono::steady_clock;
  struct Destroy {
    void operator()(Module* module) const {
      if constexpr (requires { Own::destroy(module); }) {
        Own::destroy(module);
      } else {
        if constexpr (requires { module->device->watchdog; }) {
          if (module->device->watchdog.is_suspect()) return abandon(module);
        }
        delete module;
      }
    }
  };
  using Made = std::unique_ptr<Module, Destroy>;

  static constexpr SourceForms kForms = {.kernel_ir = TakesKernelIr<Own, Module>,
                                         .opaque_ops = TakesOpaqueOps<Own, Module>};
  static_assert(kForms.kernel_ir || kForms.opaque_ops, "Own has neither build() nor build_opaque()");

  static crucible_status compile(Device* device, const crucible_kernel_source* sources, std::uint32_t count,
                                 std::uint32_t flags, Module** out, crucible_compile_info* info) {
    return guard([&] {
      require(device != nullptr && out != nullptr, "compile: no device or no place for the module");
      require(count == 0 || sources != nullptr, "compile: the sources are missing");
      const auto start = Clock::now();
      Made module(new Module);  // no kernels are a module too
      module->device = device;
      const ModuleSources read = read_sources(sources, count, flags, kForms);
      if constexpr (kForms.kernel_ir) {
        if (!read.kernels.empty()) Own::build(*module, read);
      }
      if constexpr (kForms.opaque_ops) {
        if (!read.opaque_ops.empty()) Own::build_opaque(*module, read);
      }
      tell(*module, start, info);
      device->ledger.add("module");
      *out = module.release();
    });
  }

  static crucible_status kernel(Module* module, crucible_str name, Kernel** out) {
    return guard([&] {
      require(module != nullptr && out != nullptr, "compile.kernel: no module or no place for the kernel");
      const auto found = module->kernels.find(view(name));
      if (found == module->kernels.end()) {
        throw Failure(CRUCIBLE_E_INVALID_ARGUMENT, "the module of " + std::to_string(module->kernels.size()) +
                                                       " kernels has none named " + to_string(name));
      }
      *out = &found->second;
    });
  }

  static crucible_status unload(Module* module) {
    return guard([&] {
      require(module != nullptr, "compile.unload: no module");
      module->device->ledger.remove("module");
      Destroy()(module);
    });
  }

  static crucible_status kernel_info(Kernel* kernel, crucible_kv_sink sink, void* user) {
    return guard([&] {
      require(kernel != nullptr && sink != nullptr, "compile.kernel_info: no kernel or no function to report to");
      Own::describe(*kernel, sink, user);
    });
  }

  static crucible_status compile_log(Module* module, crucible_kv_sink sink, void* user) {
    return guard([&] {
      require(module != nullptr && sink != nullptr, "compile.compile_log: no module or no function to report to");
      Own::log(*module, sink, user);
    });
  }

 private:
  static void tell(const Module& module, Clock::time_point start, crucible_compile_info* info) {
    const std::chrono::nanoseconds time = Clock::now() - start;
    crucible_compile_info told = {
        .struct_size = 0, .from_cache = 0, .compile_ns = static_cast<std::uint64_t>(time.count()), .binary_bytes = 0};
    if constexpr (requires { module.from_cache; }) told.from_cache = module.from_cache ? 1 : 0;
    if constexpr (requires { module.binary_bytes; }) told.binary_bytes = module.binary_bytes;
    write_sized(info, told);
  }
};

template <class Device, class Module, class Kernel, class Own>
constexpr crucible_if_compile make_module_table() {
  using Functions = ModuleFunctions<Device, Module, Kernel, Own>;
  crucible_if_compile table = {.struct_size = sizeof(crucible_if_compile),
                               .if_minor = CRUCIBLE_ABI_MINOR,
                               .compile = Functions::compile,
                               .kernel = Functions::kernel,
                               .unload = Functions::unload,
                               .kernel_info = nullptr,
                               .compile_log = nullptr};
  if constexpr (requires(const Kernel& kernel, crucible_kv_sink sink) { Own::describe(kernel, sink, nullptr); })
    table.kernel_info = Functions::kernel_info;
  if constexpr (requires(const Module& module, crucible_kv_sink sink) { Own::log(module, sink, nullptr); })
    table.compile_log = Functions::compile_log;
  return table;
}

}  // namespace crucible::sdk
