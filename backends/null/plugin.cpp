// The plugin's one exported symbol and its tables by number.
#include "backends/null/counts.hpp"
#include "backends/null/tables.hpp"
#include "plugins/sdk/plugin_table.hpp"

namespace crucible_null {
namespace {

using namespace crucible;

constexpr sdk::Identity kIdentity = {.name = "null", .vendor = "Crucible", .version = "0.2.0"};
constexpr sdk::Options kOptions({});  // nothing to set

void reset() { counts().reset(); }

constexpr sdk::PluginTable kTables[] = {{CRUCIBLE_IF_DEVICE, &kDeviceTable},
                                        {CRUCIBLE_IF_MEMORY, &kMemoryTable},
                                        {CRUCIBLE_IF_COMPILE, &kCompileTable},
                                        {CRUCIBLE_IF_PLAN, &kPlanTable},
                                        {CRUCIBLE_IF_QUEUE, &kQueueTable}};
constexpr crucible_plugin_api kApi = sdk::make_plugin_table<kTables, kOptions, reset>();

}  // namespace
}  // namespace crucible_null

extern "C" CRUCIBLE_EXPORT int32_t crucible_plugin_query(const crucible_query_in* in, crucible_query_out* out) {
  return crucible::sdk::answer_query(in, out, crucible_null::kIdentity, &crucible_null::kApi);
}
