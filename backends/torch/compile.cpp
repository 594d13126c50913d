// Compile table: the description of an opaque op becomes a call that libtorch's dispatcher can make.
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
  static void build_opaque(crucible_module& module, const sdk::ModuleSources& sources) {
    for (const auto& [name, description] : sources.opaque_ops)
      module.kernels.emplace(name, crucible_kernel{Call::read(name, description)});
  }
};

}  // namespace

const crucible_if_compile kCompileTable =
    sdk::make_module_table<crucible_device, crucible_module, crucible_kernel, Modules>();

}  // namespace crucible_torch
