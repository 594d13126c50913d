// Compile table: collects what the host wants compiled, as C text or as kernel IR that is printed in this device's
// dialect. The compiler is in build_module.cpp, the dialect in dialect.cpp.
#include <chrono>
#include <crucible/sdk/error.hpp>
#include <crucible/sdk/kernel_ir.hpp>
#include <crucible/sdk/text.hpp>
#include <memory>
#include <string>

#include "kernel.hpp"
#include "tables.hpp"

namespace acme {
namespace {

using namespace crucible;
using Clock = std::chrono::steady_clock;

struct Source {
  std::string text, host_text;  // in the device's dialect, in C
  bool operator==(const Source&) const = default;
};
using Sources = std::map<std::string, Source>;

bool takes_c() { return dialect().name == sdk::dialect_c().name; }

/// Each name once; a name that stands twice must stand for the same text.
void add_source(Sources& sources, const std::string& name, Source source) {
  if (!sdk::is_c_name(name)) throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT, "'" + name + "' is not a C name");
  const auto [known, is_new] = sources.try_emplace(name, source);
  if (is_new || known->second == source) return;
  throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT, "two kernels with different texts are named " + name,
                     {{"kernel", name}});
}

/// One kernel of compile_sources: its text where that is in our dialect, else its IR.
Source read_source(const std::string& name, const crucible_kernel_source& source) {
  const std::string text = sdk::to_string(source.text);
  if (takes_c() && !text.empty()) return {text, text};
  if (source.ir == nullptr) {
    throw sdk::Failure(CRUCIBLE_E_UNSUPPORTED, "kernel " + name + " comes without kernel IR", {{"kernel", name}});
  }
  const sdk::Kernel kernel = sdk::read_kernel(source.ir, source.ir_size);
  return {sdk::print_kernel(kernel, dialect(), name), sdk::print_kernel(kernel, sdk::dialect_c(), name)};
}

crucible_module* make_module(crucible_device* device, const std::string& prelude, const Sources& sources,
                             Clock::time_point start, crucible_compile_info* info) {
  auto module = std::make_unique<crucible_module>();
  module->device = device;
  std::string text = sdk::adapt_prelude(prelude, sources.empty() ? sdk::dialect_c() : dialect()) + "\n";
  std::string host_text = prelude + "\n";
  for (const auto& [name, source] : sources) {
    module->kernels[name].name = name;
    text += source.text + "\n";
    host_text += source.host_text + "\n";
  }
  build_module(*module, text, host_text);
  sdk::write_sized(info,
                   {.struct_size = 0,
                    .from_cache = 0,
                    .compile_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now() - start).count()),
                    .binary_bytes = module->library->binary_bytes()});
  device->ledger.add("module");
  return module.release();
}

crucible_status get_dialect(crucible_device* device, crucible_str* out) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && out != nullptr, "compile.dialect: no device or no place for the answer");
    *out = sdk::borrow(dialect().name);
  });
}

crucible_status compile(crucible_device* device, crucible_str prelude, const crucible_str* names,
                        const crucible_str* texts, std::uint32_t count, crucible_module** out,
                        crucible_compile_info* info) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && out != nullptr, "compile: no device or no place for the module");
    sdk::require(count == 0 || (names != nullptr && texts != nullptr), "compile: names or texts are missing");
    if (!takes_c()) {
      throw sdk::Failure(
          CRUCIBLE_E_UNSUPPORTED,
          "the device takes kernel IR (compile_sources) and no text: its dialect is " + std::string(dialect().name));
    }
    const auto start = Clock::now();
    Sources sources;
    for (std::uint32_t i = 0; i < count; ++i) {
      add_source(sources, sdk::to_string(names[i]), {sdk::to_string(texts[i]), sdk::to_string(texts[i])});
    }
    *out = make_module(device, sdk::to_string(prelude), sources, start, info);
  });
}

crucible_status compile_sources(crucible_device* device, crucible_str prelude, const crucible_kernel_source* kernels,
                                std::uint32_t count, crucible_module** out, crucible_compile_info* info) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && out != nullptr, "compile_sources: no device or no place for the module");
    sdk::require(count == 0 || kernels != nullptr, "compile_sources: the sources are missing");
    const auto start = Clock::now();
    Sources sources;
    const sdk::SizedArray<crucible_kernel_source> all(kernels);  // of an older or newer host
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::string name = sdk::to_string(all[i].name);
      add_source(sources, name, read_source(name, all[i]));
    }
    *out = make_module(device, sdk::to_string(prelude), sources, start, info);
  });
}

crucible_status kernel(crucible_module* module, crucible_str name, crucible_kernel** out) {
  return sdk::guard([&] {
    sdk::require(module != nullptr && out != nullptr, "compile.kernel: no module or no place for the kernel");
    const auto found = module->kernels.find(sdk::view(name));
    if (found == module->kernels.end()) {
      throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT, "the module of " + std::to_string(module->kernels.size()) +
                                                          " kernels has none named " + sdk::to_string(name));
    }
    *out = &found->second;
  });
}

crucible_status unload(crucible_module* module) {
  return sdk::guard([&] {
    sdk::require(module != nullptr, "compile.unload: no module");
    module->device->ledger.remove("module");
    delete module;
  });
}

crucible_status kernel_info(crucible_kernel* kernel, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(kernel != nullptr && sink != nullptr, "compile.kernel_info: no kernel or no function to report to");
    // Add registers and shared_bytes where your compiler tells them.
    sdk::report(sink, user,
                {sdk::text_item("name", kernel->name), sdk::number_item("binary_bytes", kernel->binary_bytes)});
  });
}

crucible_status compile_log(crucible_module* module, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(module != nullptr && sink != nullptr, "compile.compile_log: no module or no function to report to");
    sdk::report(sink, user, {sdk::text_item("log", module->library->log()), sdk::text_item("text", module->text)});
  });
}

}  // namespace

const crucible_if_compile kCompileTable = {.struct_size = sizeof(crucible_if_compile),
                                           .if_minor = CRUCIBLE_ABI_MINOR,
                                           .dialect = get_dialect,
                                           .compile = compile,
                                           .kernel = kernel,
                                           .unload = unload,
                                           .compile_sources = compile_sources,
                                           .kernel_info = kernel_info,
                                           .compile_log = compile_log};

}  // namespace acme
