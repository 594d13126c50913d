#include "frontends/replay/receipt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/hash.hpp"
#include "core/graph/opaque.hpp"
#include "core/trace/mapped_file.hpp"
#include "core/trace/reservations.hpp"
#include "frontends/replay/plugin_access.hpp"
#include "runtime/measure/choices.hpp"

namespace crucible::replay {
namespace {

using Json = nlohmann::ordered_json;

bool is_contraction(graph::OpKind kind) {
  return kind == graph::OpKind::kMatMul || kind == graph::OpKind::kConv2d ||
         kind == graph::OpKind::kConv2dBackwardInput || kind == graph::OpKind::kConv2dBackwardWeight;
}

/// The device's own words; nothing when it has none.
backend::Properties properties_of(const backend::Device& device) {
  Result<backend::Properties> properties = device.properties();
  return properties ? *std::move(properties) : backend::Properties{};
}

std::string property(const backend::Properties& properties, std::string_view name) {
  for (const auto& [key, value] : properties) {
    if (key == name) return value;
  }
  return "";
}

/// Of the file as it is now; null when it cannot be read any more.
Json digest_of(const std::filesystem::path& path) {
  const Result<trace::MappedFile> file = trace::MappedFile::open(path);
  return file ? Json(sha256(file->bytes()).hex()) : Json(nullptr);
}

/// Steps that ran on another device, and what crossed.
Json elsewhere_json(const ReplayReport& report) {
  const runtime::FallbackReport& elsewhere = report.session.fallback();
  Json json = {{"policy", report.opened.settings.text("fallback")}};
  json["instead_of"] = nullptr;
  if (!report.opened.asked_for.empty()) {
    json["instead_of"] = {{"backend", report.opened.asked_for}, {"reason", report.opened.asked_error}};
  }
  json["device"] = elsewhere.device ? Json(elsewhere.device->info().id) : Json(nullptr);
  json["steps"] = Json::array();
  for (const runtime::RefusedStep& step : elsewhere.steps) {
    json["steps"].push_back({{"step", step.step}, {"ops", step.ops}, {"source", step.source}, {"reason", step.reason}});
  }
  json["copies_per_iteration"] = elsewhere.copies_per_iteration;
  json["copied_bytes_per_iteration"] = elsewhere.bytes_per_iteration;
  json["segments"] = elsewhere.segments;
  return json;
}

/// Devices that were lost, and where the run went on.
Json lost_json(const ReplayReport& report) {
  Json rows = Json::array();
  for (const runtime::DeviceLoss& loss : report.losses) {
    Json row = {{"device", loss.device}, {"name", loss.name}};
    row["iteration"] = loss.iteration == graph::kNone ? Json(nullptr) : Json(loss.iteration);
    row["when"] = loss.when;
    row["reason"] = loss.reason;
    row["went_on"] = loss.went_on;
    row["from_iteration"] = loss.from_iteration;
    row["repeated_iterations"] = loss.repeated;
    rows.push_back(std::move(row));
  }
  return rows;
}

/// What it cost to be ready for a loss.
Json kept_json(const ReplayReport& report) {
  Json json = {
      {"every", report.keep_every}, {"times", report.kept.times}, {"bytes", report.kept.bytes}, {"ns", report.kept.ns}};
  return json;
}

/// Each opaque op of the program, with who ran it.
Json opaque_json(const ReplayReport& report) {
  const runtime::FallbackReport& elsewhere = report.session.fallback();
  Json ops = Json::array();
  for (const graph::OpaqueUse& use : graph::opaque_uses(report.program())) {
    ops.push_back(
        {{"op", use.name}, {"count", use.count}, {"module", use.module}, {"site", use.site}, {"why", use.reason}});
  }
  Json json = {{"device", nullptr}, {"ops", ops}};
  if (ops.empty() || report.device == nullptr) return json;
  const backend::Device* by = report.device->takes_opaque() ? report.device : elsewhere.device.get();
  if (by != nullptr) json["device"] = by->info().id;
  return json;
}

Json candidates_json(const std::vector<Candidate>& candidates) {
  Json rows = Json::array();
  for (const Candidate& candidate : candidates) {
    rows.push_back({{"plugin", candidate.plugin},
                    {"device", candidate.device},
                    {"score", candidate.scored ? Json(candidate.score) : Json(nullptr)},
                    {"verdict", candidate.chosen     ? "chosen"
                                : candidate.eligible ? "possible"
                                                     : "refused"},
                    {"reason", candidate.reason}});
  }
  return rows;
}

Json config_json(const config::Settings& settings) {
  Json values = Json::object();
  for (const auto& [key, setting] : settings.all()) {
    values[key] = {{"value", config::to_text(setting.value)}, {"from", setting.origin.text()}};
  }
  return values;
}

}  // namespace

Json plugin_json(const config::Settings& settings, const std::string& name, const backend::Backend& backend) {
  const std::optional<backend::PluginFacts> facts = plugin_facts(settings, name);
  Json plugin = {{"name", backend.name()}, {"vendor", backend.vendor()}, {"version", backend.version()}};
  plugin["build_id"] = facts && !facts->build_id.empty() ? Json(facts->build_id) : Json(nullptr);
  plugin["path"] = backend.path().string();
  plugin["sha256"] = digest_of(backend.path());
  return plugin;
}

Json device_json(const backend::Device& device) {
  const backend::DeviceInfo& info = device.info();
  const backend::Properties properties = properties_of(device);
  Json json = {{"id", info.id}, {"name", info.name}, {"emulated", info.emulated}};
  if (!info.uuid.empty()) json["uuid"] = info.uuid;
  if (!info.pci.empty()) json["pci"] = info.pci;
  const std::string driver = property(properties, "driver");
  json["driver"] = driver.empty() ? Json(nullptr) : Json(driver);
  for (const auto& [key, value] : properties) json["properties"][key] = value;
  return json;
}

StepCounts count_steps(const ReplayReport& report) {
  StepCounts counts;
  for (const kernel::Step& step : report.session.schedule().steps) {
    if (step.kind == kernel::StepKind::kTransfer) continue;
    if (step.kind == kernel::StepKind::kLibrary) {
      ++counts.library;
      counts.library_products += step.library.kind == kernel::LibraryKind::kMatMul;
      continue;
    }
    if (report.session.schedule().kernels[step.kernel].is_opaque()) {
      ++counts.opaque;
      continue;
    }
    ++counts.generated;
    for (const graph::OpId op : step.ops) {
      if (!is_contraction(report.program().ops[op].kind)) continue;
      const auto call = kernel::library_call_of(report.program(), report.program().ops[op]);
      const runtime::Choice* const choice =
          call && report.options.choices ? report.options.choices->find(*call) : nullptr;
      counts.generated_products += choice == nullptr || choice->library_ns == 0 || !choice->is_generated();
    }
  }
  return counts;
}

std::size_t count_draws(const graph::Program& program) {
  return static_cast<std::size_t>(
      std::ranges::count_if(program.inputs, [](const graph::Input& input) { return input.is_draw; }));
}

std::vector<std::string> notes(const ReplayReport& report) {
  std::vector<std::string> notes;
  const StepCounts counts = count_steps(report);
  const std::string library = report.device == nullptr ? "" : property(properties_of(*report.device), "library");
  if (counts.library_products > 0 && library.starts_with("none")) {  // then the plugin itself took them
    notes.push_back(fmt::format("{} of the library calls are products by kernels for the device's matrix units: {}",
                                counts.library_products, property(properties_of(*report.device), "matrix_units")));
  }
  if (counts.generated_products > 0 && report.device != nullptr) {
    notes.push_back(fmt::format("{} matrix products and convolutions run as generated kernels{}",
                                counts.generated_products, library.empty() ? "" : " (library " + library + ")"));
  }
  for (const runtime::WrongKernel& wrong : report.session.trials().wrong)
    notes.push_back(wrong_in_words(report.session, wrong));
  if (!report.session.library_failure().empty())
    notes.push_back("the library failed: " + report.session.library_failure());
  for (const std::string& setting : trace::settings_not_followed(report.trace))
    notes.push_back("recorded with " + setting);
  return notes;
}

std::string wrong_in_words(const runtime::Session& session, const runtime::WrongKernel& wrong) {
  return fmt::format(
      "kernel {} ({}) was compiled wrongly: {}; {}", wrong.kernel, session.step_in_words(wrong.step), wrong.what,
      wrong.is_mended ? "with less optimisation it is right, and that is what runs" : "another device runs it");
}

Json trial_json(const runtime::Session& session) {
  const runtime::TrialReport& trials = session.trials();
  Json json = {{"on", trials.is_on},        {"kernels", trials.kernels},           {"tried", trials.tried},
               {"time_ns", trials.time_ns}, {"processor_ns", trials.processor_ns}, {"wrong", Json::array()},
               {"untried", Json::array()}};
  for (const runtime::WrongKernel& wrong : trials.wrong)
    json["wrong"].push_back({{"kernel", wrong.kernel},
                             {"step", wrong.step},
                             {"ops", session.step_in_words(wrong.step)},
                             {"found", wrong.what},
                             {"less_optimisation_helps", wrong.is_mended}});
  for (const runtime::Refusal& untried : trials.untried)
    json["untried"].push_back({{"kernel", untried.kernel}, {"reason", untried.reason}});
  return json;
}

Json receipt_json(const ReplayReport& report) {
  const StepCounts counts = count_steps(report);
  Json receipt;
  receipt["trace"] = report.file;
  receipt["recorded_by"] = report.trace.metadata.frontend;
  receipt["framework"] = report.trace.metadata.framework;
  const bool is_reference = report.device == nullptr;
  const bool runs_ops = is_reference && report.options.numerics == kernel::Numerics::kFast;  // else kernels
  receipt["backend"] = is_reference ? kReferenceBackend : report.device->backend().name();
  receipt["plugin"] = is_reference
                          ? Json(nullptr)
                          : plugin_json(report.opened.settings, report.opened.plugin, report.device->backend());
  receipt["device"] = is_reference ? Json(nullptr) : device_json(*report.device);
  if (!report.opened.candidates.empty()) receipt["candidates"] = candidates_json(report.opened.candidates);
  receipt["numerics"] = runs_ops ? "reference: double precision and exact integers, rounded to each result's dtype"
                                 : report.opened.settings.text("numerics");
  const std::size_t draws = count_draws(report.program());
  receipt["random"] = draws > 0 ? Json("recorded draws fed back") : Json("none");
  receipt["draws_per_iteration"] = draws;
  receipt["library_steps"] = counts.library;
  receipt["generated_steps"] = counts.generated;
  receipt["opaque_steps"] = counts.opaque;
  receipt["fallbacks"] = notes(report);
  receipt["fallback"] = elsewhere_json(report);
  receipt["lost"] = lost_json(report);
  receipt["passed_over"] = Json::array();
  for (const PassedOver& other : report.passed_over)
    receipt["passed_over"].push_back({{"device", other.device}, {"reason", other.reason}});
  receipt["checkpoints"] = kept_json(report);
  receipt["opaque"] = opaque_json(report);
  const std::optional<backend::CompileCounts> compiled = report.session.compile_counts();
  receipt["cache"] = {{"kernels", report.session.schedule().kernels.size()},
                      {"from_cache", report.session.compiled_from_cache()},
                      {"kernels_compiled", compiled ? Json(compiled->compiled) : Json(nullptr)},
                      {"kernels_from_cache", compiled ? Json(compiled->from_cache) : Json(nullptr)},
                      {"compile_ns", report.session.compile_ns()}};
  receipt["trial"] = trial_json(report.session);
  receipt["choices"] = nullptr;
  if (report.options.choices) {
    const runtime::Choices::Summary choices = report.options.choices->summary();
    receipt["choices"] = {{"calls", choices.calls},
                          {"measured", choices.measured},
                          {"measured_now", report.measured_now},
                          {"generated", choices.generated},
                          {"recut", choices.recut}};
  }
  receipt["time"] = "host clock (steady) around the replay call of each iteration, inputs and outputs left out" +
                    std::string(report.session.fallback().device ? ", copies between the devices included" : "") +
                    (report.losses.empty() ? "" : "; of iterations on " + report.device->info().id + " alone");
  receipt["fused"] = report.options.fuse && !runs_ops;
  receipt["poisoned"] = report.options.poison;
  receipt["config"] = config_json(report.opened.settings);
  if (!report.trace.metadata.incomplete_reason.empty()) receipt["incomplete"] = report.trace.metadata.incomplete_reason;
  return receipt;
}

}  // namespace crucible::replay
