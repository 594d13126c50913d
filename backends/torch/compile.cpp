// Compile table: a text of the dialect `opaque-1` becomes a call that libtorch's dispatcher can make.
#include <map>
#include <memory>
#include <string>

#include "backends/torch/kernel.hpp"
#include "backends/torch/tables.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/text.hpp"

struct crucible_module {
  crucible_device* device = nullptr;
  std::map<std::string, crucible_kernel, std::less<>> kernels;
};

namespace crucible_torch {
namespace {

using namespace crucible;

crucible_module* finish(crucible_device* device, std::unique_ptr<crucible_module> module, crucible_compile_info* info) {
  module->device = device;
  device->ledger.add("module");
  sdk::write_sized(info, {});
  return module.release();
}

void add(crucible_module& module, const std::string& name, std::string_view text) {
  module.kernels.emplace(name, crucible_kernel{Call::read(name, text)});
}

crucible_status dialect(crucible_device* device, crucible_str* out) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && out != nullptr, "compile.dialect: no device or no place for the answer");
    *out = sdk::borrow(kDialect);
  });
}

crucible_status compile(crucible_device* device, crucible_str, const crucible_str* names, const crucible_str* texts,
                        std::uint32_t count, crucible_module** out, crucible_compile_info* info) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && out != nullptr, "compile: no device or no place for the module");
    sdk::require(count == 0 || (names != nullptr && texts != nullptr), "compile: names or texts are missing");
    auto module = std::make_unique<crucible_module>();
    for (std::uint32_t i = 0; i < count; ++i) add(*module, sdk::to_string(names[i]), sdk::view(texts[i]));
    *out = finish(device, std::move(module), info);
  });
}

crucible_status compile_sources(crucible_device* device, crucible_str, const crucible_kernel_source* sources,
                                std::uint32_t count, crucible_module** out, crucible_compile_info* info) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && out != nullptr, "compile_sources: no device or no place for the module");
    sdk::require(count == 0 || sources != nullptr, "compile_sources: the sources are missing");
    auto module = std::make_unique<crucible_module>();
    const sdk::SizedArray<crucible_kernel_source> all(sources);
    for (std::uint32_t i = 0; i < count; ++i) {
      const crucible_kernel_source source = all[i];
      const std::string name = sdk::to_string(source.name);
      if (source.text.size == 0) {
        throw sdk::Failure(CRUCIBLE_E_UNSUPPORTED, "kernel " + name + " is no opaque op, and this plugin runs no other",
                           {{"kernel", name}});
      }
      add(*module, name, sdk::view(source.text));
    }
    *out = finish(device, std::move(module), info);
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

}  // namespace

const crucible_if_compile kCompileTable = {.struct_size = sizeof(crucible_if_compile),
                                           .if_minor = CRUCIBLE_ABI_MINOR,
                                           .dialect = dialect,
                                           .compile = compile,
                                           .kernel = kernel,
                                           .unload = unload,
                                           .compile_sources = compile_sources,
                                           .kernel_info = nullptr,
                                           .compile_log = nullptr};

}  // namespace crucible_torch
