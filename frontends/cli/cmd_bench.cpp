// `crucible bench FILE... --backends A,B --peers eager,compile`: the same recordings on several backends and by the
// framework itself, in turns. What each computes is checked before it is timed.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/output.hpp"
#include "core/base/terminal.hpp"
#include "runtime/measure/energy.hpp"
#include "runtime/plan/predict.hpp"
#include "runtime/judge/result_hash.hpp"
#include "runtime/run/rounds.hpp"
#include "runtime/judge/self_test.hpp"
#include "frontends/cli/bench_page.hpp"
#include "frontends/cli/bench_peers.hpp"
#include "frontends/cli/bench_rows.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/progress.hpp"
#include "frontends/cli/switches.hpp"
#include "frontends/cli/terminal_observer.hpp"
#include "frontends/replay/device_energy.hpp"
#include "frontends/replay/device_profiles.hpp"
#include "frontends/replay/open_device.hpp"
#include "frontends/replay/read_work.hpp"
#include "frontends/replay/spread_run.hpp"
#include "frontends/replay/stripped.hpp"
#include "frontends/replay/tuning.hpp"
#include "frontends/replay/unrecorded.hpp"

namespace crucible::cli {
namespace {

struct BenchOptions {
  std::vector<std::string> files, backends;
  DeviceChoice device;  // what all have in common
  PeerOptions peers;
  std::uint32_t rounds = 7;
  SpreadOptions sensitivity;
  std::string tune = "kept", csv, html;
  bool no_fuse = false, json = false;
};

/// A row while it is being measured: what takes its turns. One of the two, or none where it cannot be timed.
struct Contender {
  BenchRow row;
  std::unique_ptr<runtime::Session> session;
  std::unique_ptr<TorchPeer> peer;
  std::function<std::optional<double>()> joules = nullptr;  // null: nothing counts its energy
};

Result<double> predicted_ns(const OpenedDevice& opened, const runtime::Session& session) {
  CRUCIBLE_TRY(const std::optional<hardware::DeviceProfile> profile,
               profile_of_device(opened.settings, "", opened.device.get()));
  double sum = 0;
  if (!profile) return sum;
  for (const hardware::Prediction& step : runtime::predict_steps(session.program(), session.schedule(), *profile))
    sum += step.total_ns();
  return sum;
}

/// Opens, compiles, runs everything once and checks it. Errors: whatever keeps it from being timed.
Result<void> prepare(const BenchOptions& options, const Work& work,
                     const std::shared_ptr<const graph::Variants>& variants, SpreadRun& spread, Contender& contender) {
  BenchRow& row = contender.row;
  std::unique_ptr<runtime::Session>& session = contender.session;
  CRUCIBLE_TRY(OpenedDevice opened, open_device(choice_of(options.device, row.name), terminal(), nullptr, true));
  const kernel::Numerics numerics = numerics_of(opened.settings);
  runtime::Options session_options;
  row.device = kReferenceBackend;
  row.is_cpu = true;
  if (!opened.device) {
    CRUCIBLE_TRY(session, runtime::Session::create_reference(variants, work.trace.blob_store, numerics));
  } else {
    const backend::DeviceInfo& info = opened.device->info();
    row.device = fmt::format("{} ({})", info.id, info.name);
    row.is_emulated = info.emulated;
    row.is_cpu = info.kind == "cpu" && !info.emulated;
    row.threads = static_cast<unsigned>(info.threads);
    if (!row.is_cpu && joules_of(*opened.device))
      contender.joules = [device = opened.device] { return joules_of(*device); };
    if (numerics == kernel::Numerics::kStrict) CRUCIBLE_TRY_VOID(runtime::admit_to_strict(opened.device));
    CRUCIBLE_TRY(const Tuned tuned,
                 tune(options.tune, variants->programs, opened.device, !options.no_fuse, numerics, terminal()));
    session_options = {
        .fuse = !options.no_fuse, .numerics = numerics, .choices = tuned.choices, .trial = trial_of(opened.settings)};
    CRUCIBLE_TRY(session, runtime::Session::create(variants, work.trace.blob_store, opened.device, session_options));
    row.compile_ns = session->compile_ns();
    row.arena_bytes = session->arena_bytes();
    CRUCIBLE_TRY(row.predicted_ns, predicted_ns(opened, *session));
  }
  std::vector<runtime::IterationResult> results;
  for (std::uint32_t iteration = 0; iteration < variants->turns.size(); ++iteration) {
    CRUCIBLE_TRY(runtime::IterationResult result, session->run(iteration));
    CRUCIBLE_TRY(result.outputs, session->compare_outputs());
    results.push_back(std::move(result));
  }
  CRUCIBLE_TRY(runtime::Verification verdict, session->verify(results));
  CRUCIBLE_TRY(const std::optional<std::string> sha256,
               runtime::result_sha256(*session, *variants->programs[0], results));
  row.sha256 = sha256.value_or("");
  const std::vector<trace::UnrecordedWrite> unrecorded = trace::unrecorded_writes(work.trace);
  judge_unrecorded(verdict, work.trace, unrecorded);
  const bool is_stripped = judge_stripped(verdict, work.trace);
  if (!verdict.verified && unrecorded.empty() && !is_stripped && !options.sensitivity.is_off()) {
    CRUCIBLE_TRY_VOID(spread.consider({*session, results, opened.device, session_options}, verdict));
    row.undetermined = verdict.states_undetermined + verdict.losses_undetermined + verdict.outputs_undetermined;
  }
  row.is_verified = verdict.verified;
  if (!verdict.verified) return Error{ErrorCode::kCheckFailed, "not verified: " + verdict.reason};
  return {};
}

void prepare_backends(const BenchOptions& options, const Work& work,
                      const std::shared_ptr<const graph::Variants>& variants, const std::string& file,
                      std::vector<Contender>& contenders, Progress& progress) {
  const Observer observer = terminal(progress);
  SpreadRun spread(
      options.sensitivity,
      {.variants = variants, .blobs = work.trace.blob_store, .fuse = !options.no_fuse, .tune = options.tune},
      options.device, observer);
  for (const std::string& backend : options.backends) {
    progress.say(fmt::format("{}: {} is compiled and checked", file, backend));
    Contender contender;
    contender.row.name = backend;
    if (const Result<void> prepared = prepare(options, work, variants, spread, contender); !prepared) {
      contender.row.why = prepared.error().message;
      contender.session.reset();
    }
    contenders.push_back(std::move(contender));
  }
}

/// The counter of a peer that computes on a device: that of the backends' device, where there is exactly one that
/// counts.
std::function<std::optional<double>()> device_counter(const std::vector<Contender>& contenders) {
  std::function<std::optional<double>()> found;
  for (const Contender& other : contenders) {
    if (!other.joules || other.row.is_emulated) continue;
    if (found) return nullptr;
    found = other.joules;
  }
  return found;
}

/// After the backends: their threads and their rooflines are the peers' too. Errors: those of peer_command().
Result<void> prepare_peers(const BenchOptions& options, const Work& work, const graph::Variants& variants,
                           const std::string& file, std::vector<Contender>& contenders, Progress& progress) {
  if (options.peers.names.empty()) return {};
  CRUCIBLE_TRY(const std::vector<std::string> command, peer_command(options.peers, work, file));
  PeerOptions peers = options.peers;
  double cpu_predicted_ns = 0;
  for (const Contender& other : contenders) {
    if (!other.row.is_cpu || other.row.predicted_ns <= 0 || cpu_predicted_ns > 0) continue;
    cpu_predicted_ns = other.row.predicted_ns;
  }
  for (const Contender& other : contenders) {
    if (peers.threads == 0 && other.row.is_cpu) peers.threads = other.row.threads;
  }
  const std::function<std::optional<double>()> counter = device_counter(contenders);
  for (const std::string& name : peers.names) {
    progress.say(fmt::format("{}: the peer {} starts and is checked", file, name));
    Contender contender;
    contender.row.name = name;
    contender.row.is_peer = true;
    Result<std::unique_ptr<TorchPeer>> peer = prepare_peer(peers, command, work, variants, contender.row);
    if (peer) contender.peer = *std::move(peer);
    if (!peer) contender.row.why = peer.error().message;
    if (contender.row.is_cpu) contender.row.predicted_ns = cpu_predicted_ns;
    if (peer && !contender.row.is_cpu) contender.joules = counter;
    contenders.push_back(std::move(contender));
  }
  return {};
}

/// Everybody who can be timed takes turns.
void take_turns(const BenchOptions& options, const std::string& file, std::uint32_t iterations,
                runtime::PackageEnergy& energy, std::vector<Contender>& contenders, Progress& progress) {
  std::vector<runtime::Turn> turns;
  std::vector<BenchRow*> rows;
  for (Contender& contender : contenders) {
    if (contender.row.is_cpu) contender.joules = [&energy] { return energy.read(); };
    if (contender.session) turns.push_back(runtime::turn_of(*contender.session, iterations, contender.joules));
    if (contender.peer) turns.push_back(turn_of(*contender.peer, iterations, contender.joules));
    if (contender.session || contender.peer) rows.push_back(&contender.row);
  }
  std::vector<runtime::Timing> timings =
      runtime::run_rounds(turns, options.rounds, [&](std::uint32_t round, std::size_t i) {
        progress.say(fmt::format("{}: round {} of {}, {}", file, round + 1, options.rounds, rows[i]->name));
      });
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i]->timing = std::move(timings[i]);
    if (const std::optional<Error>& error = rows[i]->timing.error) {
      rows[i]->why = fmt::format("failed in round {}: {}", rows[i]->timing.rounds.size() + 1, error->message);
    }
  }
  for (BenchRow* const row : rows) row->ratio = runtime::median_ratio(rows[0]->timing, row->timing);
}

