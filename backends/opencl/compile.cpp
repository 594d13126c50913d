// Compile table: kernel IR, printed as OpenCL C or written as SPIR-V, all kernels of a call in one program.
#include <algorithm>
#include <memory>
#include <string>

#include "backends/opencl/kernel.hpp"
#include "backends/opencl/program.hpp"
#include "backends/opencl/tables.hpp"
#include "backends/opencl/text.hpp"
#include "plugins/sdk/module_table.hpp"
#include "plugins/sdk/named_kernels.hpp"
#include "plugins/sdk/team_kernel.hpp"
#include "plugins/spirv/emit_kernel.hpp"
#include "plugins/spirv/ordered_loops.hpp"

namespace crucible_opencl {
namespace {

using namespace crucible;
struct Source {
  const sdk::Kernel& kernel;
  Buffers buffers = Buffers::kArguments;
};
using Sources = std::map<std::string, Source>;

Source plan_arguments(const crucible_device& device, const std::string& name, const sdk::Kernel& kernel) {
  // In SPIR-V a scalar may be two arguments, of two types.
  const std::uint64_t more = device.language == Language::kSpirv ? 8 * std::uint64_t{kernel.scalars.size()} : 0;
  const std::uint64_t most = device.facts.parameter_bytes - std::min<std::uint64_t>(device.facts.parameter_bytes, more);
  const Buffers buffers = choose_buffers(kernel, most, device.memory.kind != MemoryKind::kBuffers);
  const std::uint64_t bytes = argument_bytes(kernel, buffers) + more;
  if (bytes > device.facts.parameter_bytes) {
    throw sdk::Failure(CRUCIBLE_E_UNSUPPORTED,
                       "kernel " + name + " has " + std::to_string(bytes) + " bytes of arguments, and " +
                           device.facts.id + " takes " + std::to_string(device.facts.parameter_bytes),
                       {{"kernel", name}});
  }
  return {kernel, buffers};
}

/// Sets the kernels' arguments and the module's code. Errors: those of printing and writing.
void write_c(crucible_module& module, const Sources& sources) {
  module.code = text_before_kernels(*module.device) + "\n";
  for (const auto& [name, source] : sources) {
    crucible_kernel& kernel = module.kernels.at(name);
    for (std::uint32_t i = 0; i < source.kernel.scalars.size(); ++i) {
      const sdk::Type type = source.kernel.scalars[i];
      kernel.scalars.push_back({.kind = spirv::ParameterKind::kScalar, .index = i, .type = type, .given = type});
    }
    const KernelText text = kernel_text(source.kernel, name, *module.device, source.buffers);
    kernel.shape = text.shape;
    module.code += text.text + "\n";
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

void write_spirv(crucible_module& module, const Sources& sources) {
  static_assert(spirv::kTableMemories == kTableMemories);
  const crucible_device& device = *module.device;
  const bool by_chunks = device.mapping == Mapping::kChunks;
  spirv::KernelModule written;
  for (const auto& [name, source] : sources) {
    crucible_kernel& kernel = module.kernels.at(name);
    const bool by_subgroups = device.teams == Teams::kSubgroups;
    const sdk::Team team = sdk::plan_team(source.kernel, device.team_lanes, by_subgroups);
    kernel.scalars = written.add(
        source.kernel, name,
        {.buffers = in_spirv(source.buffers), .by_chunks = by_chunks, .team = &team, .by_subgroups = by_subgroups});
    if (team.lanes > 1)
      kernel.shape = {.lanes = team.lanes, .most_threads = team.lanes * (by_subgroups ? team.most : 1)};
    std::erase_if(kernel.scalars,
                  [](const spirv::Parameter& parameter) { return parameter.kind != spirv::ParameterKind::kScalar; });
    kernel.takes_chunk = by_chunks;
  }
  // Intel's compiler for processors makes vectors of sums, in another order, although nothing allows it to.
  const spirv::Words words = device.facts.is_processor() ? spirv::with_ordered_loops(written.words()) : written.words();
  module.code.assign(reinterpret_cast<const char*>(words.data()), words.size() * sizeof(words[0]));
}

void write(crucible_module& module, const Sources& sources) {
  for (const auto& [name, source] : sources) {
    crucible_kernel& kernel = module.kernels[name];
    kernel.module = &module;
    kernel.name = name;
    kernel.buffer_count = static_cast<std::uint32_t>(source.kernel.buffers.size());
    kernel.scalar_count = static_cast<std::uint32_t>(source.kernel.scalars.size());
    kernel.buffers = source.buffers;
  }
  if (module.device->language == Language::kSpirv) {
    write_spirv(module, sources);
  } else {
    write_c(module, sources);
  }
}

struct Modules {
  static void build(crucible_module& module, const sdk::ModuleSources& read) {
    crucible_device& device = *module.device;
    Sources sources;
    for (const auto& [name, kernel] : read.kernels) sources.emplace(name, plan_arguments(device, name, kernel));
    device.watchdog.require_alive();
    Built built;
    try {
      write(module, sources);
      built = build_program(device, module.code, read.is_careful);
    } catch (const sdk::Failure& failure) {
      std::vector<std::string> names;
      for (const auto& [name, source] : sources) names.push_back(name);
      throw sdk::naming_kernels(failure, names);
    }
    module.program = std::move(built.program);
    module.log = std::move(built.log);
    // A driver that hands no machine code out (PoCL, but for a second compilation) has what it was given.
    module.binary_bytes = built.binary_bytes != 0 ? built.binary_bytes : module.code.size();
    module.binary = std::move(built.binary);
    module.from_cache = built.from_cache;
  }

  static void describe(const crucible_kernel& kernel, crucible_kv_sink sink, void* user) {
    sdk::report(
        sink, user,
        {sdk::text_item("name", kernel.name), sdk::number_item("buffers", kernel.buffer_count),
         sdk::number_item("lanes", kernel.shape.lanes), sdk::number_item("code_bytes", kernel.module->code.size()),
         sdk::number_item("program_bytes", kernel.module->binary_bytes),
         sdk::number_item("from_cache", kernel.module->from_cache ? 1 : 0),
         sdk::text_item("binary", kernel.module->binary)});
  }

  static void log(const crucible_module& module, crucible_kv_sink sink, void* user) {
    const bool is_text = module.device->language == Language::kC;
    sdk::report(sink, user, {sdk::text_item("log", module.log), sdk::text_item("text", is_text ? module.code : "")});
  }
};

}  // namespace

const crucible_if_compile kCompileTable =
    sdk::make_module_table<crucible_device, crucible_module, crucible_kernel, Modules>();

}  // namespace crucible_opencl
