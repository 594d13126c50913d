// (6) Kernels: from text to something that the device runs. Replace build_module() by your compiler: the text is `prelude`
// followed by every kernel, each a function
//   void NAME(void* const* buffers, const double* scalars, int64_t begin, int64_t end)
// that does the work items [begin, end) of a launch; items are independent of each other.
#include <crucible/sdk/error.hpp>
#include <crucible/sdk/text.hpp>

#include <chrono>
#include <memory>
#include <string>

#include "kernel.hpp"
#include "tables.hpp"

namespace acme {
namespace {

using namespace crucible;

constexpr std::string_view kDialect = "c";  // of the texts that compile() takes

/// Compiles `text` and looks up the kernels, which are in module.kernels by name already.
void build_module(crucible_module& module, const std::string& text) {
  module.library = sdk::HostLibrary::compile(text, module.device->compiler);
  for (auto& [name, kernel] : module.kernels) {
    kernel.function = module.library->kernel(name);
    if (kernel.function == nullptr) throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT, "the text of kernel " + name + " defines no such function");
  }
}

/// Each name once; a name that stands twice must stand for the same text.
void add_kernel(crucible_module& module, std::map<std::string, std::string>& texts, crucible_str name, crucible_str text) {
  const std::string key = sdk::to_string(name);
  if (!sdk::is_c_name(key)) throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT, "'" + key + "' is not a C name");
  const auto [known, is_new] = texts.try_emplace(key, sdk::to_string(text));
  if (!is_new && known->second != sdk::view(text)) {
    throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT, "two kernels with different texts are named " + key);
  }
  module.kernels[key].name = key;
}

crucible_status dialect(crucible_device* device, crucible_str* out) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && out != nullptr, "compile.dialect: no device or no place for the answer");
    *out = sdk::borrow(kDialect);
  });
}

crucible_status compile(crucible_device* device, crucible_str prelude, const crucible_str* names, const crucible_str* texts,
                        std::uint32_t count, crucible_module** out, crucible_compile_info* info) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && out != nullptr, "compile: no device or no place for the module");
    sdk::require(count == 0 || (names != nullptr && texts != nullptr), "compile: names or texts are missing");
    const auto start = std::chrono::steady_clock::now();
    auto module = std::make_unique<crucible_module>();
    module->device = device;
    std::map<std::string, std::string> text_of;
    for (std::uint32_t i = 0; i < count; ++i) add_kernel(*module, text_of, names[i], texts[i]);
    std::string text = sdk::to_string(prelude) + "\n";
    for (const auto& [name, body] : text_of) text += body + "\n";
    build_module(*module, text);
    const auto time = std::chrono::steady_clock::now() - start;
    sdk::write_sized(info, {.struct_size = 0,
                            .from_cache = 0,
                            .compile_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(time).count()),
                            .binary_bytes = module->library->binary_bytes()});
    device->ledger.add("module");
    *out = module.release();
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
    sdk::report(sink, user, {sdk::text_item("name", kernel->name)});  // add binary_bytes, registers, shared_bytes
  });
}

crucible_status compile_log(crucible_module* module, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(module != nullptr && sink != nullptr, "compile.compile_log: no module or no function to report to");
    sdk::report(sink, user, {sdk::text_item("log", module->library->log())});
  });
}

}  // namespace

const crucible_if_compile kCompileTable = {.struct_size = sizeof(crucible_if_compile),
                                           .if_minor = CRUCIBLE_ABI_MINOR,
                                           .dialect = dialect,
                                           .compile = compile,
                                           .kernel = kernel,
                                           .unload = unload,
                                           .compile_sources = nullptr,
                                           .kernel_info = kernel_info,
                                           .compile_log = compile_log};

}  // namespace acme
