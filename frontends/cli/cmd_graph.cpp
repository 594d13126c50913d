// `crucible graph`: the neutral program of a recording, after the lowering or after a pass, as text, JSON or a drawing.
// It shows what the library functions made; no stage exists only here.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <vector>

#include "core/graph/passes.hpp"
#include "core/graph/print.hpp"
#include "core/graph/program_hash.hpp"
#include "core/trace/trace_file.hpp"
#include "frontends/aten/lower.hpp"
#include "frontends/cli/command.hpp"

namespace crucible::cli {
namespace {

struct GraphOptions {
  std::string file, stage, format = "text", module, phase, opaque = "missing";
  bool list_stages = false, json = false;
};

/// A program as a pass left it.
struct Stage {
  std::string name, description;
  graph::Program program;
  std::uint64_t time_ns = 0;
};

ContentHash hash_of(const graph::Program& program, const trace::Trace& trace) {
  std::vector<ContentHash> blobs;
  for (const trace::Blob& blob : trace.blobs) blobs.push_back(blob.hash);
  return graph::program_hash(program, blobs);
}

std::uint64_t ns_since(std::chrono::steady_clock::time_point begin) {
  const auto time = std::chrono::steady_clock::now() - begin;
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}

Result<std::vector<Stage>> all_stages(const trace::Trace& trace, aten::Opaques opaques) {
  std::vector<Stage> stages;
  const auto begin = std::chrono::steady_clock::now();
  CRUCIBLE_TRY(graph::Program program, aten::lower_without_passes(trace, opaques));
  stages.push_back({"lowered", "neutral ops in recorded order, aliases resolved", program, ns_since(begin)});
  CRUCIBLE_TRY_VOID(
      graph::run_passes(program, {.blobs = trace.blob_store.get()}, [&](const graph::Pass& pass, const graph::Program& after, std::uint64_t time_ns) {
        stages.push_back({std::string(pass.name), std::string(pass.description), after, time_ns});
      }));
  return stages;
}

std::uint64_t temporary_bytes(const graph::Program& program) {
  std::uint64_t total = 0;
  for (const graph::Value& value : program.values) {
    if (value.kind != graph::ValueKind::kTemporary) continue;
    total += static_cast<std::uint64_t>(value.elements) * size_bytes(value.dtype);
  }
  return total;
}

void print_stages(const std::vector<Stage>& stages, const trace::Trace& trace, bool json) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  std::vector<std::vector<std::string>> rows = {{"stage", "ops", "values", "temporaries", "time", "hash", "what it does"}};
  for (const Stage& stage : stages) {
    const std::uint64_t bytes = temporary_bytes(stage.program);
    const std::string hash = hash_of(stage.program, trace).hex();
    list.push_back({{"stage", stage.name},
                    {"ops", stage.program.ops.size()},
                    {"values", stage.program.values.size()},
                    {"temporary_bytes", bytes},
                    {"time_ns", stage.time_ns},
                    {"hash", hash},
                    {"description", stage.description}});
    rows.push_back({stage.name, fmt::format("{}", stage.program.ops.size()),
                    fmt::format("{}", stage.program.values.size()), format_bytes(bytes),
                    format_ns(static_cast<double>(stage.time_ns)), hash.substr(0, 12), stage.description});
  }
  if (json) return print_json(nlohmann::ordered_json{{"stages", list}});
  std::fputs(format_table(rows).c_str(), stdout);
}

Result<int> print_module(const GraphOptions& options, const graph::Program& program) {
  if (options.json || options.format != "text") {
    return Error{ErrorCode::kUsage, "--module and --phase choose what the text shows: leave --format and --json away"};
  }
  graph::ModuleText what{options.module, std::nullopt};
  if (!options.phase.empty()) {
    what.phase = options.phase == "forward"    ? graph::Phase::kForward
                 : options.phase == "backward" ? graph::Phase::kBackward
                                               : graph::Phase::kOptimizer;
  }
  const std::string text = graph::module_text(program, what);
  if (text.empty()) {
    const auto names = graph::module_names(program);
    return Error{ErrorCode::kUsage, fmt::format("no op came from the module '{}'{}; the modules are {}", options.module,
                                                options.phase.empty() ? "" : " in the phase " + options.phase,
                                                fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(names.size(), 40)), ", "))};
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

Result<int> graph_command(const GraphOptions& options) {
  CRUCIBLE_TRY(const trace::Trace trace, trace::read_file(options.file));
  CRUCIBLE_TRY(const std::vector<Stage> stages, all_stages(trace, options.opaque == "all" ? aten::Opaques::kAll : aten::Opaques::kMissing));
  const bool json = options.json || options.format == "json";
  if (options.list_stages) {
    print_stages(stages, trace, json);
    return 0;
  }
  const Stage* chosen = options.stage.empty() ? &stages.back() : nullptr;
  std::string names;
  for (const Stage& stage : stages) {
    if (stage.name == options.stage) chosen = &stage;
    names += (names.empty() ? "" : ", ") + stage.name;
  }
  if (chosen == nullptr) {
    return Error{ErrorCode::kUsage, fmt::format("there is no stage '{}'; the stages are {}", options.stage, names)};
  }
  if (!options.module.empty() || !options.phase.empty()) return print_module(options, chosen->program);
  const std::string text = json                      ? graph::to_json(chosen->program) + "\n"
                           : options.format == "dot" ? graph::to_dot(chosen->program)
                                                     : graph::to_text(chosen->program);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

}  // namespace

void add_graph(Commands& commands) {
  auto options = std::make_shared<GraphOptions>();  // shared with the callback, which runs after this function
  CLI::App* command = add_subcommand(commands.app, "graph", "The neutral program of a recording, after a stage.",
                                     "crucible graph step.crtrace --stage lowered");
  command->add_option("file", options->file, "The recording (.crtrace)")->required();
  command->add_option("--stage", options->stage, "Which stage (default: the last); --stages lists them");
  command->add_flag("--stages", options->list_stages, "Lists the stages with sizes and times");
  command->add_option("--format", options->format, "text, json or dot (default text)")
      ->check(CLI::IsMember({"text", "json", "dot"}));
  command->add_option("--module", options->module, "Shows only the ops of this module and those inside, for people to read");
  command->add_option("--phase", options->phase, "Shows only this phase: forward, backward or optimizer")
      ->check(CLI::IsMember({"forward", "backward", "optimizer"}));
  command
      ->add_option("--opaque", options->opaque, "Which ops stay as recorded: missing (those without lowering) or all")
      ->check(CLI::IsMember({"missing", "all"}));
  command->add_flag("--json", options->json, "The same as --format json");
  command->callback([&commands, options] { commands.run = [options] { return graph_command(*options); }; });
}

}  // namespace crucible::cli
