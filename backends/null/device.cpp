// Device table: one device that is always there. Its properties are the counts.
#include <memory>

#include "backends/null/counts.hpp"
#include "backends/null/tables.hpp"
#include "plugins/sdk/device_table.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible_null {
namespace {

using namespace crucible;

constexpr std::string_view kDeviceId = "null:0";

void check_id(crucible_str id) {
  if (sdk::view(id).empty() || sdk::view(id) == kDeviceId) return;
  throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE, "there is no device '" + sdk::to_string(id) + "', only null:0");
}

crucible_status enumerate(crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(sink != nullptr, "device.enumerate: no function to report to");
    sdk::report(sink, user,
                {sdk::text_item("id", kDeviceId), sdk::text_item("name", "computes nothing, counts everything"),
                 sdk::text_item("kind", "null"), sdk::number_item("threads", 1), sdk::number_item("emulated", 1)});
  });
}

crucible_status open(crucible_str id, crucible_device** out) {
  return sdk::guard([&] {
    sdk::require(out != nullptr, "device.open: no place for the device");
    check_id(id);
    counts().add(Count::kDevicesOpened);
    *out = std::make_unique<crucible_device>().release();
  });
}

/// The counts go into the run's receipt.
crucible_status close(crucible_device* device) {
  return sdk::guard([&] {
    sdk::require(device != nullptr, "device.close: no device");
    device->ledger.report_leaks("device");
    for (std::size_t i = 0; i < kCounts; ++i)
      sdk::metric(name(static_cast<Count>(i)), counts().of(static_cast<Count>(i)));
    delete device;
  });
}

crucible_status properties(crucible_device* device, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && sink != nullptr, "device.properties: no device or no function to report to");
    sdk::report(
        sink, user,
        {sdk::math_item(), sdk::text_item("note", "results are zeros: nothing that runs here can be verified")});
    counts().report(sink, user);
  });
}

crucible_status capabilities(crucible_str id, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(sink != nullptr, "device.capabilities: no function to report to");
    check_id(id);
    sdk::report(sink, user, {sdk::answer_item("compile.ir", sdk::Answer::kYes, "taken and dropped")});
    for (const std::string_view key :
         {"compile.opaque", "library.matmul", "library.conv2d", "f64", "f16", "bf16", "profile", "health"}) {
      sdk::report(sink, user, {sdk::answer_item(key, sdk::Answer::kNo, "nothing is computed")});
    }
    sdk::report(sink, user, {sdk::answer_item("async", sdk::Answer::kYes, "submit returns at once")});
  });
}

/// 0: it can run no program, so `auto` never takes it.
crucible_status score(crucible_str id, const crucible_kv* workload, std::uint32_t count, std::uint64_t* out_score,
                      crucible_kv_sink why, void* user) {
  return sdk::guard([&] {
    sdk::require(out_score != nullptr && (workload != nullptr || count == 0),
                 "device.score: no place for the answer or no workload");
    check_id(id);
    if (why != nullptr) sdk::report(why, user, {sdk::text_item("why", "computes nothing")});
    *out_score = 0;
  });
}

}  // namespace

const crucible_if_device kDeviceTable = {.struct_size = sizeof(crucible_if_device),
                                         .if_minor = CRUCIBLE_ABI_MINOR,
                                         .enumerate = enumerate,
                                         .open = open,
                                         .close = close,
                                         .properties = properties,
                                         .capabilities = capabilities,
                                         .score = score,
                                         .wait_idle = sdk::wait_for_device<crucible_device>,
                                         .self_test = nullptr};

}  // namespace crucible_null
