// A compile table for devices whose compiler takes C++ with threads (CUDA, HIP): reading the host's kernels, dealing them out, what a
// module and a kernel answer. Compiling and loading is the plugin's.
//
// A plugin defines crucible_kernel and crucible_module as structs that derive from DeviceKernel and DeviceModule, and makes the table
// with make_compile_table().
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "plugins/sdk/careful.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/queue_table.hpp"
#include "plugins/sdk/text.hpp"
#include "plugins/sdk/thread_kernel.hpp"

namespace crucible::sdk {

struct DeviceKernel {
  std::string name, code;  // code: what it was compiled to, in the vendor's word
  std::string binary;      // binary_id() of the machine code
  std::uint32_t buffer_count = 0, scalar_count = 0;
  std::uint32_t alignment = 1;     // what its text takes its buffers' addresses to be multiples of
  bool has_table = false;          // its buffers come from a table in the device's memory
  std::uint32_t most_threads = 1;  // of a block, as its registers and its text leave
  std::uint32_t lanes = 1;         // threads that do an item together
  std::uint64_t registers = 0, local_bytes = 0, shared_bytes = 0, binary_bytes = 0;
  bool from_cache = false;
};

template <class Device, class Kernel>
struct DeviceModule {
  Device* device = nullptr;
  std::map<std::string, Kernel, std::less<>> kernels;
  std::string text, log, code;  // what the compiler was given, what it said, what it made
  std::uint64_t binary_bytes = 0;
  bool from_cache = false;  // all of it
};

/// `build` compiles and loads the batches, fills in each kernel's own part and the module's log, code, binary_bytes and from_cache.
/// `destroy` deletes a module, also one that is half built or whose device is lost.
template <class Device, class Module, class Kernel, const Dialect& (*dialect)(),
          void (*build)(Module&, const std::vector<KernelBatch>&), void (*destroy)(Module*)>
struct CompileFunctions {
  struct Destroy {
    void operator()(Module* module) const { destroy(module); }
  };

  /// A device has `std::uint32_t team_lanes` when its threads run in step and may do items together.
  static std::uint32_t team_lanes(const Device& device) {
    if constexpr (requires { device.team_lanes; }) {
      return device.team_lanes;
    } else {
      return 1;
    }
  }

  static crucible_status get_dialect(Device* device, crucible_str* out) {
    return guard([&] {
      require(device != nullptr && out != nullptr, "compile.dialect: no device or no place for the answer");
      *out = borrow(dialect().name);
    });
  }

  static crucible_status compile(Device* device, crucible_str, const crucible_str* names, const crucible_str* texts,
                                 std::uint32_t count, Module** out, crucible_compile_info* info) {
    return guard([&] {
      require(device != nullptr && out != nullptr, "compile: no device or no place for the module");
      require(count == 0 || (names != nullptr && texts != nullptr), "compile: names or texts are missing");
      if (count != 0) {
        throw Failure(CRUCIBLE_E_UNSUPPORTED,
                      "the device takes kernel IR (compile_sources): a text does not say what its arguments are");
      }
      auto module = std::make_unique<Module>();  // no kernels are a module too
      module->device = device;
      device->ledger.add("module");
      write_sized(info, crucible_compile_info{});
      *out = module.release();
    });
  }

  static crucible_status compile_sources(Device* device, crucible_str prelude, const crucible_kernel_source* sources,
                                         std::uint32_t count, Module** out, crucible_compile_info* info) {
    return guard([&] {
      require(device != nullptr && out != nullptr, "compile_sources: no device or no place for the module");
      const auto start = std::chrono::steady_clock::now();
      const ThreadKernels kernels = read_thread_kernels(sources, count, dialect(), team_lanes(*device));
      std::unique_ptr<Module, Destroy> module(new Module);
      module->device = device;
      for (const auto& [name, source] : kernels) {
        Kernel& kernel = module->kernels[name];
        kernel.name = name;
        kernel.buffer_count = source.buffer_count;
        kernel.scalar_count = source.scalar_count;
        kernel.has_table = source.has_table;
        kernel.alignment = source.alignment;
      }
      if (!kernels.empty()) {
        auto batches = batch_kernels(kernels, adapt_prelude(view(prelude), dialect()));
        for (KernelBatch& batch : batches) {
          module->text += batch.text;
          batch.is_careful = is_careful(view(prelude));
        }
        build(*module, batches);
        for (const auto& [name, source] : kernels) take_shape(module->kernels.find(name)->second, source);
      }
      const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - start;
      write_sized(info, {.struct_size = 0,
                         .from_cache = module->from_cache ? 1u : 0u,
                         .compile_ns = static_cast<std::uint64_t>(time.count()),
                         .binary_bytes = module->binary_bytes});
      device->ledger.add("module");
      *out = module.release();
    });
  }

  /// After the build, which says what registers leave.
  static void take_shape(Kernel& kernel, const ThreadKernel& source) {
    kernel.lanes = source.lanes;
    kernel.most_threads = std::min(kernel.most_threads, source.most_threads);
    if (kernel.most_threads >= kernel.lanes) {
      kernel.most_threads -= kernel.most_threads % kernel.lanes;
      return;
    }
    throw Failure(CRUCIBLE_E_UNSUPPORTED,
                  "kernel " + kernel.name + " is done by " + std::to_string(kernel.lanes) + " threads together, and the device gives a block of it " +
                      std::to_string(kernel.most_threads) + ": set the option teams to false",
                  {{"kernel", kernel.name}});
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
      destroy(module);
    });
  }

  static crucible_status kernel_info(Kernel* kernel, crucible_kv_sink sink, void* user) {
    return guard([&] {
      require(kernel != nullptr && sink != nullptr, "compile.kernel_info: no kernel or no function to report to");
      report(sink, user,
             {text_item("name", kernel->name), number_item("buffers", kernel->buffer_count), text_item("code", kernel->code),
              number_item("lanes", kernel->lanes), number_item("registers", kernel->registers), number_item("local_bytes", kernel->local_bytes),
              number_item("shared_bytes", kernel->shared_bytes), number_item("program_bytes", kernel->binary_bytes),
              number_item("from_cache", kernel->from_cache ? 1 : 0),
              text_item("binary", kernel->binary)});
    });
  }

  static crucible_status compile_log(Module* module, crucible_kv_sink sink, void* user) {
    return guard([&] {
      require(module != nullptr && sink != nullptr, "compile.compile_log: no module or no function to report to");
      report(sink, user, {text_item("log", module->log), text_item("text", module->text), text_item("code", module->code)});
    });
  }
};

template <class Functions>
constexpr crucible_if_compile make_compile_table() {
  return {.struct_size = sizeof(crucible_if_compile),
          .if_minor = CRUCIBLE_ABI_MINOR,
          .dialect = Functions::get_dialect,
          .compile = Functions::compile,
          .kernel = Functions::kernel,
          .unload = Functions::unload,
          .compile_sources = Functions::compile_sources,
          .kernel_info = Functions::kernel_info,
          .compile_log = Functions::compile_log};
}

}  // namespace crucible::sdk
