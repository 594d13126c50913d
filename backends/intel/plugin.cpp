// The plugin's one exported symbol, start and stop. Level Zero itself is loaded when a device is first asked for, so that
// a machine without it has a plugin that says what is missing.
#include "backends/intel/options.hpp"
#include "backends/intel/tables.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host.hpp"
#include "plugins/sdk/query.hpp"

namespace crucible_intel {
namespace {

using namespace crucible;

constexpr sdk::Identity kIdentity = {.name = "intel", .vendor = "Crucible", .version = "0.2.0",
                                     .needs = "libze_loader.so.1 and a driver, Level Zero 1.0 or newer"};

crucible_status describe_options(crucible_kv_sink sink, void* user) { return options().describe(sink, user); }

crucible_status init(const crucible_host_api* host) {
  return sdk::guard([&] {
    sdk::require(host != nullptr, "init: the host's table is missing");
    sdk::set_host(host);
  });
}

crucible_status shutdown() {
  return sdk::guard([] { sdk::set_host(nullptr); });
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
    case CRUCIBLE_IF_QUEUE:
      return &kQueueTable;
    case CRUCIBLE_IF_PROFILE:
      return &kProfileTable;
    case CRUCIBLE_IF_HEALTH:
      return &kHealthTable;
    default:
      return nullptr;  // an open set of numbers: a newer host may ask for more
  }
}

constexpr crucible_plugin_api kApi = {
    sizeof(crucible_plugin_api), CRUCIBLE_ABI_MINOR, init, shutdown, interface_table, describe_options};

}  // namespace
}  // namespace crucible_intel

extern "C" CRUCIBLE_EXPORT int32_t crucible_plugin_query(const crucible_query_in* in, crucible_query_out* out) {
  return crucible::sdk::answer_query(in, out, crucible_intel::kIdentity, &crucible_intel::kApi);
}
