// `crucible replay`: reads a trace, lowers it, binds it to a device, runs the recorded iterations from the recorded
// start, and says how far the result is from the recorded one. Report texts are in replay_report.cpp.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>

#include "core/graph/reference_composite.hpp"
#include "core/runtime/predict.hpp"
#include "core/runtime/rounds.hpp"
#include "core/runtime/self_test.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/device_profiles.hpp"
#include "frontends/cli/memory_switches.hpp"
#include "frontends/cli/open_device.hpp"
#include "frontends/cli/progress.hpp"
#include "frontends/cli/read_work.hpp"
#include "frontends/cli/replay_profile.hpp"
#include "frontends/cli/replay_report.hpp"
#include "frontends/cli/tuning.hpp"
#include "frontends/cli/workload.hpp"

namespace crucible::cli {
namespace {

struct ReplayOptions {
  std::string file;
  DeviceChoice device;
  std::uint32_t iterations = 0;  // 0: all
  std::uint32_t repeat = 0, sensitivity = 0;
  bool no_fuse = false, verify = false, profile = false, json = false;
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
  if (options.sensitivity > 0 && !options.verify) {
    return Error{ErrorCode::kUsage, "--sensitivity says which differences from the recording matter: give --verify too"};
  }
  return {};
}

Result<std::vector<runtime::IterationResult>> run_all(runtime::Session& session, std::uint32_t iterations,
                                                      Progress& progress, bool compare_outputs) {
  std::vector<runtime::IterationResult> results;
  for (std::uint32_t iteration = 0; iteration < iterations; ++iteration) {
    progress.say(fmt::format("replaying iteration {} of {}", iteration + 1, iterations));
    CRUCIBLE_TRY(runtime::IterationResult result, session.run(iteration));
    if (compare_outputs) {
      CRUCIBLE_TRY(result.outputs, session.compare_outputs());
    }
    results.push_back(std::move(result));
  }
  return results;
}

/// `what` is "receipt", or another document.
Result<void> write_document(const char* what, const std::string& path, const nlohmann::ordered_json& document) {
  const std::string text = document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  std::FILE* file = std::fopen(path.c_str(), "w");
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr) written = std::fclose(file) == 0 && written;
  if (written) return {};
  return Error{ErrorCode::kBadInput, fmt::format("cannot write the {} {}: {}", what, path, std::strerror(errno))};
}

runtime::Fallback fallback_of(const config::Settings& settings) {
  const std::string text = settings.text("fallback");
  return text == "allow"  ? runtime::Fallback::kAllow
         : text == "warn" ? runtime::Fallback::kWarn
                          : runtime::Fallback::kForbid;
}

/// Where nothing may run elsewhere, nothing opens another plugin.
std::function<Result<std::shared_ptr<backend::Device>>()> opener_of_opaque(OpenedDevice& opened) {
  if (fallback_of(opened.settings) == runtime::Fallback::kForbid) return nullptr;
  return [&opened] { return open_torch_beside(opened.settings); };
}

/// One line per kind of op that runs elsewhere, where the policy is to warn.
void warn_of_fallbacks(const runtime::FallbackReport& report) {
  std::map<std::string, std::size_t> steps;
  for (const runtime::RefusedStep& step : report.steps) ++steps[step.ops];
  for (const auto& [ops, count] : steps) {
    const auto first = std::ranges::find(report.steps, ops, &runtime::RefusedStep::ops);
    fmt::print(stderr, "crucible: warning: {} ({} steps{}{}) runs on {}: {}\n", ops, count,
               first->source.empty() ? "" : ", first at ", first->source, report.device->info().id, first->reason);
  }
}

/// Errors: kUsage for a switch that speaks of kernels, where there are none.
Result<void> check_reference_switches(const ReplayOptions& options) {
  const char* what = options.profile                 ? "--profile"
                     : options.no_fuse                 ? "--no-fuse"
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
  for (std::vector<std::uint64_t>& step : times) {
    const auto middle = step.begin() + static_cast<std::ptrdiff_t>(step.size() / 2);
    std::ranges::nth_element(step, middle);
    report.profile.push_back(*middle);
  }
  CRUCIBLE_TRY(report.device_profile, profile_of_device(report.opened.settings, options.memory.profile, report.device));
  if (report.device_profile) report.predictions = runtime::predict_steps(session.program(), session.schedule(), *report.device_profile);
  return {};
}

Result<int> replay(const ReplayOptions& options) {
  const config::Settings early = load_unchecked_settings(options.device);  // before a large file is read
  CRUCIBLE_TRY_VOID(early.check());
  CRUCIBLE_TRY(const runtime::MemoryOptions memory, memory_options(options.memory, options.device));
  Progress progress(options.json);
  progress.say("reading " + options.file);
  // The reference interpreter takes composites whole; kernels are made for what they are made of.
  const bool keeps_composites = early.text("backend") == kReferenceBackend && numerics_of(early) == kernel::Numerics::kFast;
  const graph::KeepsComposite keeps = keeps_composites ? graph::KeepsComposite(graph::reference_keeps) : nullptr;
  CRUCIBLE_TRY(Work work, read_work(options.file, options.opaque == "all" ? aten::Opaques::kAll : aten::Opaques::kMissing, keeps));
  const trace::Trace& trace = work.trace;
  const auto program = std::make_shared<const graph::Program>(std::move(work.program));
  CRUCIBLE_TRY_VOID(check_options(options, *program));
  CRUCIBLE_TRY(OpenedDevice opened,
               open_device(options.device, [&] { return workload_of(*program, !options.no_fuse); }, true));
  if (!opened.device) CRUCIBLE_TRY_VOID(check_reference_switches(options));
  if (opened.device && numerics_of(opened.settings) == kernel::Numerics::kStrict) {
    progress.say("testing the device");
    CRUCIBLE_TRY_VOID(runtime::admit_to_strict(opened.device, choices_folder() / "admitted"));
  }
  CRUCIBLE_TRY(const Tuned tuned, tune(options.tune, *program, opened.device, !options.no_fuse, numerics_of(opened.settings), &progress));
  const char* poison = std::getenv("CRUCIBLE_POISON");
  const runtime::Options session_options{.fuse = !options.no_fuse,
                                         .numerics = numerics_of(opened.settings),
                                         .memory = memory,
                                         .poison = poison != nullptr && std::string_view(poison) == "1",
                                         .fallback = fallback_of(opened.settings),
                                         .choices = tuned.choices,
                                         .open_second = [&] { return open_cpu_beside(opened.settings); },
                                         .open_opaque = opener_of_opaque(opened)};
  progress.say(opened.device ? "scheduling, planning and compiling" : "loading");
  CRUCIBLE_TRY(const std::unique_ptr<runtime::Session> session,
               opened.device ? runtime::Session::create(program, trace.blob_store, opened.device, session_options)
                             : runtime::Session::create_reference(program, trace.blob_store, numerics_of(opened.settings)));

  progress.say("");
  if (session_options.fallback == runtime::Fallback::kWarn) warn_of_fallbacks(session->fallback());
  const std::uint32_t iterations = options.iterations == 0 ? program->iterations : options.iterations;
  ReplayReport report{.file = options.file,
                      .trace = trace,
                      .program = opened.device ? session->program() : *program,
                      .device = opened.device.get(),
                      .session = *session,
                      .opened = opened,
                      .options = session_options,
                      .measured_now = tuned.measured_now};
  CRUCIBLE_TRY(report.results, run_all(*session, iterations, progress, options.verify));
  if (options.verify) {
    CRUCIBLE_TRY(report.verification, session->verify(report.results));
    CRUCIBLE_TRY(report.result_sha256, runtime::result_sha256(*session, *program, report.results));
  }
  if (options.sensitivity > 0) {
    const auto say = [&](std::uint32_t run) {
      progress.say(fmt::format("replaying from a start one rounding away, {} of {}", run + 1, options.sensitivity));
    };
    CRUCIBLE_TRY(const runtime::Spread spread, session->measure_spread(options.sensitivity, say));
    runtime::consider_spread(*report.verification, spread);
    CRUCIBLE_TRY_VOID(session->reset());
  }
  for (const runtime::IterationResult& result : report.results) report.times_ns.push_back(result.time_ns);
  if (options.repeat > 0) report.times_ns.clear();
  for (std::uint32_t round = 0; round < options.repeat; ++round) {
    CRUCIBLE_TRY_VOID(session->reset());
    CRUCIBLE_TRY(const auto again, run_all(*session, iterations, progress, false));
    for (const runtime::IterationResult& result : again) report.times_ns.push_back(result.time_ns);
  }
  if (options.profile) {
    progress.say("profiling");
    CRUCIBLE_TRY_VOID(profile(options, *session, report));
  }
  progress.say("");

  const nlohmann::ordered_json document = report.to_json();
  if (!options.receipt.empty()) CRUCIBLE_TRY_VOID(write_document("receipt", options.receipt, document["receipt"]));
  if (!options.profile_trace.empty()) CRUCIBLE_TRY_VOID(write_document("trace of the profile", options.profile_trace, profile_trace(report)));
  if (options.json) {
    print_json(document);
  } else {
    const std::string text = report.to_text(use_colour(1));
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
  return report.verification && !report.verification->verified ? exit_code(ErrorCode::kCheckFailed) : 0;
}

}  // namespace

void add_replay(Commands& commands) {
  auto options = std::make_shared<ReplayOptions>();  // shared with the callback, which runs after this function
  CLI::App* command = add_subcommand(
      commands.app, "replay",
      "Replays the recorded iterations from the recorded start, carrying parameters and optimizer state.",
      "crucible replay step.crtrace --verify");
  command->add_option("file", options->file, "The recording (.crtrace), or a capsule")->required();
  add_device_switches(*command, options->device);
  command
      ->add_option("--threads", options->device.threads,
                   "Threads of a CPU backend (default: $CRUCIBLE_THREADS, then all)")
      ->check(CLI::Range(1u, 1000000u));
  command->add_option("--iterations", options->iterations, "Run only the first N iterations")
      ->check(CLI::Range(1u, 1000000u));
  add_numerics_switch(*command, options->device);
  command->add_option("--repeat", options->repeat, "Run the whole sequence N more times and report the median time")
      ->check(CLI::Range(1u, 1000000u));
  command->add_flag("--no-fuse", options->no_fuse, "One kernel per op");
  add_tune_switch(*command, options->tune, true);
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
  command
      ->add_option("--sensitivity", options->sensitivity,
                   "With --verify: run N more times from starts one rounding away; states and losses that those runs do not determine either "
                   "do not count as different")
      ->check(CLI::Range(1u, 1000u));
  command->add_flag("--profile", options->profile, "Run some more times and show the hottest steps, beside what they take at best by the device profile");
  command->add_option("--profile-trace", options->profile_trace, "Write the profile as a Chrome trace to this file (implies --profile)")
      ->each([options](const std::string&) { options->profile = true; });
  command->add_flag("--json", options->json, "One JSON document on standard output");
  command->add_option("--receipt", options->receipt, "Write what ran, on what and how, to this file (JSON)");
  command->callback([&commands, options] { commands.run = [options] { return replay(*options); }; });
}

}  // namespace crucible::cli
