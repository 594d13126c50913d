// A copy of the host's table, full size, so that no call looks at versions: what the host lacks is null.
#include "plugins/sdk/host.hpp"

#include <cstddef>
#include <cstdlib>

#include "plugins/sdk/error.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible::sdk {
namespace {

/// Written by init and shutdown alone, which the host calls when nothing else runs.
crucible_host_api services = {};

}  // namespace

void set_host(const crucible_host_api* host) {
  services = {};
  if (host == nullptr) return;
  require(host->struct_size >= offsetof(crucible_host_api, log), "init: the host's table is too short to be one");
  services = read_sized(host);
}

const crucible_host_api& host_services() { return services; }

std::uint32_t host_minor() { return services.abi_minor; }

std::optional<std::string> option(std::string_view name) {
  crucible_str value = {};
  if (services.get_option == nullptr) return std::nullopt;
  if (services.get_option(services.ctx, borrow(name), &value) == 0) return std::nullopt;
  return to_string(value);
}

void log(LogLevel level, std::string_view component, std::string_view text) {
  if (services.log == nullptr) return;
  services.log(services.ctx, static_cast<std::uint32_t>(level), borrow(component), borrow(text));
}

// Both or neither: memory of one allocator must not reach the other.
void* host_alloc(std::uint64_t size, std::uint64_t align) {
  if (services.alloc != nullptr && services.free != nullptr) return services.alloc(services.ctx, size, align);
  if (size > SIZE_MAX - align) return nullptr;
  return std::aligned_alloc(align, (size + align - 1) / align * align);
}

void host_free(void* memory, std::uint64_t size, std::uint64_t align) {
  if (services.alloc != nullptr && services.free != nullptr) return services.free(services.ctx, memory, size, align);
  std::free(memory);
}

void metric(std::string_view key, std::uint64_t value) {
  if (services.metric == nullptr) return;
  const crucible_kv item = number_item(key, value);
  services.metric(services.ctx, &item, 1);
}

}  // namespace crucible::sdk
