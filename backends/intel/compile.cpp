// Compile table: kernel IR, written as SPIR-V, all kernels of a call in one module; the driver's compiler makes machine
// code of it, which is kept on disk.
#include <algorithm>
#include <string>

#include "backends/intel/kernel.hpp"
#include "backends/intel/options.hpp"
#include "backends/intel/tables.hpp"
#include "plugins/sdk/host.hpp"
#include "plugins/sdk/kept.hpp"
#include "plugins/sdk/module_table.hpp"
#include "plugins/sdk/named_kernels.hpp"
#include "plugins/sdk/signal_guard.hpp"

namespace crucible_intel {
namespace {

using namespace crucible;
// Nothing that fuses, reorders or flushes is asked for; division and square root have to be rounded correctly.
constexpr const char* kFlags = "-cl-fp32-correctly-rounded-divide-sqrt";
// Of the numbers of 32 bits that the usual registers hold for a work-item of a sub-group of 16 (128 of 32 bytes for 16:
// 64), so many leave too few for what is computed with them.
constexpr std::uint64_t kManyWords = 40;
constexpr std::size_t kLongestLog = 4000;  // of an error's text

std::string log_of(const Functions& ze, ze_module_build_log_handle_t log) {
  std::size_t size = 0;
  if (log == nullptr || ze.zeModuleBuildLogGetString(log, &size, nullptr) != ZE_RESULT_SUCCESS || size == 0) return "";
  std::string text(size, '\0');
  if (ze.zeModuleBuildLogGetString(log, &size, text.data()) != ZE_RESULT_SUCCESS) return "";
  const std::size_t end = text.find_last_not_of(std::string_view("\0\n ", 3));
  text.resize(end == std::string::npos ? 0 : end + 1);
  return text;
}

ze_result_t create(const crucible_device& device, ze_module_format_t format, std::string_view bytes, const char* flags,
                   OwnedModule& module, std::string& log) {
  const sdk::SignalGuard guard;
  const Functions& ze = *device.ze;
  auto description = typed<ze_module_desc_t>(ZE_STRUCTURE_TYPE_MODULE_DESC);
  description.format = format;
  description.inputSize = bytes.size();
  description.pInputModule = reinterpret_cast<const std::uint8_t*>(bytes.data());
  description.pBuildFlags = flags;
  ze_module_handle_t object = nullptr;
  ze_module_build_log_handle_t words = nullptr;
  const ze_result_t code = ze.zeModuleCreate(device.context.get(), device.facts.device, &description, &object, &words);
  const OwnedLog owned(ze, words);
  log = log_of(ze, words);
  if (code == ZE_RESULT_SUCCESS) module = OwnedModule(ze, object);
  return code;
}

/// The machine code, or "" where the driver does not hand it out.
std::string binary_of(const Functions& ze, ze_module_handle_t module) {
  std::size_t size = 0;
  if (ze.zeModuleGetNativeBinary(module, &size, nullptr) != ZE_RESULT_SUCCESS || size == 0) return "";
  std::string bytes(size, '\0');
  if (ze.zeModuleGetNativeBinary(module, &size, reinterpret_cast<std::uint8_t*>(bytes.data())) != ZE_RESULT_SUCCESS)
    return "";
  return bytes;
}

void build_spirv(const crucible_device& device, BuiltModule& module, std::string_view spirv, std::string_view more) {
  const DeviceFacts& facts = device.facts;
  const std::string flags = std::string(kFlags) + std::string(more);
  const sdk::KeptKey key{.content = std::string(spirv),
                         .target = facts.name + " " + facts.uuid,
                         .toolchain = facts.version,
                         .options = flags};
  std::string ignored;
  if (const std::string bytes = sdk::find_kept(key); !bytes.empty()) {
    module.binary_bytes = bytes.size();
    module.binary = sdk::binary_id(bytes);
    module.from_cache =
        create(device, ZE_MODULE_FORMAT_NATIVE, bytes, flags.c_str(), module.object, ignored) == ZE_RESULT_SUCCESS;
    if (module.from_cache) return;
    sdk::log(sdk::LogLevel::kWarning, "compile",
             "the driver of " + facts.id + " does not take a module that it compiled before; it is compiled again");
  }
  ze_result_t code = create(device, ZE_MODULE_FORMAT_IL_SPIRV, spirv, flags.c_str(), module.object, module.log);
  if (code != ZE_RESULT_SUCCESS && !facts.rounds_division)  // perhaps it does not take what it does not promise
    code = create(device, ZE_MODULE_FORMAT_IL_SPIRV, spirv, "", module.object, module.log);
  if (code == ZE_RESULT_ERROR_MODULE_BUILD_FAILURE) {
    throw sdk::Failure(
        CRUCIBLE_E_INTERNAL,
        "the compiler of " + facts.id + " (" + facts.name + ", driver " + facts.version +
            ") refuses the kernels: " + module.log.substr(0, kLongestLog),
        {{"where", "zeModuleCreate"}, {"vendor.code", std::to_string(static_cast<std::uint32_t>(code))}});
  }
  check(code, "compile: zeModuleCreate");
  module.binary = "of " + sdk::binary_id(key.target + key.toolchain + flags + key.content);
  if (!sdk::keeps()) return;
  const std::string bytes = binary_of(*device.ze, module.object.get());
  module.binary_bytes = bytes.size();
  if (bytes.empty()) return;
  sdk::keep(key, bytes);
  module.binary = sdk::binary_id(bytes);
}

/// As arguments where the device takes so many bytes of them.
spirv::Buffers choose_buffers(const crucible_device& device, const sdk::Kernel& kernel) {
  const std::size_t bytes = 8 * (kernel.buffers.size() + 2 * kernel.scalars.size() + 2);
  return bytes <= device.facts.argument_bytes ? spirv::Buffers::kArguments : spirv::Buffers::kTable;
}

/// Whether a work-item keeps so many numbers that they would not fit into the usual registers beside what is computed
/// with them: sums of a block of a product. With twice the registers half as many work-items are on the way.
bool wants_large_registers(const sdk::Kernel& kernel) {
  const std::string wanted = options().get_text("registers");
  if (wanted != "auto") return wanted == "large";
  std::uint64_t words = 0;
  for (const sdk::Variable& variable : kernel.variables)
    words += variable.is_mutable ? (size_bytes(variable.type) + 3) / 4 : 0;
  return words >= kManyWords;
}

void write_and_build(crucible_module& module, const sdk::ModuleSources& sources) {
  const crucible_device& device = *module.device;
  spirv::KernelModule usual, large;
  for (const auto& [name, kernel] : sources.kernels) {
    crucible_kernel& made = module.kernels[name];
    made.module = &module;
    made.name = name;
    made.buffer_count = static_cast<std::uint32_t>(kernel.buffers.size());
    made.scalar_count = static_cast<std::uint32_t>(kernel.scalars.size());
    made.has_large_registers = wants_large_registers(kernel);
    const sdk::Team team = sdk::plan_team(kernel, device.team_lanes, device.by_subgroups);
    made.lanes = team.lanes;
    made.most_threads =
        team.lanes * (device.by_subgroups ? std::min(team.most, device.facts.group_size / team.lanes) : 1);
    made.parameters =
        (made.has_large_registers ? large : usual)
            .add(kernel, name,
                 {.buffers = choose_buffers(device, kernel), .team = &team, .by_subgroups = device.by_subgroups});
  }
  const auto build = [&](BuiltModule& built, const spirv::KernelModule& written, std::string flags) {
    const spirv::Words words = written.words();
    built.spirv_bytes = words.size() * sizeof(words[0]);
    if (sources.is_careful) flags += " -ze-opt-disable";
    build_spirv(device, built, std::string_view(reinterpret_cast<const char*>(words.data()), built.spirv_bytes), flags);
    module.binary_bytes += built.binary_bytes;
    module.from_cache &= built.from_cache;
  };
  module.from_cache = true;
  const auto is_large = [](const auto& kernel) { return kernel.second.has_large_registers; };
  if (!std::ranges::all_of(module.kernels, is_large)) build(module.usual, usual, "");
  if (std::ranges::any_of(module.kernels, is_large)) build(module.large, large, " -ze-opt-large-register-file");
}

void create_kernels(crucible_module& module) {
  const Functions& ze = *module.device->ze;
  for (auto& [name, kernel] : module.kernels) {
    auto description = typed<ze_kernel_desc_t>(ZE_STRUCTURE_TYPE_KERNEL_DESC);
    description.pKernelName = name.c_str();
    ze_kernel_handle_t object = nullptr;
    check(ze.zeKernelCreate(kernel.built().object.get(), &description, &object), "compile: zeKernelCreate of " + name);
    kernel.object = OwnedKernel(ze, object);
    const bool is_table = !kernel.parameters.empty() && kernel.parameters.front().kind == spirv::ParameterKind::kTable;
    if (is_table)
      check(ze.zeKernelSetIndirectAccess(object, ZE_KERNEL_INDIRECT_ACCESS_FLAG_DEVICE),
            "compile: zeKernelSetIndirectAccess of " + name);
  }
}

struct Modules {
  static void build(crucible_module& module, const sdk::ModuleSources& sources) {
    module.device->watchdog.require_alive();
    try {
      write_and_build(module, sources);
    } catch (const sdk::Failure& failure) {
      std::vector<std::string> names;
      for (const auto& [name, kernel] : sources.kernels) names.push_back(name);
      throw sdk::naming_kernels(failure, names);
    }
    create_kernels(module);
  }

  static void describe(const crucible_kernel& kernel, crucible_kv_sink sink, void* user) {
    sdk::report(sink, user,
                {sdk::text_item("name", kernel.name), sdk::number_item("buffers", kernel.buffer_count),
                 sdk::number_item("arguments", kernel.parameters.size()), sdk::number_item("lanes", kernel.lanes),
                 sdk::text_item("register_file", kernel.has_large_registers ? "large" : "usual"),
                 sdk::number_item("spirv_bytes", kernel.built().spirv_bytes),
                 sdk::number_item("program_bytes", kernel.built().binary_bytes),
                 sdk::number_item("from_cache", kernel.built().from_cache ? 1 : 0),
                 sdk::text_item("binary", kernel.built().binary)});
  }

  static void log(const crucible_module& module, crucible_kv_sink sink, void* user) {
    sdk::report(sink, user, {sdk::text_item("log", module.usual.log + module.large.log)});
  }
};

}  // namespace

const crucible_if_compile kCompileTable =
    sdk::make_module_table<crucible_device, crucible_module, crucible_kernel, Modules>();

}  // namespace crucible_intel
