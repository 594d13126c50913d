// `crucible replay`: its switches, and what it writes. Reading, running and judging are frontends/replay; the words are
// replay_text.cpp.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/base/output.hpp"
#include "core/base/terminal.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/logged_run.hpp"
#include "frontends/cli/memory_switches.hpp"
#include "frontends/cli/profile_text.hpp"
#include "frontends/cli/progress.hpp"
#include "frontends/cli/replay_text.hpp"
#include "frontends/cli/sandbox.hpp"
#include "frontends/cli/switches.hpp"
#include "frontends/cli/terminal_observer.hpp"
#include "frontends/replay/replay.hpp"
#include "frontends/replay/replay_profile.hpp"
#include "frontends/replay/run_timeline.hpp"

namespace crucible::cli {
namespace {

struct ReplayCommand {
  std::string file;
  DeviceChoice device;
  std::uint32_t iterations = 0;  // 0: all
  std::uint32_t repeat = 0;
  SpreadOptions sensitivity;
  bool no_fuse = false, verify = false, hash = false, closely = false, profile = false, json = false;
  std::vector<std::string> counters;
  std::string receipt, opaque = "missing", profile_trace, timeline, tune = "kept";
  MemorySwitches memory;
  LogSwitches log;
};

Result<void> check_options(const ReplayCommand& options, std::uint32_t iterations) {
  if (options.iterations > iterations) {
    return Error{ErrorCode::kUsage, fmt::format("--iterations {}: the recording has {} complete iterations",
                                                options.iterations, iterations)};
  }
  if (options.verify && options.iterations != 0 && options.iterations != iterations) {
    return Error{ErrorCode::kUsage,
                 fmt::format("--verify compares the state after the last iteration: leave out --iterations "
                             "{}, or give {}",
                             options.iterations, iterations)};
  }
  if (options.closely && !options.verify)
    return Error{ErrorCode::kUsage, "--closely looks at what --verify compares: add --verify"};
  if (options.sensitivity.runs && !options.verify) {
    return Error{ErrorCode::kUsage,
                 "--sensitivity says which differences from the recording matter: give --verify too"};
  }
  return check_sensitivity(options.sensitivity);
}

/// `what` is "receipt", or another document.
Result<void> write_document(const char* what, const std::string& path, const nlohmann::ordered_json& document) {
  const std::string text = document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  const Result<void> written = write_output(path, text, kOwnerOnly);
  if (written) return {};
  return Error{ErrorCode::kBadInput, fmt::format("the {}: {}", what, written.error().message)};
}

/// Errors: kUsage for a switch that speaks of kernels, where there are none.
Result<void> check_reference_switches(const ReplayCommand& options) {
  const char* what = options.profile                  ? "--profile"
                     : !options.counters.empty()      ? "--counters"
                     : options.no_fuse                ? "--no-fuse"
                     : options.closely                ? "--closely"
                     : !options.memory.budget.empty() ? "--memory-budget"
                                                      : nullptr;
  if (what == nullptr) return {};
  return Error{
      ErrorCode::kUsage,
      fmt::format(
          "{} is about the kernels of a device, and the reference interpreter is none; leave it out, or name a plugin",
          what)};
}

/// What is measured beyond the run itself, all on the device that the run ended on.
Result<void> measure(const ReplayCommand& options, Replay& replay, Progress& progress, ReplayReport& report) {
  CRUCIBLE_TRY_VOID(replay.repeat(options.repeat, report));
  if (!options.counters.empty()) {
    progress.say("counting");
    CRUCIBLE_TRY(report.counters, count_replay(replay.session(), options.counters));
  }
  if (!options.profile) return {};
  progress.say("profiling");
  return profile_replay(replay.session(), options.memory.profile, report);
}

Result<void> write_documents(const ReplayCommand& options, const ReplayReport& report) {
  const nlohmann::ordered_json document = report.to_json();
  if (!options.receipt.empty()) CRUCIBLE_TRY_VOID(write_document("receipt", options.receipt, document["receipt"]));
  if (!options.profile_trace.empty())
    CRUCIBLE_TRY_VOID(write_document("trace of the profile", options.profile_trace, profile_trace(report)));
  if (options.json) {
    print_json(document);
  } else {
    const ReplayText text = replay_text(report);
    print_text(text.before);
    print_text(text.verdict, !report.verification || !use_colour(1) ? Colour::kNone
                             : report.verification->verified        ? Colour::kGood
                                                                    : Colour::kBad);
    print_text(text.after);
  }
  return {};
}

/// What may change bits in fast numerics, for the log.
std::map<std::string, std::string> options_for_log(const ReplayCommand& options) {
  return {{"fuse", options.no_fuse ? "false" : "true"},
          {"opaque", options.opaque},
          {"tune", options.tune},
          {"memory_budget", options.memory.budget},
          {"objective", options.memory.objective}};
}

/// `log`: mostly none.
Result<int> run_and_report(const ReplayCommand& options, Progress& progress, LoggedRun* log) {
  const auto busy =
      options.timeline.empty() ? nullptr : std::make_shared<runtime::BusyTimes>();  // shared with sessions
  Replay replay({.file = options.file,
                 .device = options.device,
                 .opaques = options.opaque == "all" ? aten::Opaques::kAll : aten::Opaques::kMissing,
                 .fuse = !options.no_fuse,
                 .verify = options.verify,
                 .hash = options.hash,
                 .sensitivity = options.sensitivity,
                 .tune = options.tune,
                 .busy = busy},
                terminal(progress));
  CRUCIBLE_TRY_VOID(replay.check());
  CRUCIBLE_TRY(runtime::MemoryOptions memory, memory_options(options.memory, options.device));
  replay.set_memory(std::move(memory));
  CRUCIBLE_TRY_VOID(replay.read());
  CRUCIBLE_TRY_VOID(check_options(options, replay.iterations()));
  CRUCIBLE_TRY_VOID(replay.open());
  const backend::Device* const device = replay.opened().device.get();
  if (device == nullptr) CRUCIBLE_TRY_VOID(check_reference_switches(options));
  if (is_list(options.counters)) {
    progress.say("");
    print_counters(*device, options.json);
    return 0;
  }
  if (!options.counters.empty()) CRUCIBLE_TRY_VOID(check_counters(*device, options.counters));
  if (log != nullptr) {
    CRUCIBLE_TRY_VOID(log->run(replay, {.file = options.file,
                                        .options = options_for_log(options),
                                        .iterations = options.iterations,
                                        .every = options.log.every}));
  }
  CRUCIBLE_TRY_VOID(replay.run(options.iterations));
  if (busy)  // now: what verification runs again is not in it
    CRUCIBLE_TRY_VOID(write_document("timeline", options.timeline, timeline_trace(busy->all(), options.file)));
  CRUCIBLE_TRY(ReplayReport report, replay.report());
  if (log != nullptr) {
    log->done(report.verification ? std::optional(report.verification->verified) : std::nullopt);
  }
  if (const Result<void> measured = measure(options, replay, progress, report); !measured) {
    return measuring_error(replay.session(), measured.error());
  }
  progress.say("");
  CRUCIBLE_TRY_VOID(write_documents(options, report));
  return report.verification && !report.verification->verified ? exit_code(ErrorCode::kCheckFailed) : 0;
}

Result<int> replay(const ReplayCommand& options) {
  Progress progress(options.json);
  if (options.log.file.empty()) return run_and_report(options, progress, nullptr);
  CRUCIBLE_TRY(const std::unique_ptr<LoggedRun> log, LoggedRun::open(options.log));
  const Result<int> code = run_and_report(options, progress, log.get());
  progress.say("");
  return log->finish(code);
}

}  // namespace

void add_replay(Commands& commands) {
  auto options = std::make_shared<ReplayCommand>();  // shared with the callback, which runs after this function
  CLI::App* command = add_reading_subcommand(
      commands.app, "replay",
      "Replays the recorded iterations from the recorded start, carrying parameters and optimizer state.",
      "crucible replay step.crtrace --verify");
  command->add_option("file", options->file, "The recording (.crtrace), or a capsule")->required();
  add_device_switches(*command, options->device);
  command
      ->add_option("--threads", options->device.threads,
                   "Threads of a CPU backend (default: $CRUCIBLE_THREADS, then as many as pay)")
      ->check(CLI::Range(1u, 1000000u));
  command->add_option("--iterations", options->iterations, "Run only the first N iterations")
      ->check(CLI::Range(1u, 1000000u));
  add_numerics_switch(*command, options->device);
  command->add_option("--repeat", options->repeat, "Run the whole sequence N more times and report the median time")
      ->check(CLI::Range(1u, 1000000u));
  command->add_flag("--no-fuse", options->no_fuse, "One kernel per op");
  add_tune_switch(*command, options->tune, true);
  command->add_option("--checkpoint-every", options->device.checkpoint_every,
                      "Read the states back after every N-th iteration, so that another device can go on from there; "
                      "0: never (default: 1; only where the "
                      "fallback policy lets another device take over)");
  add_memory_switches(*command, options->memory);
  command->add_option("--device-profile", options->memory.profile,
                      "The device whose speeds decide what is computed twice and what waits on the host, and with "
                      "which --profile compares: "
                      "a name (crucible devices --profiles lists them) or a file");
  command
      ->add_option("--opaque", options->opaque,
                   "Which ops stay as the framework recorded them, for the plugin torch: missing (those without "
                   "lowering) or all")
      ->check(CLI::IsMember({"missing", "all"}));
  command->add_flag("--verify", options->verify,
                    "Compare each loss, each output of inference and the final state with the recorded ones; exit 1 "
                    "when they differ");
  command->add_flag("--hash", options->hash,
                    "Hash the bits of all losses, outputs and states after the iterations that ran, without a verdict: "
                    "the same bits, the same hash");
  add_sensitivity_switches(*command, options->sensitivity, "With --verify");
  command->add_flag("--closely", options->closely,
                    "With --verify, also where all is within its tolerances: each op of the device is checked against "
                    "the reference interpreter, however long "
                    "that takes");
  command->add_flag(
      "--profile", options->profile,
      "Run some more times and show the hottest steps, beside what they take at best by the device profile");
  command
      ->add_option("--profile-trace", options->profile_trace,
                   "Write the profile as a Chrome trace to this file (implies --profile)")
      ->each([options](const std::string&) { options->profile = true; });
  command->add_option(
      "--timeline", options->timeline,
      "Write when each device ran which iteration, and when the host wrote inputs, as a Chrome trace to "
      "this file");
  command
      ->add_option("--counters", options->counters,
                   "Run once more and show these counters of the device; list: say which it has, and run nothing")
      ->delimiter(',');
  command->add_flag("--json", options->json, "One JSON document on standard output");
  command->add_option("--receipt", options->receipt, "Write what ran, on what and how, to this file (JSON)");
  add_log_switches(*command, options->log);
  add_sandbox_switch(*command, options->device);
  command->callback([&commands, options] {
    commands.before = [options] {
      return enter_sandbox(
          options->device,
          {options->file, {options->receipt, options->profile_trace, options->timeline, options->log.file}});
    };
    options->sensitivity.look = options->closely ? SpreadOptions::Look::kEveryOp : SpreadOptions::Look::kGlance;
    commands.run = [options] { return replay(*options); };
  });
}

}  // namespace crucible::cli
