// The one exported function, and what hangs on it: the plugin's name, its options, start and stop, its tables.
#include <crucible/sdk/host_compiler.hpp>
#include <crucible/sdk/plugin_table.hpp>
#include <crucible/sdk/text_module.hpp>

#include "device.hpp"

namespace acme {
namespace {

// (1) Who you are. The name is that of the file, libcrucible_acme.so, and what users write after --backend. The query
// must stay pure: it runs in a probe before anything is loaded for real, so it may not touch your driver.
constexpr sdk::Identity kIdentity = {.name = "acme", .vendor = "nobody yet", .version = "0.1.0"};

// (2) What users may set; `crucible plugin options acme` shows it. Yours: {.name = "streams", .type =
// sdk::OptionType::kU64, .default_value = "1", .min = 1, .max = 16, .help = "How many at once."}.
constexpr sdk::OptionSpec kOptionSpecs[] = {sdk::kCompilerOption};
constexpr sdk::Options kOptions(kOptionSpecs);

// (3) Open your driver here, end every thread in stop. A machine without your driver is no crash:
// throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE, "what to install").
void start() {}
void stop() {}

// (10) Tables that you do not have yet: library, profile, health.
constexpr sdk::PluginTable kTables[] = {{CRUCIBLE_IF_DEVICE, &kDeviceTable}, {CRUCIBLE_IF_MEMORY, &kMemoryTable},
                                        {CRUCIBLE_IF_COMPILE, &kCompileTable}, {CRUCIBLE_IF_PLAN, &kPlanTable},
                                        {CRUCIBLE_IF_QUEUE, &kQueueTable}};
constexpr crucible_plugin_api kApi = sdk::make_plugin_table<kTables, kOptions, start, stop>();

}  // namespace

const sdk::Options& options() { return kOptions; }

}  // namespace acme

extern "C" CRUCIBLE_EXPORT int32_t crucible_plugin_query(const crucible_query_in* in, crucible_query_out* out) {
  return crucible::sdk::answer_query(in, out, acme::kIdentity, &acme::kApi);
}
