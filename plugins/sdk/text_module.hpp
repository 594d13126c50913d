// A compile table for a device whose compiler takes a whole program as one text in a C-like language: kernel IR is
// printed in the device's dialect, compiled programs are kept on disk, and what a module and a kernel answer is written
// once. For compilers of C++ with threads (CUDA, HIP), which take kernels in batches, there is compile_table.hpp.
//
// A plugin defines crucible_kernel as a struct that derives from TextKernel, crucible_module as one that derives from
// TextModule<Device, crucible_kernel>, and a struct `Own` of static functions:
//   const Dialect& dialect()         its language
//   BinaryCache cache(Device&)       where compiled programs are kept
//   std::string key(Device&)         what they depend on beside their text: device, driver, compiler
//   std::string compile(Device&, const ProgramText&, std::string& log)
//                                    the program's bytes; with less optimisation where sources.is_careful. Errors: what
//                                    the compiler says
//   void load(Module&, const std::string& bytes)
//                                    loads them, sets each kernel's own part and its binary_bytes
// The table is make_text_compile_table<Device, Module, Kernel, Own>().
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "plugins/sdk/kept.hpp"
#include "plugins/sdk/mathematics.hpp"
#include "plugins/sdk/module_table.hpp"
#include "plugins/sdk/op_list.hpp"

namespace crucible::sdk {

struct TextKernel {
  std::string name;
  std::uint32_t buffer_count = 0, scalar_count = 0;
  std::uint64_t binary_bytes = 0;  // of its machine code; where only the program's are known, those
  std::string binary;              // binary_id() of the program: what the host tried of it once, it does not try again
  bool from_cache = false;         // the program
};
inline KernelShape shape_of(const TextKernel& kernel) {
  return {kernel.name, kernel.buffer_count, kernel.scalar_count};
}

template <class Device, class Kernel>
struct TextModule {
  Device* device = nullptr;
  std::map<std::string, Kernel, std::less<>> kernels;
  std::string text, log;  // what the compiler was given and what it said
  std::uint64_t binary_bytes = 0;
  std::string binary;  // binary_id() of the program
  bool from_cache = false;
};

/// The kernels of one module.
struct ProgramText {
  std::string text;  // mathematics and kernels, in the device's dialect
  const ModuleSources& sources;

  /// The same in `dialect`. Errors: those of printing.
  std::string in(const Dialect& dialect) const {
    std::string all = math_text(dialect) + "\n";
    for (const auto& [name, kernel] : sources.kernels) all += print_kernel(kernel, dialect, name) + "\n";
    return all;
  }
};

/// What module_table.hpp asks of a plugin, made of what is asked above.
template <class Device, class Module, class Kernel, class Own>
struct TextModules {
  static void build(Module& module, const ModuleSources& sources) {
    const Dialect& language = Own::dialect();
    ProgramText program{.text = "", .sources = sources};
    program.text = module.text = program.in(language);
    for (const auto& [name, kernel] : sources.kernels) {
      Kernel& made = module.kernels[name];
      made.name = name;
      made.buffer_count = static_cast<std::uint32_t>(kernel.buffers.size());
      made.scalar_count = static_cast<std::uint32_t>(kernel.scalars.size());
    }
    KeptKey key = Own::key(*module.device);
    key.content = program.text;
    key.options += std::string(key.options.empty() ? "" : " ") + std::string(language.flags) +
                   (sources.is_careful ? " careful" : "");
    std::string bytes = find_kept(key);
    module.from_cache = !bytes.empty();
    if (!module.from_cache) {
      bytes = Own::compile(*module.device, program, module.log);
      keep(key, bytes);
    }
    module.binary_bytes = bytes.size();
    module.binary = binary_id(bytes);
    Own::load(module, bytes);
    for (auto& [name, kernel] : module.kernels) {
      kernel.binary = module.binary;
      kernel.from_cache = module.from_cache;
    }
  }

  static void describe(const Kernel& kernel, crucible_kv_sink sink, void* user) {
    report(sink, user,
           {text_item("name", kernel.name), number_item("buffers", kernel.buffer_count),
            number_item("binary_bytes", kernel.binary_bytes), number_item("from_cache", kernel.from_cache ? 1 : 0),
            text_item("binary", kernel.binary)});
  }

  static void log(const Module& module, crucible_kv_sink sink, void* user) {
    report(sink, user, {text_item("log", module.log), text_item("text", module.text)});
  }
};

template <class Device, class Module, class Kernel, class Own>
constexpr crucible_if_compile make_text_compile_table() {
  return make_module_table<Device, Module, Kernel, TextModules<Device, Module, Kernel, Own>>();
}

}  // namespace crucible::sdk
