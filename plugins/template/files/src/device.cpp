// (4) Which devices there are, what they are, what they can do. Replace find() by questions to your driver.
#include "device.hpp"

#include <sys/sysinfo.h>

#include <crucible/sdk/device_table.hpp>

namespace acme {
namespace {

struct Devices {
  using Device = crucible_device;

  /// "acme:0", "acme:1", ... in a fixed order; nothing is opened. `emulated` ones are never chosen by `auto`.
  static std::vector<sdk::DeviceFacts> find() {
    struct sysinfo info = {};
    sysinfo(&info);
    return {{.id = "acme:0", .name = "host memory of this machine", .kind = "acme",
             .memory_bytes = std::uint64_t{info.totalram} * info.mem_unit, .emulated = true}};
  }

  static std::unique_ptr<crucible_device> open(const sdk::DeviceFacts& facts) {
    auto device = std::make_unique<crucible_device>();
    device->id = facts.id;
    device->memory_bytes = facts.memory_bytes;
    return device;
  }

  /// For `crucible devices`: also what is missing on this machine and what that costs.
  static void properties(const crucible_device&, crucible_kv_sink sink, void* user) {
    sdk::report(sink, user, {sdk::text_item("dialect", dialect().name),
                             sdk::text_item("note", "a template: host memory, one thread, no libraries")});
  }

  /// What is "yes" here, the conformance kit tries; what is "no" must answer UNSUPPORTED.
  static void capabilities(const sdk::DeviceFacts&, crucible_kv_sink sink, void* user) {
    using sdk::Answer;
    for (const char* key : {"compile.ir", "f64", "f16", "bf16", "async"})
      sdk::report(sink, user, {sdk::answer_item(key, Answer::kYes, "on the host")});
    for (const char* key : {"compile.opaque", "library.matmul", "library.conv2d", "profile", "health"})
      sdk::report(sink, user, {sdk::answer_item(key, Answer::kNo, "not yet")});
  }
};

}  // namespace

const crucible_if_device kDeviceTable = sdk::make_device_table<Devices>();

}  // namespace acme
