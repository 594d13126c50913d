// Compile table: a text of the dialect `opaque-1` becomes a call that libtorch's dispatcher can make.
#include <map>
#include <string>

#include "backends/torch/kernel.hpp"
#include "backends/torch/tables.hpp"
#include "plugins/sdk/module_table.hpp"

struct crucible_module {
  crucible_device* device = nullptr;
  std::map<std::string, crucible_kernel, std::less<>> kernels;
};

namespace crucible_torch {
namespace {

using namespace crucible;

struct Modules {
  static std::string_view dialect(const crucible_device&) { return kDialect; }

  static void build_texts(crucible_module& module, crucible_str, const crucible_str* names, const crucible_str* texts,
                          std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) add(module, sdk::to_string(names[i]), sdk::view(texts[i]));
  }

  static void build(crucible_module& module, crucible_str, const crucible_kernel_source* sources, std::uint32_t count) {
    const sdk::SizedArray<crucible_kernel_source> all(sources);
    for (std::uint32_t i = 0; i < count; ++i) {
      const crucible_kernel_source source = all[i];
      const std::string name = sdk::to_string(source.name);
      if (source.text.size == 0) {
        throw sdk::Failure(CRUCIBLE_E_UNSUPPORTED, "kernel " + name + " is no opaque op, and this plugin runs no other",
                           {{"kernel", name}});
      }
      add(module, name, sdk::view(source.text));
    }
  }

 private:
  static void add(crucible_module& module, const std::string& name, std::string_view text) {
    module.kernels.emplace(name, crucible_kernel{Call::read(name, text)});
  }
};

}  // namespace

const crucible_if_compile kCompileTable =
    sdk::make_module_table<crucible_device, crucible_module, crucible_kernel, Modules>();

}  // namespace crucible_torch
