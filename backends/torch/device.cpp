// Device table: libtorch on the processor. It runs opaque ops alone, so `auto` never takes it.
#include <ATen/Parallel.h>
#include <torch/version.h>
#include <unistd.h>

#include <memory>

#include "backends/torch/libraries.hpp"
#include "backends/torch/tables.hpp"
#include "plugins/sdk/device_table.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible_torch {
namespace {

using namespace crucible;

constexpr std::string_view kDeviceId = "torch:0";

void check_id(crucible_str id) {
  if (sdk::view(id).empty() || sdk::view(id) == kDeviceId) return;
  throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE, "there is no device '" + sdk::to_string(id) + "', only torch:0");
}

crucible_status enumerate(crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(sink != nullptr, "device.enumerate: no function to report to");
    const std::uint64_t memory =
        static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    sdk::report(
        sink, user,
        {sdk::text_item("id", kDeviceId), sdk::text_item("name", "libtorch " TORCH_VERSION " on the processor"),
         sdk::text_item("kind", "cpu"), sdk::number_item("threads", static_cast<std::uint64_t>(at::get_num_threads())),
         sdk::number_item("memory_bytes", memory), sdk::number_item("emulated", 0)});
  });
}

crucible_status open(crucible_str id, crucible_device** out) {
  return sdk::guard([&] {
    sdk::require(out != nullptr, "device.open: no place for the device");
    check_id(id);
    load_libraries();
    if (kOptions.has("threads")) at::set_num_threads(static_cast<int>(kOptions.get_u64("threads")));
    *out = std::make_unique<crucible_device>().release();
  });
}

crucible_status close(crucible_device* device) {
  return sdk::guard([&] {
    sdk::require(device != nullptr, "device.close: no device");
    device->ledger.report_leaks("device");
    delete device;
  });
}

crucible_status properties(crucible_device* device, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && sink != nullptr, "device.properties: no device or no function to report to");
    sdk::report(sink, user, {sdk::text_item("libtorch", TORCH_VERSION), sdk::text_item("runs", "opaque ops")});
  });
}

crucible_status capabilities(crucible_str id, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(sink != nullptr, "device.capabilities: no function to report to");
    check_id(id);
    for (const std::string_view key : {"compile.opaque", "f64", "f16", "bf16"}) {
      sdk::report(sink, user, {sdk::answer_item(key, sdk::Answer::kYes, "of opaque ops")});
    }
    for (const std::string_view key : {"compile.ir", "library.matmul", "library.conv2d", "profile", "health"}) {
      sdk::report(sink, user, {sdk::answer_item(key, sdk::Answer::kNo, "it runs opaque ops alone")});
    }
    sdk::report(sink, user, {sdk::answer_item("async", sdk::Answer::kYes, "submit returns at once")});
  });
}

/// 0: of most programs it can run nothing, so `auto` never takes it.
crucible_status score(crucible_str id, const crucible_kv* workload, std::uint32_t count, std::uint64_t* out_score,
                      crucible_kv_sink why, void* user) {
  return sdk::guard([&] {
    sdk::require(out_score != nullptr && (workload != nullptr || count == 0),
                 "device.score: no place for the answer or no workload");
    check_id(id);
    if (why != nullptr) sdk::report(why, user, {sdk::text_item("reason", "it runs opaque ops alone")});
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

}  // namespace crucible_torch
