// The plugin's one exported symbol and its tables by number. OpenCL itself is loaded when a device is first asked for,
// so that a machine without it has a plugin that says what is missing.
#include "backends/opencl/options.hpp"
#include "backends/opencl/tables.hpp"
#include "plugins/sdk/plugin_table.hpp"

namespace crucible_opencl {
namespace {

using namespace crucible;

constexpr sdk::Identity kIdentity = {.name = "opencl", .vendor = "Crucible", .version = "0.2.0",
                                     .needs = "libOpenCL.so.1 and a driver, OpenCL 1.2 or newer"};

constexpr sdk::PluginTable kTables[] = {{CRUCIBLE_IF_DEVICE, &kDeviceTable}, {CRUCIBLE_IF_MEMORY, &kMemoryTable},
                                        {CRUCIBLE_IF_COMPILE, &kCompileTable}, {CRUCIBLE_IF_PLAN, &kPlanTable},
                                        {CRUCIBLE_IF_QUEUE, &kQueueTable}};
constexpr crucible_plugin_api kApi = sdk::make_plugin_table<kTables, options>();

}  // namespace
}  // namespace crucible_opencl

extern "C" CRUCIBLE_EXPORT int32_t crucible_plugin_query(const crucible_query_in* in, crucible_query_out* out) {
  return crucible::sdk::answer_query(in, out, crucible_opencl::kIdentity, &crucible_opencl::kApi);
}
