// A compile table for a device whose compiler takes a whole program as one text in a C-like language: kernel IR is printed in the
// device's dialect, compiled programs are kept on disk, and what a module and a kernel answer is written once. For compilers of C++ with
// threads (CUDA, HIP), which take kernels in batches, there is compile_table.hpp.
//
// A plugin defines crucible_kernel as a struct that derives from TextKernel, crucible_module as one that derives from
// TextModule<Device, crucible_kernel>, and a struct `Own` of static functions:
//   const Dialect& dialect()                              its language
//   BinaryCache cache(Device&)                            where compiled programs are kept
//   std::string key(Device&)                              what they depend on beside their text: device, driver, compiler
//   std::string compile(Device&, const ProgramText&, std::string& log)   the program's bytes; errors: what the compiler says
//   void load(Module&, const std::string& bytes)          loads them, sets each kernel's own part and its binary_bytes
// The table is make_text_compile_table<Device, Module, Kernel, Own>().
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "plugins/sdk/binary_cache.hpp"
#include "plugins/sdk/c_dialect.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host_compiler.hpp"
#include "plugins/sdk/kernel_ir.hpp"
#include "plugins/sdk/op_list.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible::sdk {

struct TextKernel {
  std::string name;
  std::uint32_t buffer_count = 0, scalar_count = 0;
  bool is_text = false;            // it came as text: the counts are not known
  std::uint64_t binary_bytes = 0;  // of its machine code; where only the program's are known, those
};
inline KernelShape shape_of(const TextKernel& kernel) {
  return {kernel.name, kernel.buffer_count, kernel.scalar_count, !kernel.is_text};
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
  std::string text;  // prelude and kernels, in the device's dialect
  std::map<std::string, Kernel> kernels;
  std::map<std::string, std::string> texts;  // in C, of hosts that hand those over to a device whose dialect is c
  std::string prelude;                       // in C

  /// The same in `dialect`. Errors: those of printing.
  std::string in(const Dialect& dialect) const {
    std::string all = (texts.empty() ? adapt_prelude(prelude, dialect) : prelude) + "\n";
    for (const auto& [name, c] : texts) all += c + "\n";
    for (const auto& [name, kernel] : kernels) all += print_kernel(kernel, dialect, name) + "\n";
    return all;
  }
};

template <class Device, class Module, class Kernel, class Own>
struct TextCompileFunctions {
  static crucible_status dialect(Device* device, crucible_str* out) {
    return guard([&] {
      require(device != nullptr && out != nullptr, "compile.dialect: no device or no place for the answer");
      *out = borrow(Own::dialect().name);
    });
  }

  static crucible_status compile(Device* device, crucible_str prelude, const crucible_str* names, const crucible_str* texts,
                                 std::uint32_t count, Module** out, crucible_compile_info* info) {
    return guard([&] {
      require(device != nullptr && out != nullptr, "compile: no device or no place for the module");
      require(count == 0 || (names != nullptr && texts != nullptr), "compile: names or texts are missing");
      const auto start = std::chrono::steady_clock::now();
      const std::string language(Own::dialect().name);
      if (count != 0 && language != dialect_c().name) {
        throw Failure(CRUCIBLE_E_UNSUPPORTED, "the device takes kernel IR (compile_sources) and no text: its dialect is " + language);
      }
      auto module = std::make_unique<Module>();
      module->device = device;
      ProgramText program{.text = "", .kernels = {}, .texts = {}, .prelude = to_string(prelude)};
      for (std::uint32_t i = 0; i < count; ++i) {
        const std::string name = to_string(names[i]), text = to_string(texts[i]);
        if (!is_c_name(name)) throw Failure(CRUCIBLE_E_INVALID_ARGUMENT, "'" + name + "' is not a C name");
        if (program.texts.try_emplace(name, text).first->second == text) continue;
        throw Failure(CRUCIBLE_E_INVALID_ARGUMENT, "two kernels with different texts are named " + name, {{"kernel", name}});
      }
      if (count != 0) build(*module, program);
      *out = finish(std::move(module), *device, start, info);
    });
  }

