// `crucible compare FILE --backends A,B`: the same recording on two backends, op by op, and the first result that differs.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/runtime/session.hpp"
#include "core/runtime/side_by_side.hpp"
#include "core/trace/trace_file.hpp"
#include "frontends/aten/lower.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/open_device.hpp"
#include "frontends/cli/progress.hpp"

namespace crucible::cli {
namespace {

constexpr double kTolerance = 1e-4;  // of fast numerics; see --tolerance

struct CompareOptions {
  std::string file;
  std::vector<std::string> backends;
  DeviceChoice device;  // what both have in common
  std::uint32_t iterations = 0;  // 0: all
  std::optional<double> tolerance;
  bool no_fuse = false, json = false;
};

/// One of the two: where it runs, and the session.
struct Side {
  OpenedDevice opened;
  std::unique_ptr<runtime::Session> session;
  std::string name;  // "cpu:0 (Intel ...)"
};

Result<void> check_options(const CompareOptions& options, const graph::Program& program) {
  if (options.backends.size() != 2) {
    return Error{ErrorCode::kUsage,
                 fmt::format("--backends names two, divided by a comma, for instance cpu,opencl; here are {}", options.backends.size())};
  }
  if (options.iterations > program.iterations) {
    return Error{ErrorCode::kUsage, fmt::format("--iterations {}: the recording has {} complete iterations", options.iterations,
                                                program.iterations)};
  }
  return {};
}

DeviceChoice choice_of(const CompareOptions& options, const std::string& backend) {
  DeviceChoice choice = options.device;
  (backend.find(':') == std::string::npos ? choice.backend : choice.device) = backend;
  return choice;
}

Result<Side> open_side(const CompareOptions& options, const std::string& backend, const std::shared_ptr<const graph::Program>& program,
                       const trace::Trace& trace) {
  CRUCIBLE_TRY(OpenedDevice opened, open_device(choice_of(options, backend), nullptr, true));
  Side side{.opened = std::move(opened), .session = nullptr, .name = kReferenceBackend};
  if (!side.opened.device) {
    CRUCIBLE_TRY(side.session, runtime::Session::create_reference(program, trace.blob_store, numerics_of(side.opened.settings)));
    return side;
  }
  const backend::DeviceInfo& info = side.opened.device->info();
  side.name = fmt::format("{} ({})", info.id, info.name);
  const runtime::Options session{.fuse = !options.no_fuse, .numerics = numerics_of(side.opened.settings)};
  Result<std::unique_ptr<runtime::Session>> made = runtime::Session::create(program, trace.blob_store, side.opened.device, session);
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

void print_difference(const graph::Program& program, const runtime::ResultDifference& difference, const std::array<Side, 2>& sides) {
  const graph::Op& op = program.ops[difference.op];
  const graph::ValueId value = op.outputs[difference.result].value;
  fmt::print("differs    iteration {}, op {}: {}, result %{} ({}[{}])\n", difference.iteration, difference.op, graph::name(op.kind), value,
             name(program.values[value].dtype), program.values[value].elements);
  if (op.source < program.sources.size()) {
    const graph::Source& source = program.sources[op.source];
    fmt::print("recorded   {} at {}{}\n", source.op, source.site, source.module.empty() ? "" : fmt::format(" ({})", source.module));
  }
  fmt::print("elements   {} of {} differ, largest relative difference {:.3g}\n", difference.different, difference.elements,
             difference.max_rel_diff);
  fmt::print("first      element {}: {:.9g} on {}, {:.9g} on {}\n", difference.first, difference.first_in_a, sides[0].name,
             difference.first_in_b, sides[1].name);
}

Result<int> compare(const CompareOptions& options) {
  Progress progress(options.json);
  progress.say("reading " + options.file);
  CRUCIBLE_TRY(const trace::Trace trace, trace::read_file(options.file));
  CRUCIBLE_TRY(const graph::Program program, aten::lower(trace, aten::Opaques::kMissing));
  CRUCIBLE_TRY_VOID(check_options(options, program));
  const auto watched = std::make_shared<const graph::Program>(runtime::with_every_result(program));
  progress.say("scheduling, planning and compiling");
  std::array<Side, 2> sides;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    CRUCIBLE_TRY(sides[i], open_side(options, options.backends[i], watched, trace));
  }
  const bool is_strict = numerics_of(sides[0].opened.settings) == kernel::Numerics::kStrict;
  runtime::SideBySideOptions how;
  how.tolerance = options.tolerance;
  if (!how.tolerance && !is_strict) how.tolerance = kTolerance;
  if (how.tolerance == 0) how.tolerance.reset();  // then the bits count, those of zeros too
  if (options.iterations != 0) how.iterations = options.iterations;
  how.progress = [&](std::uint32_t iteration) { progress.say(fmt::format("comparing iteration {}", iteration)); };
  CRUCIBLE_TRY(const runtime::SideBySide report, run_side_by_side(program, *sides[0].session, *sides[1].session, how));
  progress.say("");
  const int code = report.first ? exit_code(ErrorCode::kCheckFailed) : 0;
  if (options.json) {
    nlohmann::ordered_json document = {{"file", options.file},
                                       {"backends", {sides[0].name, sides[1].name}},
                                       {"numerics", is_strict ? "strict" : "fast"},
                                       {"tolerance", how.tolerance ? nlohmann::ordered_json(*how.tolerance) : nlohmann::ordered_json(nullptr)},
                                       {"equal", !report.first},
                                       {"iterations", report.iterations},
                                       {"results", report.results},
                                       {"bit_equal", report.bit_equal},
                                       {"max_rel_diff", report.max_rel_diff},
                                       {"first_difference", nullptr}};
    if (report.first) document["first_difference"] = to_json(program, *report.first);
    print_json(document);
    return code;
  }
  fmt::print("backends   {} and {}\n", sides[0].name, sides[1].name);
  fmt::print("numerics   {}, {}\n", is_strict ? "strict" : "fast",
             how.tolerance ? fmt::format("relative differences up to {:g} of a result's largest number count as equal", *how.tolerance)
                           : "the bits count");
  fmt::print("compared   {} results of {} iterations, {} with equal bits, largest relative difference {:.3g}\n", report.results,
             report.iterations, report.bit_equal, report.max_rel_diff);
  if (report.first) print_difference(program, *report.first, sides);
  if (!report.first) fmt::print("equal      yes\n");
  return code;
}

}  // namespace

void add_compare(Commands& commands) {
  auto options = std::make_shared<CompareOptions>();  // shared with the callback, which runs after this function
  CLI::App* command = add_subcommand(commands.app, "compare", "Replays on two backends, op by op, and names the first result that differs.",
                                     "crucible compare step.crtrace --backends cpu,opencl --numerics strict");
  command->add_option("file", options->file, "The recording (.crtrace)")->required();
  command->add_option("--backends", options->backends, "Two of: a plugin's name, PLUGIN:INDEX, reference")->delimiter(',')->required();
  command->add_option("--set", options->device.sets, "KEY=VALUE of the configuration, for instance backend.cpu.threads=2")->take_all();
  add_numerics_switch(*command, options->device);
  command
      ->add_option("--tolerance", options->tolerance,
                   "Relative differences up to this count as equal (default: 1e-4, strict: 0, which means equal bits)")
      ->check(CLI::Range(0.0, 1e30));
  command->add_option("--iterations", options->iterations, "Compare only the first N iterations")->check(CLI::Range(1u, 1000000u));
  command->add_flag("--no-fuse", options->no_fuse, "One kernel per op");
  command->add_flag("--json", options->json, "Print one JSON document");
  command->callback([&commands, options] { commands.run = [options] { return compare(*options); }; });
}

}  // namespace crucible::cli
