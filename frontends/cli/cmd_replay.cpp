// `crucible replay`: reads a trace, lowers it, binds it to a device, runs the recorded iterations from the recorded
// start, and says how far the result is from the recorded one. Report texts are in replay_report.cpp.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "core/base/output.hpp"
#include "core/base/terminal.hpp"
#include "core/graph/reference_composite.hpp"
#include "runtime/plan/predict.hpp"
#include "runtime/judge/result_hash.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/device_profiles.hpp"
#include "frontends/cli/memory_switches.hpp"
#include "frontends/cli/open_device.hpp"
#include "frontends/cli/progress.hpp"
#include "frontends/cli/read_work.hpp"
#include "frontends/cli/replay_profile.hpp"
#include "frontends/cli/replay_report.hpp"
#include "frontends/cli/replay_run.hpp"
#include "frontends/cli/sandbox.hpp"
#include "frontends/cli/spread_run.hpp"
#include "frontends/cli/stripped_words.hpp"
#include "frontends/cli/tuning.hpp"
#include "frontends/cli/unrecorded_words.hpp"
#include "frontends/cli/workload.hpp"

namespace crucible::cli {
namespace {

struct ReplayOptions {
  std::string file;
  DeviceChoice device;
  std::uint32_t iterations = 0;  // 0: all
  std::uint32_t repeat = 0;
  SpreadSwitches sensitivity;
  bool no_fuse = false, verify = false, closely = false, profile = false, json = false;
  std::vector<std::string> counters;
  std::string receipt, opaque = "missing", profile_trace, tune = "kept";
  MemorySwitches memory;
};

Result<void> check_options(const ReplayOptions& options, const graph::Program& program) {
  if (options.iterations > program.iterations) {
    return Error{ErrorCode::kUsage, fmt::format("--iterations {}: the recording has {} complete iterations",
                                                options.iterations, program.iterations)};
  }
  if (options.verify && options.iterations != 0 && options.iterations != program.iterations) {
    return Error{ErrorCode::kUsage,
                 fmt::format("--verify compares the state after the last iteration: leave out --iterations "
                             "{}, or give {}",
                             options.iterations, program.iterations)};
  }
  if (options.closely && !options.verify) return Error{ErrorCode::kUsage, "--closely looks at what --verify compares: add --verify"};
  if (options.sensitivity.runs && !options.verify) {
    return Error{ErrorCode::kUsage, "--sensitivity says which differences from the recording matter: give --verify too"};
  }
  return options.sensitivity.check();
}

/// The same again from the recorded start, for its times: a device that is lost here is not replaced.
Result<void> repeat(runtime::Session& session, std::uint32_t iterations, Progress& progress, std::vector<std::uint64_t>& times_ns) {
  CRUCIBLE_TRY_VOID(session.reset());
  for (std::uint32_t iteration = 0; iteration < iterations; ++iteration) {
    progress.say(fmt::format("replaying iteration {} of {} again", iteration + 1, iterations));
    CRUCIBLE_TRY(const runtime::IterationResult result, session.run(iteration));
    times_ns.push_back(result.time_ns);
  }
  return {};
}

/// `what` is "receipt", or another document.
Result<void> write_document(const char* what, const std::string& path, const nlohmann::ordered_json& document) {
  const std::string text = document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  const Result<void> written = write_output(path, text, kOwnerOnly);
  if (written) return {};
  return Error{ErrorCode::kBadInput, fmt::format("the {}: {}", what, written.error().message)};
}

/// Errors: kUsage for a switch that speaks of kernels, where there are none.
Result<void> check_reference_switches(const ReplayOptions& options) {
  const char* what = options.profile                 ? "--profile"
                     : !options.counters.empty()     ? "--counters"
                     : options.no_fuse                 ? "--no-fuse"
                     : options.closely                 ? "--closely"
                     : !options.memory.budget.empty() ? "--memory-budget"
                                                       : nullptr;
  if (what == nullptr) return {};
  return Error{ErrorCode::kUsage,
               fmt::format("{} is about the kernels of a device, and the reference interpreter is none; leave it out, or name a plugin", what)};
}

/// Medians of several runs, for a single one catches whatever else the machine does; fewer where a run takes long. What each
/// step takes at best is that of the profile that was named, else of the one for this device, if there is one.
Result<void> profile(const ReplayOptions& options, runtime::Session& session, ReplayReport& report) {
  constexpr std::uint32_t kRuns = 5;
  constexpr auto kLong = std::chrono::seconds(2);
  std::vector<std::vector<std::uint64_t>> times;  // per step
  const auto start = std::chrono::steady_clock::now();
  do {
    CRUCIBLE_TRY(const std::vector<std::uint64_t> run, session.profile());
    times.resize(run.size());
    for (std::size_t step = 0; step < run.size(); ++step) times[step].push_back(run[step]);
    ++report.profile_runs;
  } while (report.profile_runs < kRuns && std::chrono::steady_clock::now() - start < kLong);
  report.times_from = session.times_from();
  for (std::vector<std::uint64_t>& step : times) {
    const auto middle = step.begin() + static_cast<std::ptrdiff_t>(step.size() / 2);
    std::ranges::nth_element(step, middle);
    report.profile.push_back(*middle);
  }
  CRUCIBLE_TRY(report.device_profile, profile_of_device(report.opened.settings, options.memory.profile, report.device));
  if (report.device_profile) report.predictions = runtime::predict_steps(session.program(), session.schedule(), *report.device_profile);
  return {};
}

/// What is measured beyond the run itself, all on the device that the run ended on.
Result<void> measure(const ReplayOptions& options, runtime::Session& session, std::uint32_t iterations, Progress& progress, ReplayReport& report) {
  if (options.repeat > 0) report.times_ns.clear();
  for (std::uint32_t round = 0; round < options.repeat; ++round) CRUCIBLE_TRY_VOID(repeat(session, iterations, progress, report.times_ns));
  if (!options.counters.empty()) {
    progress.say("counting");
    CRUCIBLE_TRY(report.counters, count_replay(session, options.counters));
  }
  if (!options.profile) return {};
  progress.say("profiling");
  return profile(options, session, report);
}

Result<void> write_documents(const ReplayOptions& options, const ReplayReport& report) {
  const nlohmann::ordered_json document = report.to_json();
  if (!options.receipt.empty()) CRUCIBLE_TRY_VOID(write_document("receipt", options.receipt, document["receipt"]));
  if (!options.profile_trace.empty()) CRUCIBLE_TRY_VOID(write_document("trace of the profile", options.profile_trace, profile_trace(report)));
  if (options.json) {
    print_json(document);
  } else {
    const ReplayText text = report.to_text();
    print_text(text.before);
    print_text(text.verdict, !report.verification || !use_colour(1) ? Colour::kNone : report.verification->verified ? Colour::kGood : Colour::kBad);
    print_text(text.after);
  }
  return {};
}

/// From a device to the report.
Result<int> run_on(const ReplayOptions& options, const Work& work, const std::shared_ptr<const graph::Program>& program,
                   const runtime::MemoryOptions& memory, OpenedDevice& opened, Progress& progress) {
  ReplayRun replay({program, work.trace.blob_store, !options.no_fuse, options.verify, memory, options.tune}, opened, options.device, progress);
  CRUCIBLE_TRY_VOID(replay.start());
  const std::uint32_t iterations = options.iterations == 0 ? program->iterations : options.iterations;
  runtime::ReroutedRun& run = replay.run();
  CRUCIBLE_TRY_VOID(run.run(iterations));
  std::optional<runtime::Verification> verification;
  std::optional<std::string> result_sha256;
  if (options.verify) {
    CRUCIBLE_TRY(verification, run.ask([&](runtime::Session& session) { return session.verify(run.results()); }));
    CRUCIBLE_TRY(result_sha256, run.ask([&](runtime::Session& session) { return runtime::result_sha256(session, *program, run.results()); }));
  }
  runtime::Session& session = run.session();
  ReplayReport report{.file = options.file,
                      .trace = work.trace,
                      .program = opened.device ? session.program() : *program,
                      .device = opened.device.get(),
                      .session = session,
                      .opened = opened,
                      .options = replay.options(),
                      .measured_now = replay.measured_now(),
                      .results = run.results(),
                      .verification = std::move(verification),
                      .result_sha256 = std::move(result_sha256),
                      .losses = replay.losses(),
                      .passed_over = replay.passed_over(),
                      .kept = run.kept(),
                      .keep_every = replay.keep_every()};
  // Of the device that the report is about: what ran on a lost one is no time of this one.
  for (std::size_t i = run.first_here(); i < report.results.size(); ++i) report.times_ns.push_back(report.results[i].time_ns);
  if (report.device != nullptr) {
    if (const Result<std::uint64_t> peak = report.device->peak_bytes(); peak) report.peak_bytes = *peak;
  }
  if (report.verification) {
    report.unrecorded = trace::unrecorded_writes(work.trace);
    judge_unrecorded(*report.verification, work.trace, report.unrecorded);
  }
  const bool is_stripped = report.verification && judge_stripped(*report.verification, work.trace);
  // Where work is missing, or there is nothing to agree with, runs that explain differences would explain nothing.
  if (report.verification && report.unrecorded.empty() && !is_stripped && !options.sensitivity.is_off()) {
    SpreadRun spread(options.sensitivity, {.program = program, .blobs = work.trace.blob_store, .fuse = !options.no_fuse, .tune = options.tune},
                     options.device, progress);
    if (const Result<void> considered = spread.consider({session, report.results, opened.device, replay.options()}, *report.verification); !considered) {
      return measuring_error(session, considered.error());
    }
  }
  if (const Result<void> measured = measure(options, session, iterations, progress, report); !measured) return measuring_error(session, measured.error());
  progress.say("");
  CRUCIBLE_TRY_VOID(write_documents(options, report));
  return report.verification && !report.verification->verified ? exit_code(ErrorCode::kCheckFailed) : 0;
}

Result<int> replay(const ReplayOptions& options) {
  const config::Settings early = load_unchecked_settings(options.device);  // before a large file is read
  CRUCIBLE_TRY_VOID(early.check());
  CRUCIBLE_TRY(const runtime::MemoryOptions memory, memory_options(options.memory, options.device));
  Progress progress(options.json);
  progress.say("reading " + options.file);
  // The reference interpreter takes composites whole; kernels are made for what they are made of, and so is what two backends have in common.
  const bool keeps_composites =
      early.text("backend") == kReferenceBackend && numerics_of(early) == kernel::Numerics::kFast && options.sensitivity.backend.empty();
  const graph::KeepsComposite keeps = keeps_composites ? graph::KeepsComposite(graph::reference_keeps) : nullptr;
  CRUCIBLE_TRY(Work work, read_work(options.file, options.opaque == "all" ? aten::Opaques::kAll : aten::Opaques::kMissing, keeps));
  const auto program = std::make_shared<const graph::Program>(std::move(work.program));
  CRUCIBLE_TRY_VOID(check_options(options, *program));
  CRUCIBLE_TRY(OpenedDevice opened,
               open_device(options.device, [&] { return workload_of(*program, !options.no_fuse); }, true));
  if (!opened.device) CRUCIBLE_TRY_VOID(check_reference_switches(options));
  if (is_list(options.counters)) {
    progress.say("");
    print_counters(*opened.device, options.json);
    return 0;
  }
  if (!options.counters.empty()) CRUCIBLE_TRY_VOID(check_counters(*opened.device, options.counters));
  return run_on(options, work, program, memory, opened, progress);
}

}  // namespace

void add_replay(Commands& commands) {
  auto options = std::make_shared<ReplayOptions>();  // shared with the callback, which runs after this function
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
                      "Read the states back after every N-th iteration, so that another device can go on from there; 0: never (default: 1; only where the "
                      "fallback policy lets another device take over)");
  add_memory_switches(*command, options->memory);
  command->add_option("--device-profile", options->memory.profile,
                      "The device whose speeds decide what is computed twice and what waits on the host, and with which --profile compares: "
                      "a name (crucible devices --profiles lists them) or a file");
  command
      ->add_option("--opaque", options->opaque,
                   "Which ops stay as the framework recorded them, for the plugin torch: missing (those without lowering) or all")
      ->check(CLI::IsMember({"missing", "all"}));
  command->add_flag("--verify", options->verify,
                    "Compare each loss, each output of inference and the final state with the recorded ones; exit 1 when they differ");
  add_sensitivity_switches(*command, options->sensitivity, "With --verify");
  command->add_flag("--closely", options->closely,
                    "With --verify, also where all is within its tolerances: each op of the device is checked against the reference interpreter, however long "
                    "that takes");
  command->add_flag("--profile", options->profile, "Run some more times and show the hottest steps, beside what they take at best by the device profile");
  command->add_option("--profile-trace", options->profile_trace, "Write the profile as a Chrome trace to this file (implies --profile)")
      ->each([options](const std::string&) { options->profile = true; });
  command
      ->add_option("--counters", options->counters,
                   "Run once more and show these counters of the device; list: say which it has, and run nothing")
      ->delimiter(',');
  command->add_flag("--json", options->json, "One JSON document on standard output");
  command->add_option("--receipt", options->receipt, "Write what ran, on what and how, to this file (JSON)");
  add_sandbox_switch(*command, options->device);
  command->callback([&commands, options] {
    commands.before = [options] { return enter_sandbox(options->device, {options->file, {options->receipt, options->profile_trace}}); };
    options->sensitivity.look = options->closely ? SpreadSwitches::Look::kEveryOp : SpreadSwitches::Look::kGlance;
    commands.run = [options] { return replay(*options); };
  });
}

}  // namespace crucible::cli
