// `crucible kernels`: the steps that a recording becomes, what each computes, and the C text of any of them. Which
// contractions are library calls is the backend's word when it is there.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/terminal.hpp"
#include "core/kernel/fuse/explain.hpp"
#include "core/kernel/ir/read_ir.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/switches.hpp"
#include "frontends/cli/terminal_observer.hpp"
#include "frontends/replay/device_profiles.hpp"
#include "frontends/replay/open_device.hpp"
#include "frontends/replay/read_work.hpp"
#include "frontends/replay/tuning.hpp"
#include "frontends/replay/workload.hpp"
#include "plugins/sdk/c_dialect.hpp"
#include "runtime/plan/library_calls.hpp"
#include "runtime/plan/predict.hpp"

namespace crucible::cli {
namespace {

struct KernelsOptions {
  std::string file;
  std::optional<std::uint32_t> variant;  // of several, which one
  DeviceChoice device;
  int show = -1, why = -1;
  std::string profile, tune = "kept";
  bool no_fuse = false, json = false;
};

std::string_view library_name(kernel::LibraryKind kind) {
  switch (kind) {
    case kernel::LibraryKind::kMatMul:
      return "matmul";
    case kernel::LibraryKind::kConv2d:
      return "conv2d";
    case kernel::LibraryKind::kConv2dBackwardInput:
      return "conv2d_backward_input";
    case kernel::LibraryKind::kConv2dBackwardWeight:
      return "conv2d_backward_weight";
    case kernel::LibraryKind::kAttention:
      return "attention";
    case kernel::LibraryKind::kAttentionForward:
      return "attention_forward";
    case kernel::LibraryKind::kAttentionBackward:
      return "attention_backward";
  }
  return "";
}

std::string_view epilogue_name(kernel::LibraryEpilogue epilogue) {
  switch (epilogue) {
    case kernel::LibraryEpilogue::kNone:
      return "";
    case kernel::LibraryEpilogue::kBias:
      return "+bias";
    case kernel::LibraryEpilogue::kBiasRelu:
      return "+bias+relu";
    case kernel::LibraryEpilogue::kBiasGelu:
      return "+bias+gelu";
  }
  return "";
}

/// "add*3 multiply exp": the kinds of a step's ops in order of first appearance, with their numbers.
std::string op_summary(const graph::Program& program, const kernel::Step& step) {
  std::vector<std::pair<std::string_view, int>> counts;
  for (graph::OpId op : step.ops) {
    const std::string_view kind = graph::name(program.ops[op].kind);
    auto found = std::find_if(counts.begin(), counts.end(), [&](const auto& entry) { return entry.first == kind; });
    if (found == counts.end()) {
      counts.emplace_back(kind, 1);
    } else {
      ++found->second;
    }
  }
  std::string text;
  for (const auto& [kind, count] : counts) {
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", kind, count > 1 ? fmt::format("*{}", count) : "");
  }
  return text;
}

/// The module and Python line of a step's first op.
std::string origin(const graph::Program& program, const kernel::Step& step) {
  if (step.ops.empty() || program.ops[step.ops[0]].source >= program.sources.size()) return "";
  const graph::Source& source = program.sources[program.ops[step.ops[0]].source];
  return fmt::format("{}{}{}", source.module, source.module.empty() ? "" : " ", source.site);
}

std::string step_name(const kernel::Schedule& schedule, const kernel::Step& step) {
  if (step.kind == kernel::StepKind::kLibrary)
    return fmt::format("{}{}", library_name(step.library.kind), epilogue_name(step.library.epilogue));
  return schedule.kernels[step.kernel].name;
}

nlohmann::ordered_json to_json(const graph::Program& program, const kernel::Schedule& schedule, std::size_t index) {
  const kernel::Step& step = schedule.steps[index];
  const bool launch = step.kind == kernel::StepKind::kLaunch;
  nlohmann::ordered_json json = {{"index", index},
                                 {"kind", launch ? "launch" : "library"},
                                 {"name", step_name(schedule, step)},
                                 {"ops", nlohmann::ordered_json::array()},
                                 {"buffers", step.buffers.size()},
                                 {"bytes", step.bytes},
                                 {"flops", step.flops},
                                 {"origin", origin(program, step)}};
  for (graph::OpId op : step.ops) json["ops"].push_back(graph::name(program.ops[op].kind));
  if (launch) {
    json["grid"] = step.grid;
    json["grain"] = step.grain;
  }
  return json;
}

/// What each step takes at best, by which profile.
struct Predicted {
  std::optional<hardware::DeviceProfile> profile;  // nothing: there is none for the device, and none was named
  std::vector<hardware::Prediction> steps;         // empty then
};

void print_table(const graph::Program& program, const kernel::Schedule& schedule, const std::string& library,
                 const Predicted& predicted) {
  std::vector<std::vector<std::string>> rows = {{"step", "name", "ops", "grid", "buffers", "bytes", "flops"}};
  if (predicted.profile) rows[0].insert(rows[0].end(), {"at best", "bound by"});
  rows[0].insert(rows[0].end(), {"computes", "origin"});
  double best_ns = 0;
  std::size_t launches = 0;
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const kernel::Step& step = schedule.steps[i];
    const bool launch = step.kind == kernel::StepKind::kLaunch;
    launches += launch;
    std::string summary = op_summary(program, step);
    if (summary.size() > 60) summary = summary.substr(0, 57) + "...";
    rows.push_back({std::to_string(i), step_name(schedule, step), std::to_string(step.ops.size()),
                    launch ? std::to_string(step.grid) : "-", std::to_string(step.buffers.size()),
                    format_bytes(step.bytes), fmt::format("{:.3g}", static_cast<double>(step.flops))});
    if (predicted.profile) {
      rows.back().insert(rows.back().end(),
                         {format_ns(predicted.steps[i].total_ns()), std::string(name(predicted.steps[i].bound()))});
      best_ns += predicted.steps[i].total_ns();
    }
    rows.back().insert(rows.back().end(), {std::move(summary), origin(program, step)});
  }
  print_out(
      "{}\n{} ops in {} steps: {} launches of {} kernels, {} library calls; {} values in memory. Library: {}.\n"
      "A device's plan may make one launch of several: what it does is told by crucible replay.\n",
      format_table(rows), program.ops.size(), schedule.steps.size(), launches, schedule.kernels.size(),
      schedule.steps.size() - launches, std::count(schedule.materialized.begin(), schedule.materialized.end(), true),
      library);
  if (predicted.profile) {
    print_out("An iteration takes {} at best on {} ({}{}{}).\n", format_ns(best_ns), predicted.profile->name,
              predicted.profile->source, predicted.profile->date.empty() ? "" : ", ", predicted.profile->date);
  }
}

Result<int> show_step(const graph::Program& program, const kernel::Schedule& schedule, const KernelsOptions& options) {
  if (static_cast<std::size_t>(options.show) >= schedule.steps.size()) {
    return Error{ErrorCode::kUsage,
                 fmt::format("--show {}: {} has steps 0 to {}", options.show, options.file, schedule.steps.size() - 1)};
  }
  const kernel::Step& step = schedule.steps[static_cast<std::size_t>(options.show)];
  print_out("/* step {}: {} */\n", options.show, op_summary(program, step));
  for (std::size_t i = 0; i < step.buffers.size(); ++i) {
    const graph::Value& value = program.values[step.buffers[i].value];
    print_out("/* b{}: {} %{} {}[{}] {} */\n", i, step.buffers[i].written ? "writes" : "reads ", step.buffers[i].value,
              name(value.dtype), value.elements, value.name);
  }
  if (step.kind != kernel::StepKind::kLaunch) return 0;
  const kernel::Kernel& kernel = schedule.kernels[step.kernel];
  if (kernel.is_opaque()) {
    print_out("{}", kernel.opaque);
    return 0;
  }
  CRUCIBLE_TRY(const kernel::KernelIr ir, kernel::read_ir(kernel.ir));
  print_out("{}", sdk::print_kernel(ir, sdk::dialect_c(), kernel.name));
  return 0;
}

std::string value_text(const graph::Program& program, graph::ValueId id) {
  const graph::Value& value = program.values[id];
  const auto bytes = static_cast<std::uint64_t>(value.elements) * size_bytes(value.dtype);
  return fmt::format("%{}{}{} ({}[{}], {})", id, value.name.empty() ? "" : " ", value.name, name(value.dtype),
                     value.elements, format_bytes(bytes));
}

/// The product or convolution that a step is, or begins with; nothing when it is none.
std::optional<kernel::LibraryCall> call_of(const graph::Program& program, const kernel::Step& step) {
  if (step.kind == kernel::StepKind::kLibrary && kernel::is_attention(step.library.kind))
    return std::nullopt;  // measured as none
  for (const graph::OpId op : step.ops) {
    if (auto call = kernel::library_call_of(program, program.ops[op])) return call;
  }
  return std::nullopt;
}

/// What was measured for the product or convolution of a step, without an epilogue; null when nothing was.
const runtime::Choice* choice_of(const graph::Program& program, const kernel::Step& step, runtime::Choices* choices) {
  if (choices == nullptr) return nullptr;
  const auto call = call_of(program, step);
  return call ? choices->find(*call) : nullptr;
}

/// The cuts of the step's kernel; empty where there is one way.
const std::vector<kernel::ProductCut>& cuts_of(const graph::Program& program, const kernel::Step& step,
                                               runtime::Choices& choices) {
  return choices.cuts(*call_of(program, step));
}

nlohmann::ordered_json to_json(const graph::Program& program, const kernel::Step& step, const runtime::Choice& choice,
                               runtime::Choices& choices) {
  const std::vector<kernel::ProductCut>& cuts = cuts_of(program, step, choices);
  nlohmann::ordered_json candidates = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < choice.generated_ns.size(); ++i) {
    nlohmann::ordered_json candidate = {
        {"time_ns", choice.generated_ns[i]}, {"cut", nullptr}, {"score_multiply_adds", nullptr}};
    if (i < cuts.size()) {
      candidate["cut"] = runtime::words(cuts[i]);
      candidate["score_multiply_adds"] = cuts[i].score;
    }
    candidates.push_back(std::move(candidate));
  }
  return {{"library_ns", choice.library_ns > 0 ? nlohmann::ordered_json(choice.library_ns) : nlohmann::ordered_json()},
          {"generated_ns", choice.best_generated_ns()},
          {"rounds", choice.rounds},
          {"generated", std::move(candidates)}};
}

