// The plugin's one exported symbol, start and stop. The runtime is loaded when a device is first asked for, so that
// a machine without one has a plugin that says what is missing.
#include "backends/amd/options.hpp"
#include "backends/amd/tables.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host.hpp"
#include "plugins/sdk/query.hpp"

namespace crucible_amd {
namespace {

using namespace crucible;

constexpr sdk::Identity kIdentity = {.name = "amd", .vendor = "Crucible", .version = "0.1.0",
                                     .needs = "libamdhip64.so of HIP 5, 6 or 7, and HIPRTC"};

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
    case CRUCIBLE_IF_LIBRARY:
      return &kLibraryTable;
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
}  // namespace crucible_amd

extern "C" CRUCIBLE_EXPORT int32_t crucible_plugin_query(const crucible_query_in* in, crucible_query_out* out) {
  return crucible::sdk::answer_query(in, out, crucible_amd::kIdentity, &crucible_amd::kApi);
}