Result<BenchTable> bench_file(const BenchOptions& options, const std::string& file, runtime::PackageEnergy& energy,
                              Progress& progress) {
  progress.say("reading " + file);
  CRUCIBLE_TRY(Work work, read_work(file));
  const std::shared_ptr<const graph::Variants>& variants = work.variants;
  const auto iterations = static_cast<std::uint32_t>(variants->turns.size());
  if (iterations == 0)
    return Error{ErrorCode::kBadInput, fmt::format("{} has no complete iteration to run", file)};
  if (!options.peers.names.empty())
    CRUCIBLE_TRY_VOID(peer_command(options.peers, work, file));  // before anything is compiled
  std::vector<Contender> contenders;
  prepare_backends(options, work, variants, file, contenders, progress);
  CRUCIBLE_TRY_VOID(prepare_peers(options, work, *variants, file, contenders, progress));
  take_turns(options, file, iterations, energy, contenders, progress);
  BenchTable table{.file = file, .iterations = iterations};
  for (Contender& contender : contenders) table.rows.push_back(std::move(contender.row));
  progress.say("");
  return table;
}

Result<void> check_peers(const BenchOptions& options) {
  for (const std::string& name : options.peers.names) CRUCIBLE_TRY_VOID(peer_kind_of(name));
  if (options.peers.names.empty() && !options.peers.script.empty())
    return Error{ErrorCode::kUsage, "--script is for --peers, and there are none"};
  if (options.files.size() > 1 && !options.peers.names.empty() && !options.peers.script.empty() &&
      options.peers.script != "recorded") {
    return Error{ErrorCode::kUsage, "--script is the command of one recording: give one file, or --script recorded"};
  }
  return {};
}

