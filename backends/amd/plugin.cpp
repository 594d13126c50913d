// The plugin's one exported symbol and its tables by number. The runtime is loaded when a device is first asked for, so
// that a machine without one has a plugin that says what is missing.
#include "backends/amd/options.hpp"
#include "backends/amd/tables.hpp"
#include "plugins/sdk/plugin_table.hpp"

namespace crucible_amd {
namespace {

using namespace crucible;

constexpr sdk::Identity kIdentity = {.name = "amd", .vendor = "Crucible", .version = "0.1.0",
                                     .needs = "libamdhip64.so of HIP 5, 6 or 7, and HIPRTC"};
constexpr sdk::PluginTable kTables[] = {{CRUCIBLE_IF_DEVICE, &kDeviceTable},   {CRUCIBLE_IF_MEMORY, &kMemoryTable},
                                        {CRUCIBLE_IF_COMPILE, &kCompileTable}, {CRUCIBLE_IF_PLAN, &kPlanTable},
                                        {CRUCIBLE_IF_QUEUE, &kQueueTable},     {CRUCIBLE_IF_LIBRARY, &kLibraryTable},
                                        {CRUCIBLE_IF_PROFILE, &kProfileTable}, {CRUCIBLE_IF_HEALTH, &kHealthTable}};
constexpr crucible_plugin_api kApi = sdk::make_plugin_table<kTables, options>();

}  // namespace
}  // namespace crucible_amd

extern "C" CRUCIBLE_EXPORT int32_t crucible_plugin_query(const crucible_query_in* in, crucible_query_out* out) {
  return crucible::sdk::answer_query(in, out, crucible_amd::kIdentity, &crucible_amd::kApi);
}
