// The plugin's one exported symbol and its tables by number.
#include "backends/torch/tables.hpp"
#include "plugins/sdk/plugin_table.hpp"

namespace crucible_torch {
namespace {

using namespace crucible;

constexpr sdk::Identity kIdentity = {.name = "torch", .vendor = "Crucible", .version = "0.1.0"};

constexpr sdk::OptionSpec kSpecs[] = {
    {.name = "threads",
     .type = sdk::OptionType::kU64,
     .min = 1,
     .max = 1024,
     .help = "threads that one op uses; default: as libtorch chooses",
     .env = "CRUCIBLE_THREADS",
     .from_folder = sdk::FromFolder::kHarmless},
    {.name = "libraries",
     .type = sdk::OptionType::kText,
     .help = "libraries with ops of their own: packages beside torch (torchvision), or paths; colons between them",
     .env = "CRUCIBLE_TORCH_LIBRARIES",
     .from_folder = sdk::FromFolder::kNeedsTrust},
};

constexpr sdk::PluginTable kTables[] = {{CRUCIBLE_IF_DEVICE, &kDeviceTable},
                                        {CRUCIBLE_IF_MEMORY, &kMemoryTable},
                                        {CRUCIBLE_IF_COMPILE, &kCompileTable},
                                        {CRUCIBLE_IF_PLAN, &kPlanTable},
                                        {CRUCIBLE_IF_QUEUE, &kQueueTable}};
constexpr crucible_plugin_api kApi = sdk::make_plugin_table<kTables, kOptions>();

}  // namespace

const sdk::Options kOptions(kSpecs);

}  // namespace crucible_torch

extern "C" CRUCIBLE_EXPORT int32_t crucible_plugin_query(const crucible_query_in* in, crucible_query_out* out) {
  return crucible::sdk::answer_query(in, out, crucible_torch::kIdentity, &crucible_torch::kApi);
}