void print_choice(const graph::Program& program, const kernel::Step& step, const runtime::Choice& choice,
                  runtime::Choices& choices) {
  print_out("runs {}: ", step.kind == kernel::StepKind::kLibrary ? "in the library" : "as a generated kernel");
  if (choice.library_ns > 0) print_out("the library took {}, ", format_ns(static_cast<double>(choice.library_ns)));
  print_out("the generated kernel {} (medians of {} rounds in turns)\n",
            format_ns(static_cast<double>(choice.best_generated_ns())), choice.rounds);
  const std::vector<kernel::ProductCut>& cuts = cuts_of(program, step, choices);
  if (cuts.size() < 2 || cuts.size() != choice.generated_ns.size()) return;
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    print_out("  {} {:<44} {:>10}   score {:.2f}\n", i == choice.best_cut() ? "*" : " ", runtime::words(cuts[i]),
              format_ns(static_cast<double>(choice.generated_ns[i])), cuts[i].score / cuts[0].score);
  }
  print_out("  score: work of the busiest thread by the model, the first cut's being 1\n");
}

/// What was fused in a step, and what was not, with the reason.
Result<int> why_step(const graph::Program& program, const kernel::Schedule& schedule, runtime::Choices* choices,
                     const KernelsOptions& options) {
  const auto index = static_cast<std::uint32_t>(options.why);
  if (index >= schedule.steps.size()) {
    return Error{ErrorCode::kUsage,
                 fmt::format("--why {}: {} has steps 0 to {}", options.why, options.file, schedule.steps.size() - 1)};
  }
  const kernel::Step& step = schedule.steps[index];
  const kernel::Explanation explanation = kernel::explain(program, schedule, index);
  if (options.json) {
    nlohmann::ordered_json json = to_json(program, schedule, index);
    json["inside"] = explanation.inside;
    json["bytes_saved"] = explanation.bytes_saved;
    json["launches_saved"] = explanation.launches_saved;
    json["apart"] = nlohmann::ordered_json::array();
    for (const kernel::Explanation::Beside& beside : explanation.apart) {
      json["apart"].push_back({{"step", beside.step},
                               {"name", step_name(schedule, schedule.steps[beside.step])},
                               {"value", beside.value},
                               {"why", kernel::words(beside.apart)}});
    }
    json["not_called"] = nullptr;
    if (const std::string_view why = kernel::words(explanation.not_called); !why.empty()) json["not_called"] = why;
    json["choice"] = nullptr;
    if (const runtime::Choice* const choice = choice_of(program, step, choices))
      json["choice"] = to_json(program, step, *choice, *choices);
    print_json(json);
    return 0;
  }
  print_out("step {}: {}\n{} ops: {}\n{}\n", index, step_name(schedule, step), step.ops.size(),
            op_summary(program, step), origin(program, step));
  print_out("fused: {} launches and {} of reads and writes less than with a kernel per op; {} values have no memory\n",
            explanation.launches_saved, format_bytes(explanation.bytes_saved), explanation.inside.size());
  if (const runtime::Choice* const choice = choice_of(program, step, choices)) {
    print_choice(program, step, *choice, *choices);
  }
  if (const std::string_view why = kernel::words(explanation.not_called); !why.empty())
    print_out("an attention, and no call of the library: {}\n", why);
  print_out("not fused with\n");
  for (const kernel::Explanation::Beside& beside : explanation.apart) {
    const kernel::Step& other = schedule.steps[beside.step];
    std::string summary = op_summary(program, other);
    if (summary.size() > 40) summary = summary.substr(0, 37) + "...";
    print_out("  step {}: {} ({}), by {}\n    {}\n", beside.step, step_name(schedule, other), summary,
              value_text(program, beside.value), kernel::words(beside.apart));
  }
  if (explanation.apart.empty()) print_out("  nothing: no other step shares a value with it\n");
  return 0;
}

