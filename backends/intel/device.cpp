// Device table: what the drivers' devices are called and can do, opening one with a context, a queue and an immediate
// list.
#include "backends/intel/device.hpp"

#include <bit>
#include <memory>
#include <string_view>

#include "backends/intel/options.hpp"
#include "backends/intel/sysman.hpp"
#include "backends/intel/tables.hpp"
#include "plugins/sdk/device_table.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/mathematics.hpp"
#include "plugins/sdk/signal_guard.hpp"
#include "plugins/sdk/team_kernel.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible_intel {
namespace {

using namespace crucible;

crucible_status enumerate(crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(sink != nullptr, "device.enumerate: no function to report to");
    for (const DeviceFacts& facts : list_devices(level_zero())) {
      sdk::report(
          sink, user,
          {sdk::text_item("id", facts.id), sdk::text_item("name", facts.name), sdk::text_item("kind", "intel"),
           sdk::text_item("uuid", facts.uuid), sdk::text_item("pci", ""),
           sdk::number_item("threads", facts.units * facts.lanes), sdk::number_item("memory_bytes", facts.memory_bytes),
           sdk::number_item("emulated", facts.is_emulated ? 1 : 0)});
    }
  });
}

/// As the option `plans` says. Errors: UNAVAILABLE when it asks for what the driver does not have.
MutableLists choose_plans(const Functions& ze, const DeviceFacts& facts) {
  const std::string plans = options().get_text("plans");
  MutableLists lists;
  if (plans == "recorded") {
    lists.why_not = "the option plans is recorded";
    return lists;
  }
  lists = find_mutable_lists(ze, facts.driver, facts.device);
  if (plans == "auto" || lists.usable()) return lists;
  throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE,
                     "plans = mutable cannot be had on " + facts.id + " (" + facts.name + "): " + lists.why_not +
                         "; set plans to auto",
                     {{"where", "plans"}});
}

constexpr std::uint32_t kUsualSubgroup = 16;  // 64 bytes of the commonest type: a line of the cache
constexpr std::uint32_t kSubgroupVersion = ZE_MAKE_VERSION(1, 1);  // of SPIR-V, in which kernels demand their size

/// A team is a sub-group of the size that most kernels are compiled for anyway, or a group as wide as an execution
/// unit's vectors. None where groups are too small for one, or share too little memory.
void choose_teams(crucible_device& device) {
  const DeviceFacts& facts = device.facts;
  const auto& sizes = facts.subgroup_sizes;
  device.by_subgroups = options().get_bool("subgroups") && !sizes.empty() && facts.spirv_version >= kSubgroupVersion;
  std::uint32_t lanes = facts.lanes;
  if (device.by_subgroups) {
    const bool has_usual = std::ranges::find(sizes, kUsualSubgroup) != sizes.end();
    lanes = has_usual ? kUsualSubgroup : *std::ranges::max_element(sizes);
  }
  if (facts.group_size >= lanes && facts.shared_bytes >= sdk::kTeamSharedBytes && std::has_single_bit(lanes))
    device.team_lanes = lanes;
}

crucible_status open(crucible_str device_id, crucible_device** out) {
  return sdk::guard([&] {
    sdk::require(out != nullptr, "device.open: no place for the device");
    const Functions& ze = level_zero();
    auto device = std::make_unique<crucible_device>();
    device->ze = &ze;
    device->facts = find_device(ze, device_id);
    device->group_size = static_cast<std::uint32_t>(options().get_u64("group_size"));
    if (options().get_bool("teams")) choose_teams(*device);
    device->watchdog.start(device->facts.id, options().get_u64("timeout_s"));
    const DeviceFacts& facts = device->facts;
    const sdk::SignalGuard guard;
    device->mutable_lists = choose_plans(ze, facts);
    const auto context_description = typed<ze_context_desc_t>(ZE_STRUCTURE_TYPE_CONTEXT_DESC);
    ze_context_handle_t context = nullptr;
    check(ze.zeContextCreate(facts.driver, &context_description, &context),
          "device.open: zeContextCreate for " + facts.id);
    device->context = OwnedContext(ze, context);
    auto queue_description = typed<ze_command_queue_desc_t>(ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC);
    queue_description.ordinal = facts.queue_group;
    queue_description.mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS;
    ze_command_queue_handle_t queue = nullptr;
    check(ze.zeCommandQueueCreate(context, facts.device, &queue_description, &queue),
          "device.open: zeCommandQueueCreate for " + facts.id);
    device->queue = OwnedQueue(ze, queue);
    queue_description.mode = ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS;
    ze_command_list_handle_t now = nullptr;
    check(ze.zeCommandListCreateImmediate(context, facts.device, &queue_description, &now),
          "device.open: zeCommandListCreateImmediate for " + facts.id);
    device->now = OwnedList(ze, now);
    *out = device.release();
  });
}

