// The plugin's one exported symbol and what hangs on it: the query, start and stop, and the tables by number.
#include "backends/cpu/sdk.hpp"
#include "backends/cpu/tables.hpp"
#include "plugins/sdk/query.hpp"

namespace crucible_cpu {
namespace {

crucible_status init(const crucible_host_api* host) {
  return guard([&] {
    require(host != nullptr, "init: the host's table is missing");
    set_host(host);
  });
}

crucible_status shutdown() {
  return guard([] { set_host(nullptr); });
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
    case CRUCIBLE_IF_LIBRARY:
      return &kLibraryTable;
    case CRUCIBLE_IF_QUEUE:
      return &kQueueTable;
    case CRUCIBLE_IF_BINARY:
      return &kBinaryTable;
    case CRUCIBLE_IF_PROFILE:
      return &kProfileTable;
    case CRUCIBLE_IF_HEALTH:
      return &kHealthTable;
    default:
      return nullptr;  // an open set of numbers: a newer host may ask for more
  }
}

crucible_status describe_options(crucible_kv_sink sink, void* user) { return kOptions.describe(sink, user); }

constexpr crucible_plugin_api kApi = {sizeof(crucible_plugin_api), CRUCIBLE_ABI_MINOR, init, shutdown, interface_table,
                                     describe_options};

constexpr Identity kIdentity = {
    .name = "cpu", .vendor = "Crucible", .version = "0.2.0", .build_id = "gcc " __VERSION__, .needs = "clang"};

}  // namespace
}  // namespace crucible_cpu

extern "C" CRUCIBLE_EXPORT int32_t crucible_plugin_query(const crucible_query_in* in, crucible_query_out* out) {
  return crucible_cpu::answer_query(in, out, crucible_cpu::kIdentity, &crucible_cpu::kApi);
}
