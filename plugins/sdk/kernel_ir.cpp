// Reading kernels: see kernel_ir.hpp. The host may be of another build than this plugin, and a store may have been
// damaged, so nothing is believed.
#include "plugins/sdk/kernel_ir.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <variant>

#include "plugins/kernel_ir/check.hpp"
#include "plugins/kernel_ir/serialize.hpp"
#include "plugins/sdk/error.hpp"

namespace crucible::sdk {

Kernel read_kernel(const void* data, std::uint64_t size) {
  auto read = kernel::deserialize_ir(
      {static_cast<const std::byte*>(data), data == nullptr ? 0 : static_cast<std::size_t>(size)});
  const kernel::IrFault* const fault = std::get_if<kernel::IrFault>(&read);
  if (fault == nullptr) return std::get<Kernel>(std::move(read));
  if (fault->version.empty()) throw Failure(CRUCIBLE_E_DATA_CORRUPT, fault->what);
  const std::string need = kernel::ir_version();
  throw Failure(CRUCIBLE_E_INCOMPATIBLE,
                "kernel IR: the host writes version " + fault->version + ", this plugin reads " + need,
                {{"have", fault->version}, {"need", need}});
}

void check_kernel(const Kernel& kernel) {
  const std::string broken = kernel::check_types(kernel);
  if (!broken.empty()) throw Failure(CRUCIBLE_E_DATA_CORRUPT, "kernel IR: " + broken);
}

}  // namespace crucible::sdk
