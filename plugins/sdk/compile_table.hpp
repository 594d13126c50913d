// A compile table for devices whose compiler takes C++ with threads (CUDA, HIP): printing kernels, dealing them out,
// what a module and a kernel answer. Compiling and loading is the plugin's.
//
// A plugin defines crucible_kernel and crucible_module as structs that derive from DeviceKernel and DeviceModule, and
// makes the table with make_module_table() of ThreadModules.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "plugins/sdk/error.hpp"
#include "plugins/sdk/module_table.hpp"
#include "plugins/sdk/queue_table.hpp"
#include "plugins/sdk/text.hpp"
#include "plugins/sdk/thread_kernel.hpp"

namespace crucible::sdk {

struct DeviceKernel {
  std::string name, code;          // code: what it was compiled to, in the vendor's word
  std::string binary;              // binary_id() of the machine code
  BatchPart batch_part = {};       // empty: it is launched by itself
  std::vector<bool> written = {};  // of each buffer
  std::uint32_t buffer_count = 0, scalar_count = 0;
  std::uint32_t alignment = 1;     // what its text takes its buffers' addresses to be multiples of
  bool has_table = false;          // its buffers come from a table in the device's memory
  std::uint32_t most_threads = 1;  // of a block, as its registers and its text leave
  std::uint32_t lanes = 1;         // threads that do an item together
  std::uint32_t items = 1;         // that a thread does at once
  std::uint64_t registers = 0, local_bytes = 0, shared_bytes = 0, binary_bytes = 0;
  bool from_cache = false, is_careful = false;  // is_careful: compiled with less optimisation
};

template <class Device, class Kernel>
struct DeviceModule {
  Device* device = nullptr;
  std::map<std::string, Kernel, std::less<>> kernels;
  std::string text, log, code;  // what the compiler was given, what it said, what it made
  std::uint64_t binary_bytes = 0;
  bool from_cache = false;  // all of it
};

/// `dialect` is the device's language; `compile` compiles and loads the batches, fills in each kernel's own part and
/// the module's log, code, binary_bytes and from_cache; `give_back` deletes a module, also one that is half built or
/// whose device is lost.
template <class Device, class Module, class Kernel, const Dialect& (*language)(),
          void (*compile)(Module&, const std::vector<KernelBatch>&), void (*give_back)(Module*)>
struct ThreadModules {
  static void destroy(Module* module) { give_back(module); }

  /// A device has `std::uint32_t team_lanes` when its threads run in step and may do items together.
  static std::uint32_t team_lanes(const Device& device) {
    if constexpr (requires { device.team_lanes; }) {
      return device.team_lanes;
    } else {
      return 1;
    }
  }

  static void build(Module& module, const ModuleSources& sources) {
    const ThreadKernels kernels = print_thread_kernels(sources.kernels, language(), team_lanes(*module.device));
    for (const auto& [name, source] : kernels) {
      Kernel& kernel = module.kernels[name];
      kernel.name = name;
      kernel.buffer_count = source.buffer_count;
      kernel.scalar_count = source.scalar_count;
      kernel.has_table = source.has_table;
      kernel.alignment = source.alignment;
      kernel.batch_part = source.batch;
      kernel.written = source.written;
      kernel.is_careful = sources.is_careful;
    }
    const auto batches = batch_kernels(kernels, language(), sources.is_careful);
    for (const KernelBatch& batch : batches) module.text += batch.text;
    compile(module, batches);
    for (const auto& [name, source] : kernels) take_shape(module.kernels.find(name)->second, source);
  }

  /// After the build, which says what registers leave.
  static void take_shape(Kernel& kernel, const ThreadKernel& source) {
    kernel.lanes = source.lanes;
    kernel.items = source.items;
    kernel.most_threads = std::min(kernel.most_threads, source.most_threads);
    if (kernel.most_threads >= kernel.lanes) {
      kernel.most_threads -= kernel.most_threads % kernel.lanes;
      return;
    }
    throw Failure(CRUCIBLE_E_UNSUPPORTED,
                  "kernel " + kernel.name + " is done by " + std::to_string(kernel.lanes) +
                      " threads together, and the device gives a block of it " + std::to_string(kernel.most_threads) +
                      ": set the option teams to false",
                  {{"kernel", kernel.name}});
  }

  static void describe(const Kernel& kernel, crucible_kv_sink sink, void* user) {
    report(sink, user,
           {text_item("name", kernel.name), number_item("buffers", kernel.buffer_count), text_item("code", kernel.code),
            number_item("lanes", kernel.lanes), number_item("registers", kernel.registers),
            number_item("local_bytes", kernel.local_bytes), number_item("shared_bytes", kernel.shared_bytes),
            number_item("program_bytes", kernel.binary_bytes), number_item("from_cache", kernel.from_cache ? 1 : 0),
            text_item("binary", kernel.binary)});
  }

  static void log(const Module& module, crucible_kv_sink sink, void* user) {
    report(sink, user, {text_item("log", module.log), text_item("text", module.text), text_item("code", module.code)});
  }
};

}  // namespace crucible::sdk