/// Opens the backend for its claims. One that the user named must be there; the default one may be missing.
Result<std::shared_ptr<backend::Device>> open_for_claims(const KernelsOptions& options, const graph::Program& program,
                                                         std::string& library,
                                                         std::optional<config::Settings>& settings) {
  library = "none, all kernels generated";
  if (options.device.backend == "none") return std::shared_ptr<backend::Device>();
  Result<OpenedDevice> opened =
      open_device(options.device, terminal(), [&] { return workload_of(program, !options.no_fuse); });
  if (opened) {
    const backend::Backend& backend = opened->device->backend();
    library = fmt::format("as {} {} claims", backend.name(), backend.version());
    settings = std::move(opened->settings);
    return std::move(opened->device);
  }
  if (is_backend_named(options.device) || opened.error().code != ErrorCode::kUnavailable) return opened.error();
  return std::shared_ptr<backend::Device>();
}

Result<int> kernels(const KernelsOptions& options) {
  CRUCIBLE_TRY(Work work, read_work(options.file));
  CRUCIBLE_TRY(const std::shared_ptr<const graph::Program> chosen,
               graph::choose_variant(*work.variants, options.variant));
  graph::Program program = *chosen;
  std::string library;
  std::optional<config::Settings> settings;
  CRUCIBLE_TRY(const std::shared_ptr<backend::Device> device, open_for_claims(options, program, library, settings));
  runtime::LibraryClaims claims(device);
  kernel::Options schedule_options{.claims = nullptr,
                                   .fuse = !options.no_fuse,
                                   .numerics = numerics_of(load_unchecked_settings(options.device, terminal())),
                                   .device = {}};
  CRUCIBLE_TRY(const Tuned tuned,
               tune(options.tune, {&chosen, 1}, device, !options.no_fuse, schedule_options.numerics, terminal()));
  if (device) {
    schedule_options.device = runtime::shape_of(*device);
    runtime::ask(schedule_options, claims, tuned.choices.get());
  }
  CRUCIBLE_TRY(kernel::Prepared prepared, kernel::prepare(program, schedule_options));
  if (prepared.program) program = *std::move(prepared.program);
  const kernel::Schedule& schedule = prepared.schedule;
  if (!settings) {  // without a device only a name counts; its backend need not be there
    DeviceChoice no_device;
    no_device.sets = options.device.sets;
    CRUCIBLE_TRY(settings, load_settings(no_device, terminal()));
  }
  Predicted predicted;
  CRUCIBLE_TRY(predicted.profile, profile_of_device(*settings, options.profile, device.get()));
  if (predicted.profile) predicted.steps = runtime::predict_steps(program, schedule, *predicted.profile);
  if (options.show >= 0) return show_step(program, schedule, options);
  if (options.why >= 0) return why_step(program, schedule, tuned.choices.get(), options);
  if (!options.json) {
    print_table(program, schedule, library, predicted);
    return 0;
  }
  nlohmann::ordered_json document = {{"file", options.file},
                                     {"ops", program.ops.size()},
                                     {"library", library},
                                     {"steps", schedule.steps.size()},
                                     {"texts", schedule.kernels.size()},
                                     {"device_profile", nullptr},
                                     {"kernels", nlohmann::ordered_json::array()}};
  if (predicted.profile) {
    document["device_profile"] = {
        {"name", predicted.profile->name}, {"source", predicted.profile->source}, {"date", predicted.profile->date}};
  }
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    nlohmann::ordered_json row = to_json(program, schedule, i);
    if (predicted.profile) {
      const hardware::Prediction& prediction = predicted.steps[i];
      row["predicted_ns"] = prediction.total_ns();
      row["memory_ns"] = prediction.memory_ns;
      row["compute_ns"] = prediction.compute_ns;
      row["launch_ns"] = prediction.launch_ns;
      row["bound"] = name(prediction.bound());
    }
    document["kernels"].push_back(std::move(row));
  }
  print_json(document);
  return 0;
}

}  // namespace

