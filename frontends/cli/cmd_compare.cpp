// `crucible compare FILE --backends A,B[,...]`: the same recording on several backends, op by op, and the first result
// that differs, which can be kept as a capsule.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/output.hpp"
#include "core/base/terminal.hpp"
#include "core/trace/own_recordings.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/progress.hpp"
#include "frontends/cli/sandbox.hpp"
#include "frontends/cli/switches.hpp"
#include "frontends/cli/terminal_observer.hpp"
#include "frontends/replay/open_device.hpp"
#include "frontends/replay/read_work.hpp"
#include "frontends/replay/run_timeline.hpp"
#include "frontends/replay/tuning.hpp"
#include "runtime/judge/side_by_side.hpp"
#include "runtime/run/capsule.hpp"
#include "runtime/run/session.hpp"
#include "runtime/run/submission.hpp"

namespace crucible::cli {
namespace {

constexpr double kTolerance = 1e-4;  // of fast numerics; see --tolerance

struct CompareOptions {
  std::optional<std::uint32_t> variant;  // of several, which one
  std::string file, capsule, timeline;
  std::vector<std::string> backends;
  DeviceChoice device;  // what all have in common
  std::uint32_t iterations = 0;  // 0: all
  std::optional<double> tolerance;
  bool no_fuse = false, json = false;
  std::shared_ptr<runtime::BusyTimes> busy;  // shared with the sessions of all sides; null without --timeline
};

/// Where it runs, and the session.
struct Side {
  OpenedDevice opened;
  std::unique_ptr<runtime::Session> session;
  std::string name;  // "cpu:0 (Intel ...)"
};

/// What the first backend and another one had to say to each other.
struct Pair {
  const Side* a = nullptr;
  const Side* b = nullptr;
  runtime::SideBySide report;
};

Result<void> check_options(const CompareOptions& options, const graph::Program& program) {
  if (options.backends.size() < 2) {
    return Error{ErrorCode::kUsage,
                 "--backends names two or more, divided by commas, for instance cpu,opencl; here is one"};
  }
  if (options.iterations > program.iterations) {
    return Error{ErrorCode::kUsage, fmt::format("--iterations {}: the recording has {} complete iterations",
                                                options.iterations, program.iterations)};
  }
  return {};
}

DeviceChoice choice_of(const CompareOptions& options, const std::string& backend) {
  DeviceChoice choice = options.device;
  (backend.find(':') == std::string::npos ? choice.backend : choice.device) = backend;
  return choice;
}

Result<std::unique_ptr<runtime::Session>> open_session(const CompareOptions& options, const OpenedDevice& opened,
                                                       const std::shared_ptr<const graph::Program>& program,
                                                       const std::shared_ptr<const trace::BlobStore>& blobs) {
  const kernel::Numerics numerics = numerics_of(opened.settings);
  if (!opened.device) return runtime::Session::create_reference(program, blobs, numerics);
  return runtime::Session::create(
      program, blobs, opened.device,
      {.fuse = !options.no_fuse, .numerics = numerics, .trial = trial_of(opened.settings), .busy = options.busy});
}

Result<Side> open_side(const CompareOptions& options, const std::string& backend,
                       const std::shared_ptr<const graph::Program>& program, const trace::Trace& trace) {
  CRUCIBLE_TRY(OpenedDevice opened, open_device(choice_of(options, backend), terminal(), nullptr, true));
  Side side{.opened = std::move(opened), .session = nullptr, .name = kReferenceBackend};
  if (side.opened.device)
    side.name = fmt::format("{} ({})", side.opened.device->info().id, side.opened.device->info().name);
  Result<std::unique_ptr<runtime::Session>> made = open_session(options, side.opened, program, trace.blob_store);
  if (!made) return Error{made.error().code, fmt::format("{}: {}", backend, made.error().message)};
  side.session = *std::move(made);
  return side;
}

nlohmann::ordered_json to_json(const graph::Program& program, const runtime::ResultDifference& difference) {
  const graph::Op& op = program.ops[difference.op];
  const graph::ValueId value = op.outputs[difference.result].value;
  nlohmann::ordered_json json = {{"iteration", difference.iteration},
                                 {"op", difference.op},
                                 {"kind", graph::name(op.kind)},
                                 {"value", value},
                                 {"dtype", name(program.values[value].dtype)}};
  if (op.source < program.sources.size()) {
    const graph::Source& source = program.sources[op.source];
    json["recorded_op"] = source.op;
    json["module"] = source.module;
    json["site"] = source.site;
  }
  json["elements"] = difference.elements;
  json["different"] = difference.different;
  json["max_rel_diff"] = difference.max_rel_diff;
  json["first_element"] = difference.first;
  json["values"] = {difference.first_in_a, difference.first_in_b};
  return json;
}

void print_difference(const graph::Program& program, const Pair& pair) {
  const runtime::ResultDifference& difference = *pair.report.first;
  const graph::Op& op = program.ops[difference.op];
  const graph::ValueId value = op.outputs[difference.result].value;
  print_out("differs    iteration {}, op {}: {}, result %{} ({}[{}])\n", difference.iteration, difference.op,
            graph::name(op.kind), value, name(program.values[value].dtype), program.values[value].elements);
  if (op.source < program.sources.size()) {
    const graph::Source& source = program.sources[op.source];
    print_out("recorded   {} at {}{}\n", source.op, source.site,
              source.module.empty() ? "" : fmt::format(" ({})", source.module));
  }
  print_out("elements   {} of {} differ, largest relative difference {:.3g}\n", difference.different,
            difference.elements, difference.max_rel_diff);
  print_out("first      element {}: {:.9g} on {}, {:.9g} on {}\n", difference.first, difference.first_in_a,
            pair.a->name, difference.first_in_b, pair.b->name);
}

/// Saves the difference of `pair`: the smallest program that shows it again.
Result<runtime::CutCapsule> save_capsule(const CompareOptions& options, const graph::Program& program,
                                         const trace::BlobStore& blobs, const Pair& pair,
                                         const runtime::SideBySideOptions& how) {
  const auto opener = [&options](const OpenedDevice& opened) {
    return [&options, &opened](const std::shared_ptr<const graph::Program>& cut,
                               const std::shared_ptr<const trace::BlobStore>& kept) {
      return open_session(options, opened, cut, kept);
    };
  };
  const runtime::ResultDifference& difference = *pair.report.first;
  CRUCIBLE_TRY(runtime::CutCapsule cut,
               runtime::cut_smallest_capsule(program, blobs, *pair.a->session, difference,
                                             opener(pair.a->opened), opener(pair.b->opened), how));
  cut.capsule.origin =
      fmt::format("op {} ({}) of iteration {} of {}; recorded results of {}", difference.op,
                  graph::name(program.ops[difference.op].kind), difference.iteration, options.file, pair.a->name);
  const bool is_own = trace::is_own_recording(options.file);
  CRUCIBLE_TRY_VOID(runtime::write_capsule(cut.capsule, options.capsule));
  if (is_own) trace::remember_recording(options.capsule);
  return cut;
}

nlohmann::ordered_json to_json(const graph::Program& program, const runtime::SideBySide& report) {
  nlohmann::ordered_json json = {{"equal", !report.first},
                                 {"iterations", report.iterations},
                                 {"results", report.results},
                                 {"bit_equal", report.bit_equal},
                                 {"max_rel_diff", report.max_rel_diff},
                                 {"first_difference", nullptr}};
  if (report.first) json["first_difference"] = to_json(program, *report.first);
  return json;
}

void print_pair(const graph::Program& program, const Pair& pair) {
  const runtime::SideBySide& report = pair.report;
  print_out("\nbackends   {} and {}\n", pair.a->name, pair.b->name);
  print_out("compared   {} results of {} iterations, {} with equal bits, largest relative difference {:.3g}\n",
            report.results, report.iterations, report.bit_equal, report.max_rel_diff);
  if (report.first) print_difference(program, pair);
  if (!report.first) print_out("equal      yes\n");
}

/// Each of the others beside the first. Errors: those of running.
Result<std::vector<Pair>> run_pairs(const graph::Program& program, const std::vector<Side>& sides,
                                    const runtime::SideBySideOptions& how) {
  std::vector<Pair> pairs;
  for (std::size_t i = 1; i < sides.size(); ++i) {
    if (i > 1) CRUCIBLE_TRY_VOID(sides[0].session->reset());
    Pair& pair = pairs.emplace_back(Pair{&sides[0], &sides[i], {}});
    CRUCIBLE_TRY(pair.report, run_side_by_side(program, *sides[0].session, *sides[i].session, how));
  }
  return pairs;
}

Result<int> compare(const CompareOptions& options) {
  Progress progress(options.json);
  progress.say("reading " + options.file);
  CRUCIBLE_TRY(const Work work, read_work(options.file));
  CRUCIBLE_TRY(const std::shared_ptr<const graph::Program> chosen,
               graph::choose_variant(*work.variants, options.variant));
  const graph::Program& program = *chosen;
  CRUCIBLE_TRY_VOID(check_options(options, program));
  const auto watched = std::make_shared<const graph::Program>(runtime::with_every_result(program));
  progress.say("scheduling, planning and compiling");
  std::vector<Side> sides;
  for (const std::string& backend : options.backends) {
    CRUCIBLE_TRY(Side side, open_side(options, backend, watched, work.trace));
    sides.push_back(std::move(side));
  }
  const bool is_strict = numerics_of(sides[0].opened.settings) == kernel::Numerics::kStrict;
  runtime::SideBySideOptions how;
  how.tolerance = options.tolerance;
  if (!how.tolerance && !is_strict) how.tolerance = kTolerance;
  if (how.tolerance == 0) how.tolerance.reset();  // then the bits count, those of zeros too
  if (options.iterations != 0) how.iterations = options.iterations;
  how.progress = [&](std::uint32_t iteration) { progress.say(fmt::format("comparing iteration {}", iteration)); };
  CRUCIBLE_TRY(const std::vector<Pair> pairs, run_pairs(program, sides, how));
  if (options.busy) {
    const std::string text = timeline_trace(options.busy->all(), options.file).dump(2) + "\n";
    CRUCIBLE_TRY_VOID(write_output(options.timeline, text, kOwnerOnly));
  }
  const auto differing = std::ranges::find_if(pairs, [](const Pair& pair) { return pair.report.first.has_value(); });
  std::optional<runtime::CutCapsule> cut;
  if (differing != pairs.end() && !options.capsule.empty()) {
    progress.say("cutting a capsule");
    CRUCIBLE_TRY(cut, save_capsule(options, program, *work.trace.blob_store, *differing, how));
  }
  progress.say("");
  const int code = differing != pairs.end() ? exit_code(ErrorCode::kCheckFailed) : 0;
  if (options.json) {
    nlohmann::ordered_json document = {
        {"file", options.file},
        {"backends", nlohmann::ordered_json::array()},
        {"numerics", is_strict ? "strict" : "fast"},
        {"tolerance", how.tolerance ? nlohmann::ordered_json(*how.tolerance) : nlohmann::ordered_json(nullptr)}};
    for (const Side& side : sides) document["backends"].push_back(side.name);
    // The verdict of all: that of the first pair that differs, else of the first.
    document.update(to_json(program, (differing != pairs.end() ? *differing : pairs[0]).report));
    for (const Pair& pair : pairs) {
      document["pairs"].push_back({{"a", pair.a->name}, {"b", pair.b->name}});
      document["pairs"].back().update(to_json(program, pair.report));
    }
    document["capsule"] = nullptr;
    if (cut)
      document["capsule"] = {
          {"file", options.capsule}, {"ops", cut->capsule.program.ops.size()}, {"reproduced", cut->is_reproduced}};
    print_json(document);
    return code;
  }
  print_out("numerics   {}, {}\n", is_strict ? "strict" : "fast",
            how.tolerance ? fmt::format("relative differences up to {:g} of a result's largest number count as equal",
                                        *how.tolerance)
                          : "the bits count");
  for (const Pair& pair : pairs) print_pair(program, pair);
  if (cut) {
    print_out("\ncapsule    {}: {} ops with their inputs; {}\n", options.capsule, cut->capsule.program.ops.size(),
              cut->is_reproduced ? "alone they differ too"
                                 : "alone they do not differ: the difference comes from what surrounds them");
    print_out("           crucible compare {} --backends {},{}{}\n", options.capsule, options.backends[0],
              options.backends[static_cast<std::size_t>(differing - pairs.begin()) + 1],
              is_strict ? " --numerics strict" : "");
  }
  return code;
}

}  // namespace

void add_compare(Commands& commands) {
  auto options = std::make_shared<CompareOptions>();  // shared with the callback, which runs after this function
  CLI::App* command = add_reading_subcommand(
      commands.app, "compare", "Replays on several backends, op by op, and names the first result that differs.",
      "crucible compare step.crtrace --backends cpu,opencl --numerics strict");
  command->add_option("file", options->file, "The recording (.crtrace), or a capsule")->required();
  command->add_option("--variant", options->variant, "Where iterations differ: which of their programs, from 0");
  command
      ->add_option("--backends", options->backends,
                   "Two or more of: a plugin's name, PLUGIN:INDEX, reference. The others are compared with the first")
      ->delimiter(',')
      ->required();
  command
      ->add_option("--set", options->device.sets, "KEY=VALUE of the configuration, for instance backend.cpu.threads=2")
      ->take_all();
  add_numerics_switch(*command, options->device);
  command
      ->add_option("--tolerance", options->tolerance,
                   "Relative differences up to this count as equal (default: 1e-4, strict: 0, which means equal bits)")
      ->check(CLI::Range(0.0, 1e30));
  command->add_option("--iterations", options->iterations, "Compare only the first N iterations")
      ->check(CLI::Range(1u, 1000000u));
  command->add_option("--capsule", options->capsule,
                      "When they differ, write the op that differs first to this file, with its inputs: a program that "
                      "compare and replay take");
  command->add_option(
      "--timeline", options->timeline,
      "Write when each device ran which iteration, and when the host wrote inputs, as a Chrome trace to "
      "this file");
  command->add_flag("--no-fuse", options->no_fuse, "One kernel per op");
  command->add_flag("--json", options->json, "Print one JSON document");
  add_sandbox_switch(*command, options->device);
  command->callback([&commands, options] {
    commands.before = [options]() -> Result<std::optional<int>> {
      // Devices of all sides have to be able to live in it: see sandbox.mode.
      const bool all_do = std::ranges::all_of(options->backends, [](const std::string& name) {
        return name == kFallbackPlugin || name == kReferenceBackend || name.starts_with("cpu:");
      });
      if (!all_do && options->device.sandbox != "on") return std::optional<int>();
      return enter_sandbox(options->device, {options->file, {options->capsule, options->timeline}});
    };
    if (!options->timeline.empty()) options->busy = std::make_shared<runtime::BusyTimes>();
    commands.run = [options] { return compare(*options); };
  });
}

}  // namespace crucible::cli
