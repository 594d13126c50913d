// `crucible bench FILE... --backends A,B`: the same recordings on several backends in turns. What a backend computes is checked before it
// is timed.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/runtime/predict.hpp"
#include "core/runtime/rounds.hpp"
#include "core/runtime/self_test.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/device_profiles.hpp"
#include "frontends/cli/open_device.hpp"
#include "frontends/cli/progress.hpp"
#include "frontends/cli/read_work.hpp"
#include "frontends/cli/tuning.hpp"

namespace crucible::cli {
namespace {

using Json = nlohmann::ordered_json;

struct BenchOptions {
  std::vector<std::string> files, backends;
  DeviceChoice device;  // what all have in common
  std::uint32_t rounds = 7;
  std::string tune = "kept", csv;
  bool no_fuse = false, json = false;
};

/// A backend on a recording. `why` says why it was not timed; "" when it was.
struct Row {
  std::string backend, device, why, sha256;
  bool is_emulated = false, is_verified = false;
  std::unique_ptr<runtime::Session> session;
  runtime::Timing timing;
  double ratio = 0;               // the first timed backend's time over this one's
  double predicted_ns = 0;        // of an iteration at best, by the device's profile; 0: there is none
  std::uint64_t compile_ns = 0, arena_bytes = 0;
  double roofline_share() const { return timing.median() > 0 ? predicted_ns / timing.median() : 0; }
};

struct Table {
  std::string file;
  std::uint32_t iterations = 0;
  std::vector<Row> rows;
};

DeviceChoice choice_of(const BenchOptions& options, const std::string& backend) {
  DeviceChoice choice = options.device;
  (backend.find(':') == std::string::npos ? choice.backend : choice.device) = backend;
  return choice;
}

Result<double> predicted_ns(const OpenedDevice& opened, const runtime::Session& session) {
  CRUCIBLE_TRY(const std::optional<hardware::DeviceProfile> profile, profile_of_device(opened.settings, "", opened.device.get()));
  double sum = 0;
  if (!profile) return sum;
  for (const hardware::Prediction& step : runtime::predict_steps(session.program(), session.schedule(), *profile)) sum += step.total_ns();
  return sum;
}

/// Opens, compiles, runs everything once and checks it. Errors: whatever keeps it from being timed.
Result<void> prepare(const BenchOptions& options, const Work& work, const std::shared_ptr<const graph::Program>& program, Row& row) {
  CRUCIBLE_TRY(OpenedDevice opened, open_device(choice_of(options, row.backend), nullptr, true));
  const kernel::Numerics numerics = numerics_of(opened.settings);
  row.device = kReferenceBackend;
  if (!opened.device) {
    CRUCIBLE_TRY(row.session, runtime::Session::create_reference(program, work.trace.blob_store, numerics));
  } else {
    row.device = fmt::format("{} ({})", opened.device->info().id, opened.device->info().name);
    row.is_emulated = opened.device->info().emulated;
    if (numerics == kernel::Numerics::kStrict) CRUCIBLE_TRY_VOID(runtime::admit_to_strict(opened.device, choices_folder() / "admitted"));
    CRUCIBLE_TRY(const Tuned tuned, tune(options.tune, *program, opened.device, !options.no_fuse, numerics, nullptr));
    CRUCIBLE_TRY(row.session, runtime::Session::create(program, work.trace.blob_store, opened.device,
                                                       {.fuse = !options.no_fuse, .numerics = numerics, .choices = tuned.choices}));
    row.compile_ns = row.session->compile_ns();
    row.arena_bytes = row.session->arena_bytes();
    CRUCIBLE_TRY(row.predicted_ns, predicted_ns(opened, *row.session));
  }
  std::vector<runtime::IterationResult> results;
  for (std::uint32_t iteration = 0; iteration < program->iterations; ++iteration) {
    CRUCIBLE_TRY(runtime::IterationResult result, row.session->run(iteration));
    CRUCIBLE_TRY(result.outputs, row.session->compare_outputs());
    results.push_back(std::move(result));
  }
  CRUCIBLE_TRY(const runtime::Verification verdict, row.session->verify(results));
  CRUCIBLE_TRY(row.sha256, runtime::result_sha256(*row.session, *program, results));
  row.is_verified = verdict.verified;
  if (!verdict.verified) return Error{ErrorCode::kCheckFailed, "not verified: " + verdict.reason};
  return {};
}

Result<Table> bench_file(const BenchOptions& options, const std::string& file, Progress& progress) {
  progress.say("reading " + file);
  CRUCIBLE_TRY(Work work, read_work(file));
  const auto program = std::make_shared<const graph::Program>(std::move(work.program));
  Table table{.file = file, .iterations = program->iterations, .rows = {}};
  if (program->iterations == 0) return Error{ErrorCode::kBadInput, fmt::format("{} has no complete iteration to run", file)};
  for (const std::string& backend : options.backends) {
    progress.say(fmt::format("{}: {} is compiled and checked", file, backend));
    Row row;
    row.backend = backend;
    if (const Result<void> prepared = prepare(options, work, program, row); !prepared) {
      row.why = prepared.error().message;
      row.session.reset();
    }
    table.rows.push_back(std::move(row));
  }
  std::vector<runtime::Session*> sessions;
  std::vector<Row*> timed;
  for (Row& row : table.rows) {
    if (!row.session) continue;
    sessions.push_back(row.session.get());
    timed.push_back(&row);
  }
  CRUCIBLE_TRY(std::vector<runtime::Timing> timings,
               run_rounds(sessions, program->iterations, options.rounds, [&](std::uint32_t round, std::size_t i) {
                 progress.say(fmt::format("{}: round {} of {}, {}", file, round + 1, options.rounds, timed[i]->backend));
               }));
  for (std::size_t i = 0; i < timed.size(); ++i) timed[i]->timing = std::move(timings[i]);
  for (Row* const row : timed) row->ratio = runtime::median_ratio(timed[0]->timing, row->timing);
  for (Row& row : table.rows) row.session.reset();
  progress.say("");
  return table;
}

/// Strict results that are verified but have other bits than the first one's.
bool has_other_bits(const Table& table, const Row& row) {
  const auto first = std::ranges::find(table.rows, "", &Row::why);
  return first != table.rows.end() && row.why.empty() && row.sha256 != first->sha256;
}

std::string verdict_of(const Table& table, const Row& row, bool is_strict) {
  if (!row.why.empty()) return row.why;
  if (!is_strict) return "verified";
  return has_other_bits(table, row) ? "verified, OTHER BITS" : "verified, same bits";
}

/// Devices first, emulated ones apart: their times are those of an emulator.
std::string text_of(const Table& table, std::uint32_t rounds, bool is_strict) {
  std::string text = fmt::format("{}: {} iterations, {} rounds in turns{}\n", table.file, table.iterations, rounds, is_strict ? ", strict" : "");
  for (const bool emulated : {false, true}) {
    std::vector<std::vector<std::string>> rows = {{"backend", "median", "quartiles", "ratio", "roofline", "arena", "compile", "device", "verdict"}};
    for (const Row& row : table.rows) {
      if (row.is_emulated != emulated) continue;
      const bool is_timed = row.why.empty();
      const auto timed = [&](std::string cell) { return is_timed ? std::move(cell) : std::string("-"); };
      rows.push_back({row.backend, timed(format_ns(row.timing.median())),
                      timed(fmt::format("{} .. {}", format_ns(row.timing.quantile(0.25)), format_ns(row.timing.quantile(0.75)))),
                      timed(fmt::format("{:.3g}", row.ratio)), row.predicted_ns > 0 ? timed(fmt::format("{:.0f} %", 100 * row.roofline_share())) : "-",
                      row.arena_bytes > 0 ? format_bytes(row.arena_bytes) : "-", row.compile_ns > 0 ? format_ns(static_cast<double>(row.compile_ns)) : "-",
                      row.device.empty() ? "-" : row.device, verdict_of(table, row, is_strict)});
    }
    if (rows.size() == 1) continue;
    if (emulated) text += "\nemulated, so that the times are an emulator's:\n";
    text += format_table(rows);
  }
  return text;
}

Json json_of(const Table& table, bool is_strict) {
  Json document = {{"file", table.file}, {"iterations", table.iterations}, {"rows", Json::array()}};
  for (const Row& row : table.rows) {
    Json json = {{"backend", row.backend}, {"device", row.device}, {"emulated", row.is_emulated}, {"verified", row.is_verified},
                 {"reason", row.why}, {"result_sha256", row.sha256}, {"rounds_ns", row.timing.rounds}, {"median_ns", nullptr},
                 {"quartiles_ns", nullptr}, {"ratio", nullptr}, {"roofline_share", nullptr}, {"compile_ns", row.compile_ns}, {"arena_bytes", row.arena_bytes}};
    if (is_strict) json["same_bits"] = row.why.empty() && !has_other_bits(table, row);
    if (!row.timing.rounds.empty()) {
      json["median_ns"] = row.timing.median();
      json["quartiles_ns"] = {row.timing.quantile(0.25), row.timing.quantile(0.75)};
      json["ratio"] = row.ratio;
      if (row.predicted_ns > 0) json["roofline_share"] = row.roofline_share();
    }
    document["rows"].push_back(std::move(json));
  }
  return document;
}

std::string quoted(const std::string& text) {
  std::string cell = "\"";
  for (const char c : text) cell += c == '"' ? std::string("\"\"") : std::string(1, c);
  return cell + "\"";
}

/// One line per round of each timed backend, and one without a time for each that was not.
std::string csv_of(const std::vector<Table>& tables) {
  std::string text = "file,backend,device,emulated,verified,reason,round,iteration_ns\n";
  for (const Table& table : tables) {
    for (const Row& row : table.rows) {
      const std::string front = fmt::format("{},{},{},{},{},{}", quoted(table.file), quoted(row.backend), quoted(row.device), row.is_emulated ? 1 : 0,
                                            row.is_verified ? 1 : 0, quoted(row.why));
      for (std::size_t round = 0; round < row.timing.rounds.size(); ++round) text += fmt::format("{},{},{:.0f}\n", front, round, row.timing.rounds[round]);
      if (row.timing.rounds.empty()) text += front + ",,\n";
    }
  }
  return text;
}

Result<void> write_text(const std::string& path, const std::string& text) {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  bool is_written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr) is_written = std::fclose(file) == 0 && is_written;
  if (is_written) return {};
  return Error{ErrorCode::kBadInput, fmt::format("cannot write {}: {}", path, std::strerror(errno))};
}

Result<int> bench(const BenchOptions& options) {
  const config::Settings early = load_unchecked_settings(options.device);
  CRUCIBLE_TRY_VOID(early.check());
  const bool is_strict = numerics_of(early) == kernel::Numerics::kStrict;
  Progress progress(options.json);
  std::vector<Table> tables;
  for (const std::string& file : options.files) {
    CRUCIBLE_TRY(Table table, bench_file(options, file, progress));
    if (!options.json) fmt::print("{}{}", tables.empty() ? "" : "\n", text_of(table, options.rounds, is_strict));
    tables.push_back(std::move(table));
  }
  if (!options.csv.empty()) CRUCIBLE_TRY_VOID(write_text(options.csv, csv_of(tables)));
  bool is_fine = true;
  for (const Table& table : tables) {
    for (const Row& row : table.rows) is_fine = is_fine && row.why.empty() && !(is_strict && has_other_bits(table, row));
  }
  if (options.json) {
    Json document = {{"numerics", is_strict ? "strict" : "fast"}, {"rounds", options.rounds}, {"files", Json::array()}};
    for (const Table& table : tables) document["files"].push_back(json_of(table, is_strict));
    print_json(document);
  }
  return is_fine ? 0 : exit_code(ErrorCode::kCheckFailed);
}

}  // namespace