void add_kernels(Commands& commands) {
  auto options = std::make_shared<KernelsOptions>();  // shared with the callback, which runs after this function
  CLI::App* command = add_reading_subcommand(commands.app, "kernels",
                                             "The kernels and library calls that a recording becomes, and their text.",
                                             "crucible kernels step.crtrace --show 12");
  command->add_option("FILE", options->file, "the recording (.crtrace), or a capsule")->required();
  command->add_option("--variant", options->variant, "where iterations differ: which of their programs, from 0");
  command->add_option("--show", options->show, "print the C text of this step")->check(CLI::NonNegativeNumber);
  CLI::Option* no_fuse = command->add_flag("--no-fuse", options->no_fuse, "one kernel per op");
  command->add_option("--why", options->why, "say what was fused in this step, what was not, and for which reason")
      ->check(CLI::NonNegativeNumber)
      ->excludes(no_fuse);
  add_tune_switch(*command, options->tune, false);
  add_device_switches(*command, options->device);
  add_numerics_switch(*command, options->device);
  command->get_option("--backend")
      ->description("whose library is asked (default as replay; none: generate everything)");
  command->add_option("--device-profile", options->profile,
                      "say what each step takes at best on this device: a name (crucible devices --profiles) or a "
                      "file; default: the one "
                      "calibrated on the device that is here");
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options, &commands] { commands.run = [options] { return kernels(*options); }; });
}

}  // namespace crucible::cli
