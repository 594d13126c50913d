// See module_sources.hpp.
#include "plugins/sdk/module_sources.hpp"

#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host_compiler.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible::sdk {
namespace {

[[noreturn]] void refuse(const std::string& name, std::uint32_t form) {
  std::string what = "comes in form " + std::to_string(form) + ", which this plugin does not know";
  if (form == CRUCIBLE_FORM_KERNEL_IR) what = "is kernel IR, and the device runs opaque ops alone";
  if (form == CRUCIBLE_FORM_OPAQUE_OP) what = "is an opaque op, and the device runs kernel IR alone";
  throw Failure(CRUCIBLE_E_UNSUPPORTED, "kernel " + name + " " + what, {{"kernel", name}});
}

}  // namespace

ModuleSources read_sources(const crucible_kernel_source* sources, std::uint32_t count, std::uint32_t flags,
                           const SourceForms& forms) {
  ModuleSources read;
  read.is_careful = (flags & CRUCIBLE_COMPILE_CAREFUL) != 0;
  std::map<std::string, std::string_view> known;
  const SizedArray<crucible_kernel_source> all(sources);  // of an older or newer host
  for (std::uint32_t i = 0; i < count; ++i) {
    const crucible_kernel_source source = all[i];
    const std::string name = to_string(source.name);
    if (!is_c_name(name)) {
      throw Failure(CRUCIBLE_E_INVALID_ARGUMENT,
                    "kernel " + std::to_string(i) + ": '" + name + "' is not a C name");
    }
    const bool is_ir = source.form == CRUCIBLE_FORM_KERNEL_IR && forms.kernel_ir;
    if (!is_ir && !(source.form == CRUCIBLE_FORM_OPAQUE_OP && forms.opaque_ops)) refuse(name, source.form);
    const std::string_view bytes = view({static_cast<const char*>(source.data), source.size});
    const auto [before, is_new] = known.try_emplace(name, bytes);
    if (!is_new && (before->second != bytes || read.opaque_ops.contains(name) == is_ir))
      throw Failure(CRUCIBLE_E_INVALID_ARGUMENT, "two different kernels are named " + name, {{"kernel", name}});
    if (!is_new) continue;
    if (is_ir) {
      read.kernels.emplace(name, read_kernel(bytes.data(), bytes.size()));
      read.ir_bytes += bytes.size();
    } else {
      read.opaque_ops.emplace(name, bytes);
    }
  }
  return read;
}

}  // namespace crucible::sdk
