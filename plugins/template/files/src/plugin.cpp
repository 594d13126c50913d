// The one exported function, and what hangs on it: the plugin's name, its options, start and stop, its tables.
#include <crucible/sdk/plugin_table.hpp>

#include "device.hpp"
#include "tables.hpp"

namespace acme {

using namespace crucible;

// (1) Who you are. The name is that of the file, libcrucible_acme.so, and what users write after --backend. The query
// must stay pure: it runs in a probe before anything is loaded for real, so it may not touch your driver.
constexpr sdk::Identity kIdentity = {.name = "acme", .vendor = "nobody yet", .version = "0.1.0"};

// (2) What users may set. The host checks their words against this table before your code sees them. Add yours: a
// number of streams, a precision, a path to your tools; and say whether a crucible.toml that lies in a folder of somebody
// else may set one: only what chooses among what is there is harmless, and what names a file or a program never is.
constexpr sdk::OptionSpec kOptionSpecs[] = {
    {.name = "compiler",
     .type = sdk::OptionType::kPath,
     .help = "C compiler of the kernels, a path or a name in PATH; by default clang, cc or gcc",
     .from_folder = sdk::FromFolder::kNeedsTrust},
};
constexpr sdk::Options kOptions(kOptionSpecs);

const sdk::Options& options() { return kOptions; }

namespace {

// (3) Start and stop: open your driver or load your vendor's library here, and end every thread in stop. A machine without your driver is no
// crash and no exception: throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE, "what to install").
void start() {}
void stop() {}

// (10) Tables that you do not have yet: library, binary, profile, health.
constexpr sdk::PluginTable kTables[] = {{CRUCIBLE_IF_DEVICE, &kDeviceTable},
                                        {CRUCIBLE_IF_MEMORY, &kMemoryTable},
                                        {CRUCIBLE_IF_COMPILE, &kCompileTable},
                                        {CRUCIBLE_IF_PLAN, &kPlanTable},
                                        {CRUCIBLE_IF_QUEUE, &kQueueTable}};
constexpr crucible_plugin_api kApi = sdk::make_plugin_table<kTables, kOptions, start, stop>();

}  // namespace
}  // namespace acme

extern "C" CRUCIBLE_EXPORT int32_t crucible_plugin_query(const crucible_query_in* in, crucible_query_out* out) {
  return crucible::sdk::answer_query(in, out, acme::kIdentity, &acme::kApi);
}
