// Device table: what the platforms' devices are called and can do, opening one with a context and a queue.
#include "backends/opencl/device.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <string_view>

#include "backends/opencl/options.hpp"
#include "backends/opencl/tables.hpp"
#include "plugins/sdk/device_table.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/mathematics.hpp"
#include "plugins/sdk/team_kernel.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible_opencl {
namespace {

using namespace crucible;

crucible_status enumerate(crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(sink != nullptr, "device.enumerate: no function to report to");
    for (const DeviceFacts& facts : list_devices(opencl())) {
      sdk::report(sink, user,
                  {sdk::text_item("id", facts.id), sdk::text_item("name", facts.name), sdk::text_item("kind", "opencl"),
                   sdk::text_item("uuid", facts.uuid), sdk::text_item("pci", facts.pci),
                   sdk::number_item("threads", facts.threads()), sdk::number_item("memory_bytes", facts.memory_bytes),
                   sdk::number_item("emulated", 0)});
    }
  });
}

/// What kernels cannot be compiled without. Errors: UNAVAILABLE, UNSUPPORTED.
void require_usable(const DeviceFacts& facts) {
  const std::string who = facts.id + " (" + facts.name + ", " + facts.platform_name + ")";
  // "OpenCL 1.1 words of the vendor".
  const std::string version =
      facts.version.starts_with("OpenCL ") ? facts.version.substr(7, facts.version.find(' ', 7) - 7) : "";
  if (version == "1.0" || version == "1.1") {
    throw sdk::Failure(CRUCIBLE_E_INCOMPATIBLE,
                       who + " speaks OpenCL " + version + ", and 1.2 or newer is needed: update its driver",
                       {{"have", version}, {"need", "1.2"}});
  }
  if (!facts.has_compiler) {
    throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE, who + " has no compiler for OpenCL C: install its driver's compiler");
  }
  if (!facts.has_f64()) {
    throw sdk::Failure(CRUCIBLE_E_UNSUPPORTED,
                       who + " has no float64 (cl_khr_fp64), in which kernels get their scalars: use another device");
  }
}

/// As the option `language` says: OpenCL C, which every driver takes, unless it asks for SPIR-V. Errors: UNAVAILABLE
/// when the driver takes none.
void choose_language(crucible_device& device) {
  if (options().get_text("language") != "spirv") return;
  const DeviceFacts& facts = device.facts;
  std::string why_not;
  if (!facts.has_spirv())
    why_not = facts.intermediate.empty() ? "its driver takes no intermediate language"
                                         : "its driver takes only " + facts.intermediate;
  if (why_not.empty()) {
    device.create_spirv = device.cl->clCreateProgramWithIL;
    if (facts.has("cl_khr_il_program")) {  // drivers before OpenCL 2.1, behind whose loader the other one fails
      void* const found =
          device.cl->clGetExtensionFunctionAddressForPlatform(facts.platform, "clCreateProgramWithILKHR");
      if (found != nullptr) device.create_spirv = reinterpret_cast<decltype(device.create_spirv)>(found);
    }
    if (device.create_spirv == nullptr) why_not = "the library lacks clCreateProgramWithIL";
  }
  if (!why_not.empty()) {
    throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE,
                       "language = spirv cannot be had on " + facts.id + " (" + facts.name + ", " +
                           facts.platform_name + "): " + why_not + "; set language to c",
                       {{"where", "language"}});
  }
  device.language = Language::kSpirv;
}

/// A block's arrays, and a number of 64 bits for each work-item of it.
constexpr std::uint64_t kTeamLocalBytes = sdk::kTeamSharedBytes + 8 * std::uint64_t{sdk::kMostBlockThreads};
constexpr std::uint64_t kUsualLanes = 32, kLeastLanes = 8;

/// Work-items of a sub-group: a vector of 64 bytes of the commonest type, or as many as the device has.
std::uint64_t subgroup_lanes(const DeviceFacts& facts) {
  const auto has = [&](std::uint64_t lanes) {
    return std::ranges::find(facts.subgroup_sizes, lanes) != facts.subgroup_sizes.end();
  };
  for (const std::uint64_t lanes : {std::uint64_t{16}, kUsualLanes, kLeastLanes}) {
    if (has(lanes)) return lanes;
  }
  return 0;
}

