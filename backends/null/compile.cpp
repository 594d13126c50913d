// Compile table: kernel IR is read and checked, then dropped.
#include <map>
#include <string>

#include "backends/null/counts.hpp"
#include "backends/null/tables.hpp"
#include "plugins/sdk/module_table.hpp"

struct crucible_kernel {
  std::string name;
};
struct crucible_module {
  crucible_device* device = nullptr;
  std::map<std::string, crucible_kernel, std::less<>> kernels;
};

namespace crucible_null {
namespace {

using namespace crucible;

struct Modules {
  static void build(crucible_module& module, const sdk::ModuleSources& sources) {
    for (const auto& [name, kernel] : sources.kernels) module.kernels[name].name = name;
    counts().add(Count::kIrBytes, sources.ir_bytes);
    counts().add(Count::kCompilations);
    counts().add(Count::kKernelsCompiled, module.kernels.size());
  }
};

}  // namespace

const crucible_if_compile kCompileTable =
    sdk::make_module_table<crucible_device, crucible_module, crucible_kernel, Modules>();

}  // namespace crucible_null
