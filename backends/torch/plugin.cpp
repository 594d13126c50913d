// The plugin's one exported symbol, start and stop.
#include "backends/torch/tables.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host.hpp"
#include "plugins/sdk/query.hpp"

namespace crucible_torch {
namespace {

using namespace crucible;

constexpr sdk::Identity kIdentity = {.name = "torch", .vendor = "Crucible", .version = "0.1.0"};

constexpr sdk::OptionSpec kSpecs[] = {
    {.name = "threads", .type = sdk::OptionType::kU64, .min = 1, .max = 1024,
     .help = "threads that one op uses; default: as libtorch chooses", .env = "CRUCIBLE_THREADS",
     .from_folder = sdk::FromFolder::kHarmless},
};

crucible_status describe_options(crucible_kv_sink sink, void* user) { return kOptions.describe(sink, user); }

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
    default:
      return nullptr;  // an open set of numbers: a newer host may ask for more
  }
}

constexpr crucible_plugin_api kApi = {
    sizeof(crucible_plugin_api), CRUCIBLE_ABI_MINOR, init, shutdown, interface_table, describe_options};

}  // namespace

const sdk::Options kOptions(kSpecs);

}  // namespace crucible_torch

extern "C" CRUCIBLE_EXPORT int32_t crucible_plugin_query(const crucible_query_in* in, crucible_query_out* out) {
  return crucible::sdk::answer_query(in, out, crucible_torch::kIdentity, &crucible_torch::kApi);
}