/// As the options `teams` and `lanes` say: by themselves not on processors, whose compilers make vectors of a
/// work-item's loops. Errors: UNAVAILABLE when they ask for what the device does not have, INVALID_ARGUMENT for chunks
/// or a number of lanes that is none.
void choose_teams(crucible_device& device) {
  const DeviceFacts& facts = device.facts;
  const std::string teams = options().get_text("teams"), mapping = options().get_text("mapping");
  std::uint64_t lanes = options().get_u64("lanes");
  const bool is_asked = teams == "groups" || teams == "subgroups";
  if (teams == "none" || (teams == "auto" && (facts.is_processor() || mapping == "chunks"))) return;
  const auto refuse = [&](crucible_code code, const std::string& why) {
    if (!is_asked) return;
    throw sdk::Failure(code,
                       "teams = " + teams + " cannot be had on " + facts.id + " (" + facts.name + ", " +
                           facts.platform_name + "): " + why,
                       {{"where", "teams"}});
  };
  if (mapping == "chunks")
    return refuse(CRUCIBLE_E_INVALID_ARGUMENT, "they do items, not chunks; set mapping to items");
  const bool by_subgroups = teams == "subgroups" || (teams == "auto" && subgroup_lanes(facts) != 0);
  if (lanes == 0) lanes = by_subgroups ? subgroup_lanes(facts) : facts.in_step != 0 ? facts.in_step : kUsualLanes;
  if (by_subgroups && std::ranges::find(facts.subgroup_sizes, lanes) == facts.subgroup_sizes.end())
    return refuse(CRUCIBLE_E_UNAVAILABLE,
                  lanes == 0 ? "it lets no kernel demand the width of a sub-group (cl_intel_required_subgroup_size); "
                               "set teams to groups"
                             : "it has no sub-groups of " + std::to_string(lanes) + "; set lanes to 0");
  if (!std::has_single_bit(lanes) || lanes < 2)
    return refuse(CRUCIBLE_E_INVALID_ARGUMENT, "lanes are a power of two, and not " + std::to_string(lanes));
  if (facts.group_size < sdk::kMostBlockThreads || facts.local_bytes < kTeamLocalBytes)
    return refuse(CRUCIBLE_E_UNAVAILABLE, "its groups have at most " + std::to_string(facts.group_size) +
                                              " work-items, which share " + std::to_string(facts.local_bytes) +
                                              " bytes, and " + std::to_string(sdk::kMostBlockThreads) + " and " +
                                              std::to_string(kTeamLocalBytes) + " are needed");
  device.teams = by_subgroups ? Teams::kSubgroups : Teams::kGroups;
  device.team_lanes = static_cast<std::uint32_t>(lanes);
  device.mapping = Mapping::kItems;
}

/// As the option `plans` says. Errors: UNAVAILABLE when it asks for what the driver does not have.
void choose_plans(crucible_device& device) {
  const std::string plans = options().get_text("plans");
  device.only_command_buffers = plans == "command_buffer";
  if (plans == "queue") {
    device.command_buffers.why_not = "the option plans is queue";
    return;
  }
  device.command_buffers = find_command_buffers(*device.cl, device.facts);
  CommandBufferFunctions& found = device.command_buffers;
  if (!device.only_command_buffers && found.usable()) {
    // Measured (README): for a command buffer both drivers for processors take up to twice as long as for its commands.
    if (device.facts.is_processor())
      found.why_not = "by the option auto a processor's driver gets the commands one by one, which takes it less time";
    if (!found.can_change() && found.usable()) found.why_not = found.why_not_change;
  }
  if (device.command_buffers.usable() || !device.only_command_buffers) return;
  throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE,
                     "plans = command_buffer cannot be had on " + device.facts.id + " (" + device.facts.name + ", " +
                         device.facts.platform_name + "): " + device.command_buffers.why_not + "; set plans to auto",
                     {{"where", "plans"}});
}

/// What a plan becomes.
std::string plans_text(const crucible_device& device) {
  const CommandBufferFunctions& buffers = device.command_buffers;
  if (!buffers.usable()) return "queue (" + buffers.why_not + ")";
  if (buffers.can_change())
    return "command_buffer " + version_text(buffers.version) + ", slots patched (mutable dispatch " +
           version_text(buffers.mutable_version) + ")";
  return "command_buffer " + version_text(buffers.version) + ", a changed slot records it again (" +
         buffers.why_not_change + ")";
}

crucible_status open(crucible_str device_id, crucible_device** out) {
  return sdk::guard([&] {
    sdk::require(out != nullptr, "device.open: no place for the device");
    const Functions& cl = opencl();
    auto device = std::make_unique<crucible_device>();
    device->cl = &cl;
    device->facts = find_device(cl, device_id);
    const DeviceFacts& facts = device->facts;
    require_usable(facts);
    const std::string mapping = options().get_text("mapping");
    const bool chunks = mapping == "chunks" || (mapping == "auto" && facts.is_processor());
    device->mapping = chunks ? Mapping::kChunks : Mapping::kItems;
    choose_teams(*device);
    device->watchdog.start(facts.id, options().get_u64("timeout_s"));
    device->memory = choose_memory(cl, facts, options().get_text("memory"));
    choose_language(*device);
    choose_plans(*device);
    const ProcessGuard process;
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                                reinterpret_cast<cl_context_properties>(facts.platform), 0};
    cl_int code = CL_SUCCESS;
    device->context = Context(cl, cl.clCreateContext(properties, 1, &facts.device, nullptr, nullptr, &code));
    if (code == CL_DEVICE_NOT_AVAILABLE) {  // before it is open it is no loss
      throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE,
                         "device.open: clCreateContext for " + facts.id + ": " + error_name(code) +
                             ": another process has it for itself, or its driver does not answer",
                         {{"vendor.code", std::to_string(code)}});
    }
    check(code, "device.open: clCreateContext for " + facts.id);
    device->queue =
        Queue(cl, cl.clCreateCommandQueue(device->context.get(), facts.device, CL_QUEUE_PROFILING_ENABLE, &code));
    check(code, "device.open: clCreateCommandQueue for " + facts.id);
    *out = device.release();
  });
}