Result<int> bench(const BenchOptions& options) {
  CRUCIBLE_TRY_VOID(check_peers(options));
  const config::Settings early = load_unchecked_settings(options.device, terminal());
  CRUCIBLE_TRY_VOID(early.check());
  CRUCIBLE_TRY_VOID(check_sensitivity(options.sensitivity));
  const char* const powercap = std::getenv("CRUCIBLE_POWERCAP");
  runtime::PackageEnergy energy =
      powercap == nullptr ? runtime::PackageEnergy::open() : runtime::PackageEnergy::open(powercap);
  BenchReport report{.rounds = options.rounds,
                     .is_strict = numerics_of(early) == kernel::Numerics::kStrict,
                     .energy_missing = energy.missing()};
  Progress progress(options.json);
  for (const std::string& file : options.files) {
    CRUCIBLE_TRY(BenchTable table, bench_file(options, file, energy, progress));
    if (!options.json) print_out("{}{}", report.tables.empty() ? "" : "\n", bench_text(report, table));
    report.tables.push_back(std::move(table));
  }
  if (!options.json && !report.energy_missing.empty())
    print_out("\nenergy of the processors: {}\n", report.energy_missing);
  if (!options.csv.empty()) CRUCIBLE_TRY_VOID(write_output(options.csv, bench_csv(report), kOwnerOnly));
  if (!options.html.empty()) CRUCIBLE_TRY_VOID(write_output(options.html, bench_page(report), kOwnerOnly));
  if (options.json) print_json(bench_json(report));
  return is_fine(report) ? 0 : exit_code(ErrorCode::kCheckFailed);
}

}  // namespace

