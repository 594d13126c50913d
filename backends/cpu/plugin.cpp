// The plugin's one exported symbol and what hangs on it: the query, start and stop, and the tables by number.
#include <cstddef>
#include <cstring>

#include "backends/cpu/error.hpp"
#include "backends/cpu/host.hpp"
#include "backends/cpu/options.hpp"
#include "backends/cpu/tables.hpp"
#include "backends/cpu/team.hpp"
#include "plugins/abi/stubs.hpp"

namespace crucible_cpu {
namespace {

/// The host's services. Written by init and shutdown alone, which the host calls when nothing else runs.
crucible_host_api host_api = {};

template <std::size_t N>
constexpr crucible_str literal(const char (&text)[N]) {
  return {text, N - 1};
}

crucible_status init(const crucible_host_api* host) {
  return guard([&] {
    require(host != nullptr, "init: the host's table is missing");
    set_host(host);
  });
}

crucible_status shutdown() {
  return guard([] {
    stop_openmp_threads();
    set_host(nullptr);
  });
}

const void* interface_table(std::uint32_t id) {
  switch (id) {
    case CRUCIBLE_IF_DEVICE:
      return &kDeviceTable;
    case CRUCIBLE_IF_MEMORY:
      return &kMemoryTable;
    case CRUCIBLE_IF_COMPILE:
      return &kCompileTable;
    case CRUCIBLE_IF_PLAN:
      return &kPlanTable;
    case CRUCIBLE_IF_LIBRARY:
      return &kLibraryTable;
    case CRUCIBLE_IF_QUEUE:
      return &kQueueTable;
    case CRUCIBLE_IF_BINARY:
      return &kBinaryTable;
    case CRUCIBLE_IF_PROFILE:
      return &kProfileTable;
    case CRUCIBLE_IF_HEALTH:
      return &kHealthTable;
    default:
      return nullptr;  // an open set of numbers: a newer host may ask for more
  }
}

constexpr crucible_plugin_api kApi = {sizeof(crucible_plugin_api), CRUCIBLE_ABI_MINOR, init, shutdown, interface_table,
                                     describe_options};

/// An answer of ABI 0.1.
constexpr std::size_t kSmallestAnswer = offsetof(crucible_query_out, build_id);

std::int32_t reject(crucible_query_out* out, const char* reason) {
  std::strncpy(out->reject_reason, reason, sizeof(out->reject_reason) - 1);
  return 1;
}

}  // namespace

void set_host(const crucible_host_api* host) {
  host_api = host == nullptr ? crucible_host_api{} : crucible::abi::copy_table<crucible_host_api>(host);
  crucible::abi::fill(host_api);
}

std::optional<std::string> option(std::string_view name) {
  crucible_str value = {};
  if (host_api.get_option(host_api.ctx, {name.data(), name.size()}, &value) == 0) return std::nullopt;
  return to_string(value);
}

void log(LogLevel level, std::string_view component, std::string_view text) {
  host_api.log(host_api.ctx, static_cast<std::uint32_t>(level), {component.data(), component.size()},
               {text.data(), text.size()});
}

}  // namespace crucible_cpu

extern "C" CRUCIBLE_EXPORT int32_t crucible_plugin_query(const crucible_query_in* in, crucible_query_out* out) {
  using namespace crucible_cpu;
  if (out == nullptr || out->struct_size < kSmallestAnswer) return 2;
  if (in == nullptr || in->struct_size < sizeof(crucible_query_in) || in->magic != CRUCIBLE_MAGIC) {
    return reject(out, "the host's query is not one of Crucible's (size or magic)");
  }
  if (in->host_major != CRUCIBLE_ABI_MAJOR) {
    return reject(out, "the host's ABI has another major number: use the plugin that came with the host");
  }
  out->magic = CRUCIBLE_MAGIC;
  out->abi_major = CRUCIBLE_ABI_MAJOR;
  out->abi_minor = CRUCIBLE_ABI_MINOR;
  out->name = literal("cpu");
  out->vendor = literal("Crucible");
  out->version = literal("0.2.0");
  out->api = &kApi;
  if (out->struct_size >= sizeof(crucible_query_out)) {  // an older host's answer ends before these
    out->build_id = literal("gcc " __VERSION__);
    out->needs = literal("clang");
    out->feature_bits = 0;
  }
  return 0;
}