crucible_status properties(crucible_device* device, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && sink != nullptr, "device.properties: no device or no function to report to");
    const DeviceFacts& facts = device->facts;
    sdk::report(sink, user,
                {sdk::text_item("name", facts.name), sdk::text_item("vendor", facts.vendor), sdk::math_item(),
                 sdk::text_item("platform", facts.platform_name), sdk::text_item("version", facts.version),
                 sdk::text_item("driver", facts.driver), sdk::text_item("dialect", dialect_name(device->language)),
                 sdk::number_item("threads", device->threads()), sdk::number_item("lanes", device->lanes()),
                 sdk::text_item("teams", name(device->teams)),
                 sdk::number_item("register_bytes", device->has_teams() ? 0 : facts.register_bytes),
                 sdk::number_item("largest_buffer_bytes", facts.largest_buffer_bytes),
                 sdk::text_item("mapping", device->mapping == Mapping::kChunks ? "chunks" : "items"),
                 sdk::text_item("memory", name(device->memory.kind)), sdk::text_item("plans", plans_text(*device)),
                 sdk::text_item("library", "none (OpenCL has none)")});
    if (!facts.rounds_division) {
      sdk::report(sink, user,
                  {sdk::text_item("note", "the driver does not promise correctly rounded division and square root")});
    }
  });
}

crucible_status capabilities(crucible_str device_id, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(sink != nullptr, "device.capabilities: no function to report to");
    const DeviceFacts facts = find_device(opencl(), device_id);
    using sdk::Answer;
    sdk::report(
        sink, user,
        {sdk::answer_item("compile.opaque", Answer::kNo, "opaque ops are a framework's"),
         sdk::answer_item("compile.ir", Answer::kYes,
                          facts.has_spirv() ? "printed as OpenCL C, or written as SPIR-V" : "printed as OpenCL C"),
         sdk::answer_item("f64", facts.has_f64() ? Answer::kYes : Answer::kNo, "cl_khr_fp64"),
         sdk::answer_item("f16", Answer::kYes, "stored; computed as f32"),
         sdk::answer_item("bf16", Answer::kYes, "stored; computed as f32"),
         sdk::answer_item("async", Answer::kYes, "submit returns at once"),
         sdk::answer_item("library.matmul", Answer::kNo, "OpenCL has no library"),
         sdk::answer_item("library.conv2d", Answer::kNo, "OpenCL has no library"),
         sdk::answer_item("profile", Answer::kNo, "time per op by plan.profile; no counters"),
         sdk::answer_item("health", Answer::kNo, "OpenCL does not tell")});
  });
}

/// A processor's units are its cores, of which the plugin `cpu` gets more: it has no driver in between. Elsewhere a
/// unit does 32 multiply-adds a cycle, the least of what graphics cards do.
crucible_status score(crucible_str device_id, const crucible_kv* workload, std::uint32_t count, std::uint64_t* out,
                      crucible_kv_sink why, void* user) {
  return sdk::tell_score(workload, count, out, why, user, [&](std::uint64_t peak_bytes) {
    const DeviceFacts facts = find_device(opencl(), device_id);
    if (!facts.has_compiler) return sdk::Score{0, "the device has no compiler"};
    if (!facts.has_f64()) return sdk::Score{0, "the device has no float64"};
    if (peak_bytes > facts.largest_buffer_bytes)
      return sdk::score_of_too_little(peak_bytes, facts.largest_buffer_bytes);
    return sdk::score_of_cycles(facts.units, "units", facts.megahertz, facts.is_processor() ? 8 : 64);
  });
}

}  // namespace

std::string_view dialect_name(Language language) {
  return language == Language::kSpirv ? "spirv" : sdk::dialect_opencl().name;
}

std::string_view name(Teams teams) {
  switch (teams) {
    case Teams::kNone:
      return "none";
    case Teams::kGroups:
      return "groups";
    case Teams::kSubgroups:
      return "subgroups";
  }
  return "";
}

void finish(crucible_device& device, const Queue& queue, std::string_view what) {
  const Functions& cl = *device.cl;
  const std::string where = std::string(what) + ": clFinish";
  if (!device.watchdog.is_on()) return check(cl.clFinish(queue.get()), where);
  cl_event made = nullptr;
  check(cl.clEnqueueMarkerWithWaitList(queue.get(), 0, nullptr, &made),
        std::string(what) + ": clEnqueueMarkerWithWaitList");
  const Event marker(cl, made);
  check(cl.clFlush(queue.get()), std::string(what) + ": clFlush");
  cl_int status = CL_QUEUED;  // negative: the error that it ended with
  device.watchdog.wait(what, [&] {
    const cl_int code = cl.clGetEventInfo(made, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status, nullptr);
    if (code != CL_SUCCESS) status = code;
    return status <= CL_COMPLETE;
  });
  check(status, where);
}

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

}  // namespace crucible_opencl