crucible_status properties(crucible_device* device, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && sink != nullptr, "device.properties: no device or no function to report to");
    const DeviceFacts& facts = device->facts;
    sdk::report(
        sink, user,
        {sdk::text_item("name", facts.name), sdk::text_item("vendor", "Intel"), sdk::text_item("driver", facts.version),
         sdk::text_item("dialect", "spirv"), sdk::math_item(),
         sdk::number_item("threads", facts.units * device->lanes()), sdk::number_item("lanes", device->lanes()),
         sdk::text_item("teams", device->team_lanes == 1 ? "none"
                                 : device->by_subgroups  ? "subgroups"
                                                         : "groups"),
         sdk::number_item("largest_buffer_bytes", facts.largest_buffer_bytes),
         sdk::number_item("group_size", device->group_size),
         sdk::text_item(
             "plans", device->mutable_lists.usable() ? "mutable" : "recorded (" + device->mutable_lists.why_not + ")"),
         sdk::text_item("library", "none")});
    const auto note = [&](std::string_view text) { sdk::report(sink, user, {sdk::text_item("note", text)}); };
    if (!facts.rounds_division) note("the driver does not promise correctly rounded division and square root");
    if (!facts.keeps_subnormals) note("the driver does not promise to keep subnormal numbers");
    if (!facts.has_f64) note("the device has no float64: kernels that compute in it are refused by its compiler");
    if (const char* mask = std::getenv("ZE_AFFINITY_MASK"))
      sdk::report(sink, user, {sdk::text_item("ZE_AFFINITY_MASK", mask)});
    if (facts.is_emulated) note("the device is emulated: its times say nothing about a device of Intel's");
  });
}

crucible_status capabilities(crucible_str device_id, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(sink != nullptr, "device.capabilities: no function to report to");
    const DeviceFacts facts = find_device(level_zero(), device_id);
    const std::string no_sysman = sysman_refusal();
    const bool has_clock = level_zero().zeDeviceGetGlobalTimestamps != nullptr;
    std::string counters;
    try {
      if (!list_metrics(level_zero(), facts.device, counters).empty()) counters = "the device's clock and its metrics";
    } catch (const sdk::Failure& failure) {  // the device can do all the rest
      counters = failure.what();
    }
    using sdk::Answer;
    sdk::report(sink, user,
                {sdk::answer_item("compile.opaque", Answer::kNo, "opaque ops are a framework's"),
                 sdk::answer_item("compile.ir", Answer::kYes, "written as SPIR-V"),
                 sdk::answer_item("f64", facts.has_f64 ? Answer::kYes : Answer::kNo, "as the driver says"),
                 sdk::answer_item("f16", Answer::kYes, "stored; computed as f32"),
                 sdk::answer_item("bf16", Answer::kYes, "stored; computed as f32"),
                 sdk::answer_item("async", Answer::kYes, "submit returns at once"),
                 sdk::answer_item("library.matmul", Answer::kNo, "no library is called"),
                 sdk::answer_item("library.conv2d", Answer::kNo, "no library is called"),
                 sdk::answer_item("profile", has_clock ? Answer::kYes : Answer::kNo, counters),
                 sdk::answer_item("health", Answer::kYes, no_sysman.empty() ? "Sysman" : no_sysman)});
  });
}

/// An execution unit does a multiply-add per lane and cycle. An emulated device is for tests: it comes last of all.
crucible_status score(crucible_str device_id, const crucible_kv* workload, std::uint32_t count, std::uint64_t* out,
                      crucible_kv_sink why, void* user) {
  return sdk::tell_score(workload, count, out, why, user, [&](std::uint64_t peak_bytes) {
    const DeviceFacts facts = find_device(level_zero(), device_id);
    if (peak_bytes > facts.largest_buffer_bytes)
      return sdk::score_of_too_little(peak_bytes, facts.largest_buffer_bytes);
    if (facts.is_emulated) return sdk::Score{1, "the device is emulated"};
    return sdk::score_of_cycles(facts.units, "execution units", facts.megahertz, std::uint64_t{2} * facts.lanes);
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
                                         .score = score,
                                         .wait_idle = sdk::wait_for_device,
                                         .self_test = nullptr};

}  // namespace crucible_intel
