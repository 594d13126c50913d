// (4) Which devices there are, and opening one. Replace what stands on top (id, name, memory) by questions to your
// driver, open your context in open() and close it in the destructor of crucible_device, and say in capabilities() what
// the device can do.
#include "device.hpp"

#include <sys/sysinfo.h>

#include <crucible/sdk/device_table.hpp>
#include <crucible/sdk/error.hpp>
#include <crucible/sdk/text.hpp>
#include <memory>
#include <string_view>

#include "kernel.hpp"
#include "tables.hpp"

namespace acme {
namespace {

using namespace crucible;

constexpr std::string_view kDeviceId = "acme:0";  // "acme:0", "acme:1", ... in a fixed order
constexpr std::string_view kDeviceName = "host memory of this machine";

std::uint64_t device_memory_bytes() {
  struct sysinfo info = {};
  return sysinfo(&info) == 0 ? std::uint64_t{info.totalram} * info.mem_unit : 0;
}

void check_id(crucible_str device_id) {
  if (sdk::view(device_id).empty() || sdk::view(device_id) == kDeviceId) return;
  throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE,
                     "there is no device '" + sdk::to_string(device_id) + "', only " + std::string(kDeviceId));
}

crucible_status enumerate(crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(sink != nullptr, "device.enumerate: no function to report to");
    // One call of the sink per device. An emulated device is never chosen by `auto`: drop that line for a real one.
    sdk::report(sink, user,
                {sdk::text_item("id", kDeviceId), sdk::text_item("name", kDeviceName), sdk::text_item("kind", "acme"),
                 sdk::number_item("threads", 1), sdk::number_item("memory_bytes", device_memory_bytes()),
                 sdk::number_item("emulated", 1)});
  });
}

crucible_status open(crucible_str device_id, crucible_device** out) {
  return sdk::guard([&] {
    sdk::require(out != nullptr, "device.open: no place for the device");
    check_id(device_id);
    auto device = std::make_unique<crucible_device>();
    device->compiler = options().get_text("compiler");
    device->memory_bytes = device_memory_bytes();
    *out = device.release();
  });
}

crucible_status properties(crucible_device* device, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && sink != nullptr, "device.properties: no device or no function to report to");
    // Also what is missing on this machine and what that costs: `crucible devices` shows it.
    sdk::report(sink, user,
                {sdk::text_item("name", kDeviceName), sdk::text_item("dialect", dialect().name),
                 sdk::text_item("note", "a template: host memory, one thread, no libraries")});
  });
}

// Asked before anything is opened. What is "yes" here, the conformance kit tries; what is "no" must answer UNSUPPORTED.
crucible_status capabilities(crucible_str device_id, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(sink != nullptr, "device.capabilities: no function to report to");
    check_id(device_id);
    using sdk::Answer;
    sdk::report(sink, user,
                {dialect().name == "c" ? sdk::answer_item("compile.text", Answer::kYes, "C, as the host prints it")
                                       : sdk::answer_item("compile.text", Answer::kNo, "the host prints C alone"),
                 sdk::answer_item("compile.ir", Answer::kYes, "printed in the device's dialect"),
                 sdk::answer_item("f64", Answer::kYes, "the host computes"),
                 sdk::answer_item("f16", Answer::kYes, "the host computes"),
                 sdk::answer_item("bf16", Answer::kYes, "the host computes"),
                 sdk::answer_item("queue", Answer::kYes, "a thread of the host per queue"),
                 sdk::answer_item("async", Answer::kYes, "submit does not wait"),
                 sdk::answer_item("library.matmul", Answer::kNo, "no library"),
                 sdk::answer_item("library.conv2d", Answer::kNo, "no library"),
                 sdk::answer_item("binary", Answer::kNo, "no table yet"),
                 sdk::answer_item("profile", Answer::kNo, "no table yet"),
                 sdk::answer_item("health", Answer::kNo, "no table yet")});
  });
}

}  // namespace

const crucible_if_device kDeviceTable = {.struct_size = sizeof(crucible_if_device),
                                         .if_minor = CRUCIBLE_ABI_MINOR,
                                         .enumerate = enumerate,
                                         .open = open,
                                         .close = sdk::close_device,
                                         .properties = properties,
                                         .capabilities = capabilities,
                                         .score = nullptr,
                                         .wait_idle = sdk::wait_for_device,
                                         .self_test = nullptr};

}  // namespace acme
