// Compile table: kernel IR, printed as OpenCL C or written as SPIR-V, all kernels of a call in one program.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>

#include "backends/opencl/kernel.hpp"
#include "backends/opencl/program.hpp"
#include "backends/opencl/tables.hpp"
#include "backends/opencl/text.hpp"
#include "plugins/sdk/c_dialect.hpp"
#include "plugins/sdk/careful.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host_compiler.hpp"
#include "plugins/sdk/kernel_ir.hpp"
#include "plugins/sdk/named_kernels.hpp"
#include "plugins/sdk/text.hpp"
#include "plugins/spirv/emit_kernel.hpp"
#include "plugins/spirv/ordered_loops.hpp"

namespace crucible_opencl {
namespace {

using namespace crucible;
using Clock = std::chrono::steady_clock;

struct Source {
  std::string_view ir;
  sdk::Kernel kernel;
  Buffers buffers = Buffers::kArguments;
};
using Sources = std::map<std::string, Source>;

Source read_source(const crucible_device& device, const std::string& name, const crucible_kernel_source& source) {
  if (!sdk::is_c_name(name)) throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT, "'" + name + "' is not a C name");
  if (source.ir == nullptr) {
    throw sdk::Failure(CRUCIBLE_E_UNSUPPORTED, "kernel " + name + " comes without kernel IR", {{"kernel", name}});
  }
  Source read = {.ir = {static_cast<const char*>(source.ir), source.ir_size}, .kernel = sdk::read_kernel(source.ir, source.ir_size)};
  // In SPIR-V a scalar may be two arguments, of two types.
  const std::uint64_t more = device.language == Language::kSpirv ? 8 * std::uint64_t{read.kernel.scalars.size()} : 0;
  const std::uint64_t most = device.facts.parameter_bytes - std::min<std::uint64_t>(device.facts.parameter_bytes, more);
  read.buffers = choose_buffers(read.kernel, most, device.memory.kind != MemoryKind::kBuffers);
  const std::uint64_t bytes = argument_bytes(read.kernel, read.buffers) + more;
  if (bytes > device.facts.parameter_bytes) {
    throw sdk::Failure(CRUCIBLE_E_UNSUPPORTED,
                       "kernel " + name + " has " + std::to_string(bytes) + " bytes of arguments, and " +
                           device.facts.id + " takes " + std::to_string(device.facts.parameter_bytes),
                       {{"kernel", name}});
  }
  return read;
}

/// Sets the kernels' arguments and the module's code. Errors: those of printing and writing.
void write_c(crucible_module& module, const std::string& prelude, const Sources& sources) {
  module.code = sdk::adapt_prelude(prelude, sdk::dialect_opencl()) + "\n";
  for (const auto& [name, source] : sources) {
    crucible_kernel& kernel = module.kernels.at(name);
    for (std::uint32_t i = 0; i < source.kernel.scalars.size(); ++i) {
      const sdk::Type type = source.kernel.scalars[i];
      kernel.scalars.push_back({.kind = spirv::ParameterKind::kScalar, .index = i, .type = type, .given = type});
    }
    module.code += kernel_text(source.kernel, name, module.device->mapping, source.buffers) + "\n";
  }
}

spirv::Buffers in_spirv(Buffers buffers) {
  switch (buffers) {
    case Buffers::kArguments:
      return spirv::Buffers::kOffsets;
    case Buffers::kTable:
      return spirv::Buffers::kMemoryTable;
    case Buffers::kPointers:
      return spirv::Buffers::kArguments;
    case Buffers::kPointerTable:
      return spirv::Buffers::kTable;
  }
  return spirv::Buffers::kArguments;
}

void write_spirv(crucible_module& module, const std::string& prelude, const Sources& sources) {
  static_assert(spirv::kTableMemories == kTableMemories);
  const crucible_device& device = *module.device;
  const bool by_chunks = device.mapping == Mapping::kChunks;
  const std::shared_ptr<const spirv::PreludeText> text = spirv::shared_prelude(prelude);
  spirv::KernelModule written(*text);
  for (const auto& [name, source] : sources) {
    crucible_kernel& kernel = module.kernels.at(name);
    kernel.scalars = written.add(source.kernel, name, {.buffers = in_spirv(source.buffers), .by_chunks = by_chunks});
    std::erase_if(kernel.scalars, [](const spirv::Parameter& parameter) { return parameter.kind != spirv::ParameterKind::kScalar; });
    kernel.takes_chunk = by_chunks;
  }
  // Intel's compiler for processors makes vectors of sums, in another order, although nothing allows it to.
  const spirv::Words words = device.facts.is_processor() ? spirv::with_ordered_loops(written.words()) : written.words();
  module.code.assign(reinterpret_cast<const char*>(words.data()), words.size() * sizeof(words[0]));
}

std::unique_ptr<crucible_module> make_module(crucible_device* device, const std::string& prelude, const Sources& sources) {
  auto module = std::make_unique<crucible_module>();
  module->device = device;
  if (sources.empty()) return module;  // no kernels are a module too
  for (const auto& [name, source] : sources) {
    crucible_kernel& kernel = module->kernels[name];
    kernel.module = module.get();
    kernel.name = name;
    kernel.buffer_count = static_cast<std::uint32_t>(source.kernel.buffers.size());
    kernel.scalar_count = static_cast<std::uint32_t>(source.kernel.scalars.size());
    kernel.buffers = source.buffers;
  }
  if (device->language == Language::kSpirv) {
    write_spirv(*module, prelude, sources);
  } else {
    write_c(*module, prelude, sources);
  }
  return module;
}

crucible_status get_dialect(crucible_device* device, crucible_str* out) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && out != nullptr, "compile.dialect: no device or no place for the answer");
    *out = sdk::borrow(dialect_name(device->language));
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
      const std::string_view ir = source.ir;
      const auto [known, is_new] = sources.try_emplace(name, std::move(source));
      if (is_new || known->second.ir == ir) continue;
      throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT, "two different kernels are named " + name, {{"kernel", name}});
    }
    std::unique_ptr<crucible_module> module;
    Built built;
    device->watchdog.require_alive();
    try {
      module = make_module(device, sdk::to_string(prelude), sources);
      if (!sources.empty()) built = build_program(*device, module->code, sdk::is_careful(sdk::view(prelude)));
    } catch (const sdk::Failure& failure) {
      std::vector<std::string> names;
      for (const auto& [name, source] : sources) names.push_back(name);
      throw sdk::naming_kernels(failure, names);
    }
    module->program = std::move(built.program);
    module->log = std::move(built.log);
    module->binary_bytes = built.binary_bytes;
    module->binary = std::move(built.binary);
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
                 sdk::number_item("code_bytes", kernel->module->code.size()),
                 sdk::number_item("program_bytes", kernel->module->binary_bytes),
                 sdk::number_item("from_cache", kernel->module->from_cache ? 1 : 0), sdk::text_item("binary", kernel->module->binary)});
  });
}

crucible_status compile_log(crucible_module* module, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(module != nullptr && sink != nullptr, "compile.compile_log: no module or no function to report to");
    const bool is_text = module->device->language == Language::kC;
    sdk::report(sink, user, {sdk::text_item("log", module->log), sdk::text_item("text", is_text ? module->code : "")});
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