void add_bench(Commands& commands) {
  auto options = std::make_shared<BenchOptions>();  // shared with the callback, which runs after this function
  CLI::App* command = add_reading_subcommand(
      commands.app, "bench", "The same recordings on several backends and by PyTorch, checked, then timed in turns.",
      "crucible bench step.crtrace --backends cpu,opencl --rounds 7\n"
      "  crucible bench step.crtrace --backends cpu --peers eager,compile --script \"python train.py\"");
  command->add_option("file", options->files, "Recordings (.crtrace), or capsules")->required();
  command
      ->add_option("--backends", options->backends,
                   "A plugin's name, PLUGIN:INDEX, or reference; times are compared with the first one's")
      ->delimiter(',')
      ->required();
  command
      ->add_option(
          "--peers", options->peers.names,
          "eager, compile, compile:MODE, cudagraphs: the program by PyTorch itself, each in a process of its own")
      ->delimiter(',');
  command->add_option("--script", options->peers.script,
                      "The command that runs the program for --peers, or \"recorded\": the one in the recording");
  command
      ->add_option("--peer-threads", options->peers.threads,
                   "Threads of the peers [as many as the backend on the processors]")
      ->check(CLI::Range(1u, 4096u));
  command
      ->add_option("--end-of-iteration", options->peers.end_of_iteration,
                   "What ends an iteration of the peers, where the recording was made with this option")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "optimizer", "step", "module"}));
  command->add_option("--peer-timeout", options->peers.patience_seconds, "Seconds for which a peer may say nothing")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command->add_option("--rounds", options->rounds, "How often each has its turn")
      ->check(CLI::Range(1u, 100000u))
      ->capture_default_str();
  command
      ->add_option("--set", options->device.sets, "KEY=VALUE of the configuration, for instance backend.cpu.threads=2")
      ->take_all();
  add_sensitivity_switches(*command, options->sensitivity, "Where a backend's results differ from the recorded ones");
  add_numerics_switch(*command, options->device);
  add_tune_switch(*command, options->tune, true);
  command->add_flag("--no-fuse", options->no_fuse, "One kernel per op");
  command->add_option("--csv", options->csv, "Write each round of each row to this file too");
  command->add_option("--html", options->html, "Write a page with pictures and tables too");
  command->add_flag("--json", options->json, "One JSON document on standard output");
  command->callback([&commands, options] { commands.run = [options] { return bench(*options); }; });
}

}  // namespace crucible::cli
