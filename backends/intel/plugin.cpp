// The plugin's one exported symbol and its tables by number. Level Zero itself is loaded when a device is first asked
// for, so that a machine without it has a plugin that says what is missing.
#include "backends/intel/options.hpp"
#include "backends/intel/tables.hpp"
#include "plugins/sdk/plugin_table.hpp"

namespace crucible_intel {
namespace {

using namespace crucible;

constexpr sdk::Identity kIdentity = {.name = "intel", .vendor = "Crucible", .version = "0.2.0",
                                     .needs = "libze_loader.so.1 and a driver, Level Zero 1.0 or newer"};

constexpr sdk::PluginTable kTables[] = {{CRUCIBLE_IF_DEVICE, &kDeviceTable}, {CRUCIBLE_IF_MEMORY, &kMemoryTable},
                                        {CRUCIBLE_IF_COMPILE, &kCompileTable}, {CRUCIBLE_IF_PLAN, &kPlanTable},
                                        {CRUCIBLE_IF_QUEUE, &kQueueTable}, {CRUCIBLE_IF_PROFILE, &kProfileTable},
                                        {CRUCIBLE_IF_HEALTH, &kHealthTable}};
constexpr crucible_plugin_api kApi = sdk::make_plugin_table<kTables, options>();

}  // namespace
}  // namespace crucible_intel

extern "C" CRUCIBLE_EXPORT int32_t crucible_plugin_query(const crucible_query_in* in, crucible_query_out* out) {
  return crucible::sdk::answer_query(in, out, crucible_intel::kIdentity, &crucible_intel::kApi);
}
