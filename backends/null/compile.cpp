// Compile table: every text is a kernel, no text is compiled. Kernel IR is read and checked, then dropped.
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
  static std::string_view dialect(const crucible_device&) { return "c"; }

  static void build_texts(crucible_module& module, crucible_str, const crucible_str* names, const crucible_str* texts,
                          std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      module.kernels[sdk::to_string(names[i])].name = sdk::to_string(names[i]);
      counts().add(Count::kTextBytes, texts[i].size);
    }
    count_all(module);
  }

  static void build(crucible_module& module, crucible_str, const crucible_kernel_source* sources, std::uint32_t count) {
    const sdk::SizedArray<crucible_kernel_source> all(sources);
    for (std::uint32_t i = 0; i < count; ++i) {
      const crucible_kernel_source source = all[i];
      const std::string name = sdk::to_string(source.name);
      if (source.ir == nullptr && source.text.size == 0) {
        throw sdk::Failure(CRUCIBLE_E_UNSUPPORTED, "kernel " + name + " has neither text nor kernel IR",
                           {{"kernel", name}});
      }
      if (source.ir != nullptr) (void)sdk::read_kernel(source.ir, source.ir_size);
      module.kernels[name].name = name;
      counts().add(Count::kTextBytes, source.text.size);
      counts().add(Count::kIrBytes, source.ir_size);
    }
    count_all(module);
  }

 private:
  static void count_all(const crucible_module& module) {
    counts().add(Count::kCompilations);
    counts().add(Count::kKernelsCompiled, module.kernels.size());
  }
};

}  // namespace

const crucible_if_compile kCompileTable =
    sdk::make_module_table<crucible_device, crucible_module, crucible_kernel, Modules>();

}  // namespace crucible_null
