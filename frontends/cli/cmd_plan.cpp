// `crucible plan`: the memory plan of a recording, without running it. Library calls and their workspace belong to the
// plan, so the backend is asked when it is there; without one the plan is that of generated kernels. With
// --device-profile also whether it would fit on a device that is not here.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/output.hpp"
#include "core/base/terminal.hpp"
#include "runtime/plan/arrange.hpp"
#include "runtime/plan/library_calls.hpp"
#include "core/trace/trace_file.hpp"
#include "frontends/aten/lower.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/memory_switches.hpp"
#include "frontends/cli/plan_fit.hpp"
#include "frontends/cli/plan_page.hpp"
#include "frontends/cli/plan_report.hpp"
#include "frontends/cli/plan_tables.hpp"
#include "frontends/cli/switches.hpp"
#include "frontends/cli/terminal_observer.hpp"
#include "frontends/replay/device_profiles.hpp"
#include "frontends/replay/open_device.hpp"
#include "frontends/replay/tuning.hpp"
#include "frontends/replay/workload.hpp"

namespace crucible::cli {
namespace {

struct PlanOptions {
  std::string file;
  std::optional<std::uint32_t> variant;  // of several, which one
  DeviceChoice device;
  bool no_fuse = false, json = false;
  std::string tune = "kept";
  std::string svg, html;
  int depth = 0;
  MemorySwitches memory;
};

/// Opens the backend for its claims. A backend that the user named must be there; the default one may be missing.
Result<std::shared_ptr<backend::Device>> open_if_there(const PlanOptions& options, const graph::Program& program,
                                                       std::string& kernels) {
  if (options.device.backend == "none") {
    kernels = "generated kernels only, as asked for";
    return std::shared_ptr<backend::Device>();
  }
  Result<OpenedDevice> opened =
      open_device(options.device, terminal(), [&] { return workload_of(program, !options.no_fuse); });
  if (opened) {
    const backend::Backend& backend = opened->device->backend();
    kernels = fmt::format("{} {}, library calls and workspace as it claims them", backend.name(), backend.version());
    return std::move(opened->device);
  }
  if (is_backend_named(options.device) || opened.error().code != ErrorCode::kUnavailable) return opened.error();
  kernels = fmt::format("generated kernels only: backend {} is not here", backend_name(options.device));
  return std::shared_ptr<backend::Device>();
}

Result<void> write_picture(const std::string& path, const std::string& picture) {
  const Result<void> written = write_output(path, picture, kOwnerOnly);
  if (written) return {};
  return Error{ErrorCode::kBadInput, fmt::format("the picture: {}", written.error().message)};
}

/// What --device-profile names, before any work is done for it; nothing without the switch.
Result<std::optional<hardware::DeviceProfile>> wanted_profile(const PlanOptions& options) {
  if (options.memory.profile.empty()) return std::optional<hardware::DeviceProfile>();
  CRUCIBLE_TRY(const config::Settings settings, load_settings(options.device, terminal()));
  CRUCIBLE_TRY(const std::vector<hardware::DeviceProfile> profiles, device_profiles(settings));
  CRUCIBLE_TRY(hardware::DeviceProfile profile, choose_profile(profiles, options.memory.profile));
  return std::optional(std::move(profile));
}

/// The report as the switches want it. Errors: kBadInput when a picture cannot be written.
Result<void> show(const PlanOptions& options, const PlanReport& report) {
  if (!options.svg.empty()) CRUCIBLE_TRY_VOID(write_picture(options.svg, report.to_svg()));
  if (!options.html.empty()) CRUCIBLE_TRY_VOID(write_picture(options.html, plan_page(report)));
  if (options.json) {
    print_json(report.to_json());
  } else {
    print_text(plan_text(report));
  }
  return {};
}

/// What the largest budget that the device allows leads to.
Result<std::optional<Rescue>> rescue(const std::shared_ptr<const graph::Program>& program,
                                     const kernel::Schedule& schedule,
                                     const std::function<std::uint64_t(const kernel::Step&)>& scratch_of,
                                     runtime::MemoryOptions memory, const hardware::DeviceProfile& device) {
  memory.budget_bytes = std::max<std::uint64_t>(device.usable_bytes(), 1);
  memory.or_smallest = true;
  CRUCIBLE_TRY(const runtime::Arranged arranged, runtime::arrange(program, schedule, scratch_of, memory));
  const runtime::ArrangeReport& report = arranged.report;
  return std::optional(Rescue{.peak_bytes = arranged.placement.plan.peak_bytes,
                              .host_bytes = arranged.placement.host_plan.peak_bytes,
                              .repeats = report.repeats,
                              .transfers = report.transfers,
                              .transfer_bytes = report.transfer_bytes,
                              .repeated_share = report.repeat_ns / std::max(report.step_ns, 1.0)});
}

Result<int> plan(const PlanOptions& options) {
  CRUCIBLE_TRY(const runtime::MemoryOptions memory, memory_options(options.memory, options.device));
  PlanReport report{.file = options.file};
  report.depth = options.depth;
  CRUCIBLE_TRY(const std::optional<hardware::DeviceProfile> profile, wanted_profile(options));
  CRUCIBLE_TRY(const trace::Trace trace, trace::read_file(options.file));
  CRUCIBLE_TRY(const graph::Variants variants, aten::lower_variants(trace, aten::Opaques::kMissing));
  CRUCIBLE_TRY(std::shared_ptr<const graph::Program> recorded, graph::choose_variant(variants, options.variant));
  CRUCIBLE_TRY(const std::shared_ptr<backend::Device> device, open_if_there(options, *recorded, report.kernels));
  runtime::LibraryClaims claims(device);
  kernel::Options schedule_options{.claims = nullptr,
                                   .fuse = !options.no_fuse,
                                   .numerics = numerics_of(load_unchecked_settings(options.device, terminal())),
                                   .device = {}};
  CRUCIBLE_TRY(const Tuned tuned,
               tune(options.tune, {&recorded, 1}, device, !options.no_fuse, schedule_options.numerics, terminal()));
  if (device) {
    schedule_options.device = runtime::shape_of(*device);
    runtime::ask(schedule_options, claims, tuned.choices.get());
  }
  CRUCIBLE_TRY(kernel::Prepared prepared, kernel::prepare(*recorded, schedule_options));
  if (prepared.program) recorded = std::make_shared<const graph::Program>(*std::move(prepared.program));
  const kernel::Schedule& as_recorded = prepared.schedule;
  const auto scratch_of = [&](const kernel::Step& step) {
    return step.kind == kernel::StepKind::kLibrary ? claims.scratch_bytes(step.library) : 0;
  };
  const auto start = std::chrono::steady_clock::now();
  CRUCIBLE_TRY(const runtime::Arranged arranged, runtime::arrange(recorded, as_recorded, scratch_of, memory));
  const auto end = std::chrono::steady_clock::now();
  const graph::Program& program = *arranged.program;
  const kernel::Schedule& schedule = arranged.schedule;
  const runtime::Placement& placement = arranged.placement;
  report.time_ns =
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count());
  const runtime::PlanRoles roles = runtime::assign_roles(program, schedule, placement, runtime::recorded_roles(trace));
  report.describe(program, schedule, placement, roles);
  report.arranged = {memory.budget_bytes, placement.host_plan.peak_bytes, arranged.report, placement.certificate};
  if (profile) {
    report.answer = {*profile, runtime::fit(*profile, program, schedule, placement, roles, batch_of(trace))};
    if (!report.answer->fit.fits) {
      CRUCIBLE_TRY(report.answer->rescue, rescue(recorded, as_recorded, scratch_of, memory, *profile));
    }
  }
  CRUCIBLE_TRY_VOID(show(options, report));
  return report.answer && !report.answer->fit.fits ? exit_code(ErrorCode::kCheckFailed) : 0;
}

}  // namespace

