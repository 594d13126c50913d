// The plugin's one exported symbol and what hangs on it: the query, start and stop, and the tables by number.
#include "backends/cpu/sdk.hpp"
#include "backends/cpu/tables.hpp"
#include "plugins/sdk/plugin_table.hpp"

namespace crucible_cpu {
namespace {

constexpr PluginTable kTables[] = {{CRUCIBLE_IF_DEVICE, &kDeviceTable},   {CRUCIBLE_IF_MEMORY, &kMemoryTable},
                                   {CRUCIBLE_IF_COMPILE, &kCompileTable}, {CRUCIBLE_IF_PLAN, &kPlanTable},
                                   {CRUCIBLE_IF_LIBRARY, &kLibraryTable}, {CRUCIBLE_IF_QUEUE, &kQueueTable},
                                   {CRUCIBLE_IF_PROFILE, &kProfileTable}, {CRUCIBLE_IF_HEALTH, &kHealthTable}};
constexpr crucible_plugin_api kApi = make_plugin_table<kTables, kOptions>();

constexpr Identity kIdentity = {
    .name = "cpu", .vendor = "Crucible", .version = "0.2.0", .build_id = "gcc " __VERSION__, .needs = "clang"};

}  // namespace
}  // namespace crucible_cpu

extern "C" CRUCIBLE_EXPORT int32_t crucible_plugin_query(const crucible_query_in* in, crucible_query_out* out) {
  return crucible_cpu::answer_query(in, out, crucible_cpu::kIdentity, &crucible_cpu::kApi);
}
