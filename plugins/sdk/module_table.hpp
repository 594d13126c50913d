// A compile table: looking kernels up, giving modules back, what a compilation answers. Reading what is to be compiled,
// compiling and loading it is the plugin's, or that of compile_table.hpp (CUDA, HIP) or text_module.hpp (one text for
// all kernels).
//
// A plugin defines crucible_module as a struct with `Device* device` and `std::map<std::string, Kernel, std::less<>>
// kernels`, and a struct `Own` of static functions:
//   std::string_view dialect(const Device&)
//   void build(Module&, crucible_str prelude, const crucible_kernel_source*, std::uint32_t count)   fills in a module
//   of some kernels void build_texts(Module&, crucible_str prelude, const crucible_str* names, const crucible_str*
//   texts, count)   if it takes texts void describe(const Kernel&, crucible_kv_sink, void* user)      if it wants:
//   compile.kernel_info void log(const Module&, crucible_kv_sink, void* user)           if it wants:
//   compile.compile_log void destroy(Module*)                                           if it wants: of one that may be
//   half built or whose device is lost
// A Module may have `binary_bytes` and `from_cache`, which are told. The table is make_module_table<Device, Module,
// Kernel, Own>().
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host_compiler.hpp"
#include "plugins/sdk/kernel_ir.hpp"
#include "plugins/sdk/text.hpp"
#include "plugins/sdk/watchdog.hpp"

namespace crucible::sdk {

/// Kernels by name; one name twice must stand for the same kernel. Errors: INVALID_ARGUMENT for a name that C does not
/// take or two different kernels of one name, UNSUPPORTED for one without kernel IR, those of read_kernel().
inline std::map<std::string, Kernel> read_kernels(const crucible_kernel_source* sources, std::uint32_t count) {
  std::map<std::string, Kernel> kernels;
  std::map<std::string, std::string_view> bytes;
  const SizedArray<crucible_kernel_source> all(sources);  // of an older or newer host
  for (std::uint32_t i = 0; i < count; ++i) {
    const crucible_kernel_source source = all[i];
    const std::string name = to_string(source.name);
    if (!is_c_name(name)) throw Failure(CRUCIBLE_E_INVALID_ARGUMENT, "'" + name + "' is not a C name");
    if (source.ir == nullptr)
      throw Failure(CRUCIBLE_E_UNSUPPORTED, "kernel " + name + " comes without kernel IR", {{"kernel", name}});
    const std::string_view ir(static_cast<const char*>(source.ir), source.ir_size);
    const auto [known, is_new] = bytes.try_emplace(name, ir);
    if (is_new) {
      kernels.emplace(name, read_kernel(source.ir, source.ir_size));
    } else if (known->second != ir) {
      throw Failure(CRUCIBLE_E_INVALID_ARGUMENT, "two different kernels are named " + name, {{"kernel", name}});
    }
  }
  return kernels;
}

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

  static crucible_status dialect(Device* device, crucible_str* out) {
    return guard([&] {
      require(device != nullptr && out != nullptr, "compile.dialect: no device or no place for the answer");
      *out = borrow(Own::dialect(*device));
    });
  }

  static crucible_status compile(Device* device, [[maybe_unused]] crucible_str prelude, const crucible_str* names,
                                 const crucible_str* texts, std::uint32_t count, Module** out,
                                 crucible_compile_info* info) {
    return guard([&] {
      require(device != nullptr && out != nullptr, "compile: no device or no place for the module");
      require(count == 0 || (names != nullptr && texts != nullptr), "compile: names or texts are missing");
      const auto start = Clock::now();
      Made module = begin(*device);  // no kernels are a module too
      if constexpr (requires { Own::build_texts(*module, prelude, names, texts, count); }) {
        if (count != 0) Own::build_texts(*module, prelude, names, texts, count);
      } else if (count != 0) {
        throw Failure(CRUCIBLE_E_UNSUPPORTED,
                      "the device takes kernel IR (compile_sources) and no text: its dialect is " +
                          std::string(Own::dialect(*device)));
      }
      *out = finish(std::move(module), start, info);
    });
  }

  static crucible_status compile_sources(Device* device, crucible_str prelude, const crucible_kernel_source* sources,
                                         std::uint32_t count, Module** out, crucible_compile_info* info) {
    return guard([&] {
      require(device != nullptr && out != nullptr, "compile_sources: no device or no place for the module");
      require(count == 0 || sources != nullptr, "compile_sources: the sources are missing");
      const auto start = Clock::now();
      Made module = begin(*device);
      if (count != 0) Own::build(*module, prelude, sources, count);
      *out = finish(std::move(module), start, info);
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
  static Made begin(Device& device) {
    Made module(new Module);
    module->device = &device;
    return module;
  }

  static Module* finish(Made module, Clock::time_point start, crucible_compile_info* info) {
    const std::chrono::nanoseconds time = Clock::now() - start;
    crucible_compile_info told = {.struct_size = 0,
                                  .from_cache = 0,
                                  .compile_ns = static_cast<std::uint64_t>(time.count()),
                                  .binary_bytes = 0};
    if constexpr (requires { module->from_cache; }) told.from_cache = module->from_cache ? 1 : 0;
    if constexpr (requires { module->binary_bytes; }) told.binary_bytes = module->binary_bytes;
    write_sized(info, told);
    module->device->ledger.add("module");
    return module.release();
  }
};

template <class Device, class Module, class Kernel, class Own>
constexpr crucible_if_compile make_module_table() {
  using Functions = ModuleFunctions<Device, Module, Kernel, Own>;
  crucible_if_compile table = {.struct_size = sizeof(crucible_if_compile),
                               .if_minor = CRUCIBLE_ABI_MINOR,
                               .dialect = Functions::dialect,
                               .compile = Functions::compile,
                               .kernel = Functions::kernel,
                               .unload = Functions::unload,
                               .compile_sources = Functions::compile_sources,
                               .kernel_info = nullptr,
                               .compile_log = nullptr};
  if constexpr (requires(const Kernel& kernel, crucible_kv_sink sink) { Own::describe(kernel, sink, nullptr); })
    table.kernel_info = Functions::kernel_info;
  if constexpr (requires(const Module& module, crucible_kv_sink sink) { Own::log(module, sink, nullptr); })
    table.compile_log = Functions::compile_log;
  return table;
}

}  // namespace crucible::sdk
