// Compile table: kernel IR, printed as OpenCL C, all kernels of a call in one program.
#include <chrono>
#include <memory>
#include <string>

#include "backends/opencl/kernel.hpp"
#include "backends/opencl/program.hpp"
#include "backends/opencl/tables.hpp"
#include "backends/opencl/text.hpp"
#include "plugins/sdk/c_dialect.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host_compiler.hpp"
#include "plugins/sdk/kernel_ir.hpp"
#include "plugins/sdk/named_kernels.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible_opencl {
namespace {

using namespace crucible;
using Clock = std::chrono::steady_clock;

struct Source {
  std::string text;
  std::uint32_t buffer_count = 0, scalar_count = 0;
  Buffers buffers = Buffers::kArguments;
  bool operator==(const Source&) const = default;
};
using Sources = std::map<std::string, Source>;

Source read_source(const crucible_device& device, const std::string& name, const crucible_kernel_source& source) {
  if (!sdk::is_c_name(name)) throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT, "'" + name + "' is not a C name");
  if (source.ir == nullptr) {
    throw sdk::Failure(CRUCIBLE_E_UNSUPPORTED, "kernel " + name + " comes without kernel IR", {{"kernel", name}});
  }
  const sdk::Kernel kernel = sdk::read_kernel(source.ir, source.ir_size);
  const Buffers buffers = choose_buffers(kernel, device.facts.parameter_bytes, device.memory.kind != MemoryKind::kBuffers);
  const std::uint64_t bytes = argument_bytes(kernel, buffers);
  if (bytes > device.facts.parameter_bytes) {
    throw sdk::Failure(CRUCIBLE_E_UNSUPPORTED,
                       "kernel " + name + " has " + std::to_string(bytes) + " bytes of arguments, and " +
                           device.facts.id + " takes " + std::to_string(device.facts.parameter_bytes),
                       {{"kernel", name}});
  }
  return {kernel_text(kernel, name, device.mapping, buffers), static_cast<std::uint32_t>(kernel.buffers.size()),
          kernel.scalar_count, buffers};
}

std::unique_ptr<crucible_module> make_module(crucible_device* device, const std::string& prelude,
                                             const Sources& sources) {
  auto module = std::make_unique<crucible_module>();
  module->device = device;
  if (sources.empty()) return module;  // no kernels are a module too
  module->text = sdk::adapt_prelude(prelude, sdk::dialect_opencl()) + "\n";
  for (const auto& [name, source] : sources) {
    module->kernels[name] = {module.get(), name, source.buffer_count, source.scalar_count, source.buffers};
    module->text += source.text + "\n";
  }
  return module;
}

crucible_status get_dialect(crucible_device* device, crucible_str* out) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && out != nullptr, "compile.dialect: no device or no place for the answer");
    *out = sdk::borrow(sdk::dialect_opencl().name);
  });
}

crucible_status compile(crucible_device* device, crucible_str, const crucible_str* names, const crucible_str* texts,
                        std::uint32_t count, crucible_module** out, crucible_compile_info* info) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && out != nullptr, "compile: no device or no place for the module");
    sdk::require(count == 0 || (names != nullptr && texts != nullptr), "compile: names or texts are missing");
    if (count != 0) {
      throw sdk::Failure(CRUCIBLE_E_UNSUPPORTED,
                         "the device takes kernel IR (compile_sources): a text has no offsets into buffers");
    }
    auto module = make_module(device, "", {});
    device->ledger.add("module");
    sdk::write_sized(info, crucible_compile_info{});
    *out = module.release();
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
      Source source = read_source(*device, name, all[i]);
      const auto [known, is_new] = sources.try_emplace(name, source);
      if (is_new || known->second == source) continue;
      throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT, "two different kernels are named " + name, {{"kernel", name}});
    }
    auto module = make_module(device, sdk::to_string(prelude), sources);
    Built built;
    device->watchdog.require_alive();
    try {
      if (!sources.empty()) built = build_program(*device, module->text);
    } catch (const sdk::Failure& failure) {
      std::vector<std::string> names;
      for (const auto& [name, source] : sources) names.push_back(name);
      throw sdk::naming_kernels(failure, names);
    }
    module->program = std::move(built.program);
    module->log = std::move(built.log);
    module->binary_bytes = built.binary_bytes;
    module->from_cache = built.from_cache;
    const auto time = std::chrono::nanoseconds(Clock::now() - start);
    sdk::write_sized(info, {.struct_size = 0,
                            .from_cache = built.from_cache ? 1u : 0u,
                            .compile_ns = static_cast<std::uint64_t>(time.count()),
                            .binary_bytes = built.binary_bytes});
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
    if (module->device->watchdog.is_suspect()) return sdk::abandon(module);
    delete module;
  });
}

crucible_status kernel_info(crucible_kernel* kernel, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(kernel != nullptr && sink != nullptr, "compile.kernel_info: no kernel or no function to report to");
    sdk::report(sink, user,
                {sdk::text_item("name", kernel->name), sdk::number_item("buffers", kernel->buffer_count),
                 sdk::number_item("program_bytes", kernel->module->binary_bytes),
                 sdk::number_item("from_cache", kernel->module->from_cache ? 1 : 0)});
  });
}

crucible_status compile_log(crucible_module* module, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(module != nullptr && sink != nullptr, "compile.compile_log: no module or no function to report to");
    sdk::report(sink, user, {sdk::text_item("log", module->log), sdk::text_item("text", module->text)});
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

}  // namespace crucible_opencl
