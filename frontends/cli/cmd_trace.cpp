// `crucible trace info|ops|check FILE`: what is in a recording, every op of it, and whether the file is whole.
// Reads files only; what ops mean is the lowering's business (crucible graph).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/trace/summary.hpp"
#include "core/trace/text.hpp"
#include "core/trace/trace_file.hpp"
#include "frontends/cli/command.hpp"

namespace crucible::cli {

namespace {

using nlohmann::ordered_json;
using trace::Arg;
using trace::Op;
using trace::Trace;

struct TraceOptions {
  std::string file;
  bool json = false;
  bool all = false;
  bool summary = false;
  std::optional<std::uint32_t> iteration;
};

void print_text(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

std::string plural(std::uint64_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// --- info ---

ordered_json info_json(const TraceOptions& options, const Trace& trace, const trace::FileLayout& layout) {
  const trace::Summary summary = trace::summarize(trace);
  ordered_json document;
  document["file"] = options.file;
  document["format_version"] = fmt::format("{}.{}", layout.major, layout.minor);
  document["file_bytes"] = layout.file_bytes;
  document["framework"] = trace.metadata.framework;
  document["frontend"] = trace.metadata.frontend;
  document["device"] = trace.metadata.device;
  document["command"] = trace.metadata.command;
  document["created"] = trace.metadata.created;
  document["warmup_iterations"] = trace.metadata.warmup_iterations;
  document["iterations"] = summary.iterations;
  document["complete_iterations"] = summary.complete_iterations;
  document["incomplete_reason"] = trace.metadata.incomplete_reason;
  document["ops"] = summary.ops;
  document["ops_per_iteration"] = summary.ops_per_iteration;
  document["unique_ops"] = summary.unique_ops;
  document["slots"] = summary.slots ? ordered_json(*summary.slots) : ordered_json(nullptr);
  if (!summary.slots) document["no_slots_reason"] = summary.no_slots_reason;
  document["tensors"] = trace.tensors.size();
  document["storages"] = trace.storages.size();
  document["draws"] = trace.draws.size();
  document["final_states"] = trace.final_states.size();
  document["external_bytes"] = summary.external_bytes;
  document["blobs"] = trace.blobs.size();
  document["blob_bytes"] = summary.blob_bytes;
  for (const trace::Role role : trace::kRoles) {
    const auto& of_role = summary.externals[static_cast<std::size_t>(role)];
    document["externals"][std::string(name(role))] = {{"count", of_role.count}, {"bytes", of_role.size_bytes}};
  }
  document["overhead_ns_per_op"] = trace.metadata.overhead_ns_per_op;
  document["not_recorded"] = ordered_json::array();
  for (const trace::NotRecorded& item : trace.not_recorded) {
    document["not_recorded"].push_back(
        {{"what", item.what}, {"count", item.count}, {"site", trace.site_text(item.site)}});
  }
  return document;
}

/// "1200 per iteration", or "1200, 1198, 1200 per iteration" where they differ.
std::string ops_text(const std::vector<std::uint32_t>& counts) {
  if (counts.empty()) return "none";
  if (std::ranges::count(counts, counts.front()) == static_cast<std::ptrdiff_t>(counts.size()))
    return fmt::format("{} per iteration", counts.front());
  return fmt::format("{} per iteration", fmt::join(counts, ", "));
}

std::string info_text(const TraceOptions& options, const Trace& trace, const trace::FileLayout& layout) {
  const trace::Summary summary = trace::summarize(trace);
  const trace::Metadata& metadata = trace.metadata;
  std::string text;
  const auto line = [&text](const char* label, const std::string& value) {
    if (!value.empty()) text += fmt::format("{:<13} {}\n", label, trace::printable(value));
  };
  line("file", fmt::format("{}  ({}, format {}.{})", options.file, format_bytes(layout.file_bytes), layout.major,
                           layout.minor));
  line("recorded by", metadata.frontend);
  line("framework", metadata.framework);
  line("device", metadata.device);
  line("command", metadata.command);
  line("created", metadata.created);
  line("iterations", fmt::format("{} after {} of warm-up, {} complete", summary.iterations, metadata.warmup_iterations,
                                 summary.complete_iterations));
  line("incomplete", metadata.incomplete_reason);
  line("ops", fmt::format("{}, {} different", ops_text(summary.ops_per_iteration), summary.unique_ops));
  line("slots", summary.slots ? fmt::format("{} (scalar arguments that differ between iterations)", *summary.slots)
                              : "unknown: " + summary.no_slots_reason);
  line("tensors", fmt::format("{} in {}", trace.tensors.size(), plural(trace.storages.size(), "storage")));
  line("externals", fmt::format("{}, {}; {} of different content", trace.externals.size(),
                                format_bytes(summary.external_bytes), format_bytes(summary.blob_bytes)));
  for (const trace::Role role : trace::kRoles) {
    const auto& of_role = summary.externals[static_cast<std::size_t>(role)];
    if (of_role.count > 0)
      line("", fmt::format("{:<15} {:>5}  {:>9}", name(role), of_role.count, format_bytes(of_role.size_bytes)));
  }
  line("draws", trace.draws.empty() ? "" : plural(trace.draws.size(), "random result"));
  line("final states", std::to_string(trace.final_states.size()));
  if (metadata.overhead_ns_per_op > 0) line("overhead", fmt::format("{} ns per op", metadata.overhead_ns_per_op));
  line("not recorded", trace.not_recorded.empty() ? "nothing" : "");
  for (const trace::NotRecorded& item : trace.not_recorded) {
    line("not recorded", fmt::format("{} ({} x{})", item.what, item.count,
                                     item.site == trace::kNone ? "" : ", first at " + trace.site_text(item.site)));
  }
  return text;
}

Result<int> run_info(const TraceOptions& options) {
  CRUCIBLE_TRY(const trace::FileLayout layout, trace::read_layout(options.file));
  CRUCIBLE_TRY(const Trace trace, trace::read_file(options.file));
  if (options.json)
    print_json(info_json(options, trace, layout));
  else
    print_text(info_text(options, trace, layout));
  return 0;
}

// --- ops ---

/// JSON has no NaN and no infinity: they are texts.
ordered_json number_json(double number) {
  if (std::isfinite(number)) return number;
  return trace::double_text(number);
}

ordered_json arg_json(const Trace& trace, const Arg& arg) {
  switch (arg.kind) {
    case Arg::Kind::kNone:
    case Arg::Kind::kUndefinedTensor:
      return nullptr;
    case Arg::Kind::kBool:
      return arg.integer != 0;
    case Arg::Kind::kInt:
      return arg.integer;
    case Arg::Kind::kDouble:
      return number_json(arg.real);
    case Arg::Kind::kComplex:
      return {{"real", number_json(arg.real)}, {"imaginary", number_json(arg.imaginary)}};
    case Arg::Kind::kString:
      return arg.text;
    case Arg::Kind::kDType:
    case Arg::Kind::kDevice:
    case Arg::Kind::kLayout:
    case Arg::Kind::kMemoryFormat:
    case Arg::Kind::kGenerator:
    case Arg::Kind::kOpaque:
      return trace::arg_text(trace, arg);
    case Arg::Kind::kTensor: {
      const trace::Tensor& tensor = trace.tensors[arg.tensor];
      ordered_json storage = tensor.storage == trace::kNone ? ordered_json(nullptr) : ordered_json(tensor.storage);
      return {{"tensor", arg.tensor},      {"dtype", name(tensor.dtype)}, {"sizes", tensor.sizes},
              {"strides", tensor.strides}, {"offset", tensor.offset},     {"storage", std::move(storage)}};
    }
    case Arg::Kind::kList: {
      ordered_json list = ordered_json::array();
      for (const Arg& element : arg.list) list.push_back(arg_json(trace, element));
      return list;
    }
  }
  return nullptr;
}

std::string module_text(const Trace& trace, trace::ModuleId id) {
  return id == trace::kNone ? "" : trace::printable(trace.modules[id]);
}

ordered_json op_json(const Trace& trace, std::size_t iteration, std::uint32_t index) {
  const Op& op = trace.ops[index];
  const trace::Schema& schema = trace.schemas[op.schema];
  const std::vector<std::string> names = trace::argument_names(schema.text);
  ordered_json document = {{"op", index},
                           {"iteration", iteration},
                           {"phase", name(op.phase)},
                           {"thread", op.thread},
                           {"module", op.module == trace::kNone ? "" : trace.modules[op.module]},
                           {"site", trace.site_text(op.site)},
                           {"schema", schema.full_name()}};
  document["args"] = ordered_json::array();
  for (std::size_t i = 0; i < op.args.size(); ++i) {
    document["args"].push_back({{"name", i < names.size() ? names[i] : ""}, {"value", arg_json(trace, op.args[i])}});
  }
  document["outputs"] = ordered_json::array();
  for (const Arg& output : op.outputs) document["outputs"].push_back(arg_json(trace, output));
  return document;
}

/// The iterations that the options ask for.
Result<std::vector<std::uint32_t>> chosen_iterations(const TraceOptions& options, const Trace& trace) {
  std::vector<std::uint32_t> chosen;
  if (options.all) {
    for (std::uint32_t i = 0; i < trace.iterations.size(); ++i) chosen.push_back(i);
    return chosen;
  }
  const std::uint32_t number = options.iteration.value_or(0);
  if (number >= trace.iterations.size()) {
    return Error{ErrorCode::kUsage, trace.iterations.empty()
                                        ? fmt::format("{} has no iterations", options.file)
                                        : fmt::format("{} has no iteration {}: it has {}, counted from 0", options.file,
                                                      number, trace.iterations.size())};
  }
  chosen.push_back(number);
  return chosen;
}

void print_op_lines(const Trace& trace, const std::vector<std::uint32_t>& iterations) {
  std::size_t site_width = 1, module_width = 1;
  for (const Op& op : trace.ops) {
    site_width = std::max(site_width, trace::printable(trace.site_text(op.site)).size());
    module_width = std::max(module_width, module_text(trace, op.module).size());
  }
  for (const std::uint32_t number : iterations) {
    const trace::Iteration& iteration = trace.iterations[number];
    print_text(fmt::format("iteration {}: {}{}\n", number, plural(iteration.op_count, "op"),
                           iteration.complete ? "" : ", incomplete"));
    for (std::uint32_t index = iteration.first_op; index < iteration.first_op + iteration.op_count; ++index) {
      const Op& op = trace.ops[index];
      print_text(fmt::format("{:>6}  {:<9}  {:<{}}  {:<{}}  {}\n", index, name(op.phase), module_text(trace, op.module),
                             module_width, trace::printable(trace.site_text(op.site)), site_width,
                             trace::op_text(trace, op)));
    }
  }
}

/// How often each op occurs, most frequent first, with its share of the three phases.
struct OpCount {
  std::string schema;
  std::uint64_t total = 0, by_phase[3] = {0, 0, 0};
};

std::vector<OpCount> count_ops(const Trace& trace, const std::vector<std::uint32_t>& iterations) {
  std::map<trace::SchemaId, OpCount> counts;
  for (const std::uint32_t number : iterations) {
    const trace::Iteration& iteration = trace.iterations[number];
    for (std::uint32_t index = iteration.first_op; index < iteration.first_op + iteration.op_count; ++index) {
      OpCount& count = counts[trace.ops[index].schema];
      ++count.total;
      ++count.by_phase[static_cast<int>(trace.ops[index].phase)];
    }
  }
  std::vector<OpCount> sorted;
  for (auto& [schema, count] : counts) {
    count.schema = trace.schemas[schema].full_name();
    sorted.push_back(count);
  }
  std::ranges::sort(sorted, [](const OpCount& a, const OpCount& b) {
    return a.total != b.total ? a.total > b.total : a.schema < b.schema;
  });
  return sorted;
}

void print_op_counts(const TraceOptions& options, const std::vector<OpCount>& counts) {
  if (options.json) {
    ordered_json document = {{"file", options.file}, {"counts", ordered_json::array()}};
    for (const OpCount& count : counts) {
      document["counts"].push_back({{"schema", count.schema},
                                    {"count", count.total},
                                    {"forward", count.by_phase[0]},
                                    {"backward", count.by_phase[1]},
                                    {"optimizer", count.by_phase[2]}});
    }
    return print_json(document);
  }
  std::vector<std::vector<std::string>> rows = {{"count", "forward", "backward", "optimizer", "op"}};
  for (const OpCount& count : counts) {
    rows.push_back({std::to_string(count.total), std::to_string(count.by_phase[0]), std::to_string(count.by_phase[1]),
                    std::to_string(count.by_phase[2]), trace::printable(count.schema)});
  }
  print_text(format_table(rows));
}

Result<int> run_ops(const TraceOptions& options) {
  CRUCIBLE_TRY(const Trace trace, trace::read_file(options.file));
  CRUCIBLE_TRY(const std::vector<std::uint32_t> iterations, chosen_iterations(options, trace));
  if (options.summary) {
    print_op_counts(options, count_ops(trace, iterations));
    return 0;
  }
  if (!options.json) {
    print_op_lines(trace, iterations);
    return 0;
  }
  ordered_json document = {{"file", options.file}, {"ops", ordered_json::array()}};
  for (const std::uint32_t number : iterations) {
    const trace::Iteration& iteration = trace.iterations[number];
    for (std::uint32_t i = 0; i < iteration.op_count; ++i)
      document["ops"].push_back(op_json(trace, number, iteration.first_op + i));
  }
  print_json(document);
  return 0;
}

// --- check ---

Result<int> run_check(const TraceOptions& options) {
  CRUCIBLE_TRY_VOID(trace::check_file(options.file));
  CRUCIBLE_TRY(const trace::FileLayout layout, trace::read_layout(options.file));
  CRUCIBLE_TRY(const Trace trace, trace::read_file(options.file));
  if (options.json) {
    ordered_json document = {
        {"file", options.file}, {"ok", true}, {"blobs", trace.blobs.size()}, {"file_bytes", layout.file_bytes}};
    document["sections"] = ordered_json::array();
    for (const auto& section : layout.sections) {
      document["sections"].push_back(
          {{"name", section.name}, {"stored_bytes", section.stored_bytes}, {"raw_bytes", section.raw_bytes}});
    }
    print_json(document);
  } else {
    print_text(fmt::format("ok: {}, {}, {} bytes\n", plural(layout.sections.size(), "section"),
                           plural(trace.blobs.size(), "blob"), layout.file_bytes));
  }
  return 0;
}

CLI::App* add_file_command(CLI::App& parent, const std::shared_ptr<TraceOptions>& options, Commands& commands,
                           const char* name, const char* description, const char* example,
                           Result<int> (*run)(const TraceOptions&)) {
  CLI::App* command = add_subcommand(parent, name, description, example);
  command->add_option("FILE", options->file, "the .crtrace file")->required();
  command->add_flag("--json", options->json, "print one JSON document");
  command->callback([&commands, options, run] { commands.run = [options, run] { return run(*options); }; });
  return command;
}

}  // namespace

void add_trace(Commands& commands) {
  const auto options = std::make_shared<TraceOptions>();  // shared: the parser's callbacks outlive this function
  CLI::App* parent =
      add_subcommand(commands.app, "trace", "Shows and checks recordings.", "crucible trace info step.crtrace");
  parent->require_subcommand(1);
  add_file_command(*parent, options, commands, "info", "What is in a recording.",
                   "crucible trace info step.crtrace --json", run_info);
  CLI::App* ops = add_file_command(*parent, options, commands, "ops", "Every op of one iteration, with its arguments.",
                                   "crucible trace ops step.crtrace --iteration 2", run_ops);
  CLI::Option* all = ops->add_flag("--all", options->all, "all iterations");
  ops->add_option("--iteration", options->iteration, "which iteration, from 0 (default: 0)")->excludes(all);
  ops->add_flag("--summary", options->summary, "how often each op occurs instead of the ops");
  add_file_command(*parent, options, commands, "check",
                   "Reads the whole file and compares every checksum and content hash.",
                   "crucible trace check step.crtrace", run_check);
  add_trace_recover(commands, *parent);
}

}  // namespace crucible::cli