void add_plan(Commands& commands) {
  auto options = std::make_shared<PlanOptions>();  // shared with the callback, which runs after this function
  CLI::App* command = add_reading_subcommand(commands.app, "plan",
                                     "The memory plan of a recording: peak, lower bound, what is alive at the peak.",
                                     "crucible plan step.crtrace --html plan.html --device-profile l4");
  command->add_option("file", options->file, "The recording (.crtrace)")->required();
  command->add_option("--variant", options->variant, "Where iterations differ: which of their programs, from 0");
  add_tune_switch(*command, options->tune, false);
  add_device_switches(*command, options->device);
  add_numerics_switch(*command, options->device);
  command->get_option("--backend")
      ->description(
          "The plugin that is asked for library calls and workspace; none: generated kernels (default: as replay)");
  command->add_flag("--no-fuse", options->no_fuse, "One kernel per op");
  add_memory_switches(*command, options->memory);
  command->add_flag("--json", options->json, "One JSON document on standard output");
  command
      ->add_option("--depth", options->depth,
                   "Parts of a module's name in the table (default: as many as keep it short)")
      ->check(CLI::PositiveNumber);
  command->add_option("--device-profile", options->memory.profile,
                      "Ask whether it fits on this device, a name (crucible devices --profiles lists them) or a file; "
                      "exit code 1 when not");
  command->add_option("--html", options->html,
                      "Write a page to this file: every buffer by time and address, to zoom and search");
  command->add_option("--svg", options->svg, "Write a picture of offsets over steps to this file");
  command->callback([&commands, options] { commands.run = [options] { return plan(*options); }; });
}

}  // namespace crucible::cli
