// `crucible graph`: the neutral program of a recording, after the lowering or after a pass, as text, in binary form, as
// JSON or a drawing; or a program that was written so before. It shows what the library functions made; no stage exists
// only here.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/terminal.hpp"
#include "core/graph/binary.hpp"
#include "core/graph/passes.hpp"
#include "core/graph/print.hpp"
#include "core/graph/program_hash.hpp"
#include "core/merkle/print.hpp"
#include "core/trace/trace_file.hpp"
#include "frontends/aten/lower.hpp"
#include "frontends/aten/recording/branches.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/program_file.hpp"
#include "frontends/cli/text_sink.hpp"
#include "frontends/cli/variants_text.hpp"

namespace crucible::cli {
namespace {

struct GraphOptions {
  std::string file, stage, format = "text", module, phase, output, opaque = "missing";
  bool list_stages = false, list_variants = false, list_regions = false, json = false;
  unsigned levels = 0;
  std::optional<std::uint32_t> variant;  // of several, which one
};

/// What a stage did and how large it left the program.
struct Stage {
  std::string name, description, hash;
  std::size_t ops = 0, values = 0, operands = 0;
  std::uint64_t temporary_bytes = 0, time_ns = 0;
};

struct Pipeline {
  std::uint64_t read_ns = 0,
                total_ns = 0;  // of the file; of everything, with the checks after each stage, without hashes
  std::vector<Stage> stages;
  std::optional<graph::Program> chosen;  // the program after the stage that was asked for
};

std::uint64_t temporary_bytes(const graph::Program& program) {
  std::uint64_t total = 0;
  for (const graph::Value& value : program.values) {
    if (value.kind != graph::ValueKind::kTemporary) continue;
    total += static_cast<std::uint64_t>(value.elements) * size_bytes(value.dtype);
  }
  return total;
}

std::uint64_t ns_since(std::chrono::steady_clock::time_point begin) {
  const auto time = std::chrono::steady_clock::now() - begin;
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}

/// Takes the file through all stages and keeps one program: that of the stage `--stage`, or the last one.
class StageRunner {
 public:
  explicit StageRunner(const GraphOptions& options) : options_(options) {}

  Result<Pipeline> run() {
    const auto begin = std::chrono::steady_clock::now();
    CRUCIBLE_TRY(const trace::Trace trace, trace::read_file(options_.file));
    for (const trace::Blob& blob : trace.blobs) blobs_.push_back(blob.hash);
    pipeline_.read_ns = ns_since(begin);
    const auto lowering = std::chrono::steady_clock::now();
    const aten::Opaques opaques = options_.opaque == "all" ? aten::Opaques::kAll : aten::Opaques::kMissing;
    CRUCIBLE_TRY(const graph::Variants variants, aten::lower_variants_without_passes(trace, opaques));
    CRUCIBLE_TRY(const std::shared_ptr<const graph::Program> chosen, graph::choose_variant(variants, options_.variant));
    graph::Program program = *chosen;
    note("lowered", "neutral ops and composites in recorded order, aliases resolved", program, ns_since(lowering));
    CRUCIBLE_TRY_VOID(
        graph::run_passes(program, {.blobs = trace.blob_store.get()},
                          [&](const graph::Pass& pass, const graph::Program& after, std::uint64_t time_ns) {
                            note(pass.name, pass.description, after, time_ns);
                          }));
    pipeline_.total_ns = ns_since(begin) - noting_ns_;
    if (options_.stage.empty()) pipeline_.chosen = std::move(program);
    return std::move(pipeline_);
  }

 private:
  void note(std::string_view name, std::string_view description, const graph::Program& program, std::uint64_t time_ns) {
    const auto begin = std::chrono::steady_clock::now();
    Stage stage{
        std::string(name), std::string(description), "", program.ops.size(), program.values.size(), 0, 0, time_ns};
    if (options_.list_stages) {
      for (const graph::Op& op : program.ops) stage.operands += op.inputs.size();
      stage.temporary_bytes = temporary_bytes(program);
      stage.hash = graph::program_hash(program, blobs_).hex();
    }
    if (name == options_.stage) pipeline_.chosen = program;
    pipeline_.stages.push_back(std::move(stage));
    noting_ns_ += ns_since(begin);
  }