  static crucible_status compile_sources(Device* device, crucible_str prelude, const crucible_kernel_source* sources,
                                         std::uint32_t count, Module** out, crucible_compile_info* info) {
    return guard([&] {
      require(device != nullptr && out != nullptr, "compile_sources: no device or no place for the module");
      require(count == 0 || sources != nullptr, "compile_sources: the sources are missing");
      const auto start = std::chrono::steady_clock::now();
      auto module = std::make_unique<Module>();
      module->device = device;
      ProgramText program{.text = "", .kernels = read_kernels(sources, count), .texts = {}, .prelude = to_string(prelude)};
      if (!program.kernels.empty()) build(*module, program);  // no kernels are a module too
      *out = finish(std::move(module), *device, start, info);
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
      delete module;
    });
  }

  static crucible_status kernel_info(Kernel* kernel, crucible_kv_sink sink, void* user) {
    return guard([&] {
      require(kernel != nullptr && sink != nullptr, "compile.kernel_info: no kernel or no function to report to");
      report(sink, user,
             {text_item("name", kernel->name), number_item("buffers", kernel->buffer_count),
              number_item("binary_bytes", kernel->binary_bytes)});
    });
  }

  static crucible_status compile_log(Module* module, crucible_kv_sink sink, void* user) {
    return guard([&] {
      require(module != nullptr && sink != nullptr, "compile.compile_log: no module or no function to report to");
      report(sink, user, {text_item("log", module->log), text_item("text", module->text)});
    });
  }

 private:
  /// Each name once; one that stands twice must stand for the same kernel.
  static std::map<std::string, sdk::Kernel> read_kernels(const crucible_kernel_source* sources, std::uint32_t count) {
    std::map<std::string, sdk::Kernel> kernels;
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

  static void build(Module& module, ProgramText& program) {
    const Dialect& language = Own::dialect();
    program.text = module.text = program.in(language);
    for (const auto& [name, kernel] : program.kernels) {
      Kernel& made = module.kernels[name];
      made.name = name;
      made.buffer_count = static_cast<std::uint32_t>(kernel.buffers.size());
      made.scalar_count = static_cast<std::uint32_t>(kernel.scalars.size());
    }
    for (const auto& [name, text] : program.texts) {
      Kernel& made = module.kernels[name];
      made.name = name;
      made.is_text = true;
    }
    const BinaryCache cache = Own::cache(*module.device);
    const std::string key = Own::key(*module.device) + "\n" + std::string(language.flags) + "\n" + program.text;
    std::string bytes = cache.find(key);
    module.from_cache = !bytes.empty();
    if (!module.from_cache) {
      bytes = Own::compile(*module.device, program, module.log);
      cache.add(key, bytes);
    }
    module.binary_bytes = bytes.size();
    module.binary = binary_id(bytes);
    Own::load(module, bytes);
  }

  static Module* finish(std::unique_ptr<Module> module, Device& device, std::chrono::steady_clock::time_point start,
                        crucible_compile_info* info) {
    module->device = &device;
    const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - start;
    write_sized(info, {.struct_size = 0,
                       .from_cache = module->from_cache ? 1u : 0u,
                       .compile_ns = static_cast<std::uint64_t>(time.count()),
                       .binary_bytes = module->binary_bytes});
    device.ledger.add("module");
    return module.release();
  }
};

template <class Device, class Module, class Kernel, class Own>
constexpr crucible_if_compile make_text_compile_table() {
  using Functions = TextCompileFunctions<Device, Module, Kernel, Own>;
  return {.struct_size = sizeof(crucible_if_compile),
          .if_minor = CRUCIBLE_ABI_MINOR,
          .dialect = Functions::dialect,
          .compile = Functions::compile,
          .kernel = Functions::kernel,
          .unload = Functions::unload,
          .compile_sources = Functions::compile_sources,
          .kernel_info = Functions::kernel_info,
          .compile_log = Functions::compile_log};
}

}  // namespace crucible::sdk