void add_bench(Commands& commands) {
  auto options = std::make_shared<BenchOptions>();  // shared with the callback, which runs after this function
  CLI::App* command = add_subcommand(commands.app, "bench", "The same recordings on several backends, checked, then timed in turns.",
                                     "crucible bench step.crtrace --backends cpu,opencl --rounds 7");
  command->add_option("file", options->files, "Recordings (.crtrace), or capsules")->required();
  command->add_option("--backends", options->backends, "A plugin's name, PLUGIN:INDEX, or reference; times are compared with the first one's")
      ->delimiter(',')
      ->required();
  command->add_option("--rounds", options->rounds, "How often each backend has its turn")->check(CLI::Range(1u, 100000u))->capture_default_str();
  command->add_option("--set", options->device.sets, "KEY=VALUE of the configuration, for instance backend.cpu.threads=2")->take_all();
  add_numerics_switch(*command, options->device);
  add_tune_switch(*command, options->tune, true);
  command->add_flag("--no-fuse", options->no_fuse, "One kernel per op");
  command->add_option("--csv", options->csv, "Write each round of each backend to this file too");
  command->add_flag("--json", options->json, "One JSON document on standard output");
  command->callback([&commands, options] { commands.run = [options] { return bench(*options); }; });
}

}  // namespace crucible::cli