  const GraphOptions& options_;
  std::vector<ContentHash> blobs_;
  Pipeline pipeline_;
  std::uint64_t noting_ns_ = 0;
};

void print_stages(const Pipeline& pipeline, bool json) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  std::vector<std::vector<std::string>> rows = {
      {"stage", "ops", "values", "operands", "temporaries", "time", "hash", "what it does"}};
  for (const Stage& stage : pipeline.stages) {
    list.push_back({{"stage", stage.name},
                    {"ops", stage.ops},
                    {"values", stage.values},
                    {"operands", stage.operands},
                    {"temporary_bytes", stage.temporary_bytes},
                    {"time_ns", stage.time_ns},
                    {"hash", stage.hash},
                    {"description", stage.description}});
    rows.push_back({stage.name, fmt::format("{}", stage.ops), fmt::format("{}", stage.values),
                    fmt::format("{}", stage.operands), format_bytes(stage.temporary_bytes),
                    format_ns(static_cast<double>(stage.time_ns)), stage.hash.substr(0, 12), stage.description});
  }
  if (json) {
    return print_json(
        nlohmann::ordered_json{{"read_ns", pipeline.read_ns}, {"total_ns", pipeline.total_ns}, {"stages", list}});
  }
  print_text(format_table(rows));
  print_out("reading the file {}; all of it, with a check after each stage, {}\n",
            format_ns(static_cast<double>(pipeline.read_ns)), format_ns(static_cast<double>(pipeline.total_ns)));
}

Error no_ops_shown(const GraphOptions& options, const graph::Program& program) {
  auto names = graph::module_names(program);
  const std::size_t count = names.size();
  names.resize(std::min<std::size_t>(count, 40));
  return Error{ErrorCode::kUsage, fmt::format("no op came from the module '{}'{}; the modules are {}{}", options.module,
                                              options.phase.empty() ? "" : " in the phase " + options.phase,
                                              fmt::join(names, ", "), count > names.size() ? ", ..." : "")};
}

/// The text in the format that was asked for. Errors: kUsage where a format does not show parts, or there are none to
/// show.
Result<std::string> shown(const GraphOptions& options, const graph::Program& program) {
  graph::ModuleText what{options.module, std::nullopt};
  if (!options.phase.empty()) {
    what.phase = options.phase == "forward"    ? graph::Phase::kForward
                 : options.phase == "backward" ? graph::Phase::kBackward
                                               : graph::Phase::kOptimizer;
  }
  const bool part = !options.module.empty() || what.phase;
  const std::string format = options.json ? "json" : options.format;
  if (part && format != "text" && format != "svg") {
    return Error{ErrorCode::kUsage,
                 "--module and --phase choose what the text or the drawing shows: use --format text or svg"};
  }
  if (format == "binary" && options.output.empty() && isatty(1) == 1) {
    return Error{ErrorCode::kUsage,
                 "the binary form is not for a terminal: give a file with -o, or send the output to one"};
  }
  if (part) {
    bool any = false;
    for (graph::OpId op = 0; op < program.ops.size() && !any; ++op) any = graph::is_shown(program, op, what);
    if (!any) return no_ops_shown(options, program);
  }
  if (format == "binary") {
    const auto bytes = graph::to_binary(program);
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  if (format == "json") return graph::to_json(program) + "\n";
  if (format == "dot") return graph::to_dot(program);
  if (format == "svg") return graph::to_svg(program, what);
  return part ? graph::module_text(program, what) : graph::to_text(program);
}

Result<int> write_text(const GraphOptions& options, std::string_view text) {
  CRUCIBLE_TRY(TextSink sink, TextSink::open(options.output));
  sink.append(text);
  CRUCIBLE_TRY_VOID(sink.finish());
  return 0;
}

Result<int> show_variants(const GraphOptions& options, const graph::Variants& variants,
                          const graph::Branches& branches) {
  const std::string format = options.json ? "json" : options.format;
  if (format == "json") return write_text(options, json_text(variants_document(variants, branches)));
  if (format == "svg") return write_text(options, variants_svg(variants, branches));
  if (format == "text") return write_text(options, variants_text(variants, branches));
  return Error{
      ErrorCode::kUsage,
      fmt::format("--variants lists programs, and --format {} is a form of one: use text, json or svg, or choose "
                  "one program with --variant N",
                  format)};
}

Result<int> show_regions(const GraphOptions& options) {
  if (!options.stage.empty() || options.list_stages || options.list_variants || !options.module.empty() ||
      !options.phase.empty()) {
    return Error{ErrorCode::kUsage,
                 "--regions shows the whole program after its last stage: leave out --stage, --stages, "
                 "--variants, --module and --phase; --levels N shows less"};
  }
  CRUCIBLE_TRY(const merkle::RegionTree tree, read_regions(options.file, options.variant));
  const std::string format = options.json ? "json" : options.format;
  if (format == "json") return write_text(options, merkle::to_json(tree));
  if (format == "svg") return write_text(options, merkle::to_svg(tree, options.levels));
  if (format == "text") return write_text(options, merkle::to_text(tree, options.levels));
  return Error{ErrorCode::kUsage, fmt::format("--regions has no form {}: use text, json or svg", format)};
}

Result<int> graph_command(const GraphOptions& options) {
  if (options.list_regions) return show_regions(options);
  if (options.levels != 0) return Error{ErrorCode::kUsage, "--levels goes with --regions"};
  CRUCIBLE_TRY(auto program, read_program(options.file));
  if (program && (options.list_stages || !options.stage.empty())) {
    return Error{ErrorCode::kUsage, options.file + " is a program, which has no stages; its recording has them"};
  }
  if (options.list_variants) {
    if (program) return Error{ErrorCode::kUsage, options.file + " is a program, one: its recording has variants"};
    CRUCIBLE_TRY(const trace::Trace trace, trace::read_file(options.file));
    CRUCIBLE_TRY(const graph::Variants variants, aten::lower_variants(trace, aten::Opaques::kMissing));
    return show_variants(options, variants, aten::find_branches(trace, variants));
  }
  Pipeline pipeline;
  if (program) {
    pipeline.chosen = std::move(program);
  } else {
    CRUCIBLE_TRY(pipeline, StageRunner(options).run());
  }
  if (options.list_stages) {
    print_stages(pipeline, options.json || options.format == "json");
    return 0;
  }
  if (!pipeline.chosen) {
    std::vector<std::string> names;
    for (const Stage& stage : pipeline.stages) names.push_back(stage.name);
    return Error{ErrorCode::kUsage,
                 fmt::format("there is no stage '{}'; the stages are {}", options.stage, fmt::join(names, ", "))};
  }
  CRUCIBLE_TRY(const std::string text, shown(options, *pipeline.chosen));
  return write_text(options, text);
}

}  // namespace

void add_graph(Commands& commands) {
  auto options = std::make_shared<GraphOptions>();  // shared with the callback, which runs after this function
  CLI::App* command = add_reading_subcommand(
      commands.app, "graph", "The neutral program of a recording, after a stage; or a program in another form.",
      "crucible graph step.crtrace --stage lowered");
  command
      ->add_option("file", options->file, "The recording (.crtrace), or a program that --format text or binary wrote")
      ->required();
  command->add_option("--variant", options->variant, "Where iterations differ: which of their programs, from 0");
  command->add_flag(
      "--variants", options->list_variants,
      "Lists the programs of iterations that differ, their order and what decides; --format svg draws it");
  command->add_flag(
      "--regions", options->list_regions,
      "Lists the regions, by phase and module, with their hashes: equal ones have equal content; --format "
      "svg draws them");
  command->add_option("--levels", options->levels, "How deep --regions goes: 1 is phases (default: all)");
  command->add_option("--stage", options->stage, "Which stage (default: the last); --stages lists them");
  command->add_flag("--stages", options->list_stages, "Lists the stages with sizes and times");
  command->add_option("--format", options->format, "text, binary, json, dot or svg (default text)")
      ->check(CLI::IsMember({"text", "binary", "json", "dot", "svg"}));
  command->add_option("-o,--output", options->output, "The file to write (default: standard output)");
  command->add_option("--module", options->module,
                      "Shows only the ops of this module and those inside, for people to read");
  command->add_option("--phase", options->phase, "Shows only this phase: forward, backward or optimizer")
      ->check(CLI::IsMember({"forward", "backward", "optimizer"}));
  command
      ->add_option("--opaque", options->opaque, "Which ops stay as recorded: missing (those without lowering) or all")
      ->check(CLI::IsMember({"missing", "all"}));
  command->add_flag("--json", options->json, "The same as --format json");
  command->callback([&commands, options] { commands.run = [options] { return graph_command(*options); }; });
}

}  // namespace crucible::cli
