// The JSON document of a replay.
#include "frontends/replay/replay_report.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/trace/reservations.hpp"
#include "frontends/replay/receipt.hpp"
#include "frontends/replay/replay_profile.hpp"
#include "frontends/replay/unrecorded.hpp"

namespace crucible::replay {
namespace {

using Json = nlohmann::ordered_json;

/// Numbers that JSON cannot hold become null.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json iterations_json(const ReplayReport& report) {
  Json rows = Json::array();
  for (std::uint32_t iteration = 0; iteration < report.results.size(); ++iteration) {
    const runtime::IterationResult& result = report.results[iteration];
    const graph::Program& program = report.session.program_of(iteration);
    Json row;
    if (report.variants.programs.size() > 1) row["variant"] = report.variants.turns[iteration].variant;
    row["loss_recorded"] = result.recorded_losses.empty() ? Json(nullptr) : number(result.recorded_losses[0]);
    row["loss"] = result.losses.empty() ? Json(nullptr) : number(result.losses[0]);
    row["rel_diff"] = number(result.max_rel_diff);
    row["time_ns"] = result.time_ns;
    if (result.losses.size() > 1) {
      for (std::size_t i = 0; i < result.losses.size(); ++i) {
        row["outputs"].push_back({{"name", program.outputs[i].name},
                                  {"recorded", number(result.recorded_losses[i])},
                                  {"value", number(result.losses[i])}});
      }
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

/// How the iterations differ; null where they are all alike and nothing happened in between.
Json variants_json(const graph::Variants& variants) {
  if (variants.programs.size() == 1 && variants.seams() == 0) return nullptr;
  Json all = {{"count", variants.programs.size()},
              {"seams", variants.seams()},
              {"states_given", variants.states_given()},
              {"programs", Json::array()}};
  for (std::size_t v = 0; v < variants.programs.size(); ++v) {
    all["programs"].push_back({{"iterations", variants.programs[v]->iterations},
                               {"ops", variants.programs[v]->ops.size()},
                               {"difference", variants.differences[v]}});
  }
  return all;
}

Json state_json(const runtime::Verification& verdict) {
  Json state;
  state["tensors"] = verdict.states.size();
  state["max_rel_diff"] = verdict.states.empty() ? Json(nullptr) : number(verdict.states[0].max_rel_diff);
  state["worst"] = verdict.states.empty() ? Json(nullptr) : Json(verdict.states[0].name);
  state["bit_equal"] =
      std::ranges::count_if(verdict.states, [](const auto& difference) { return difference.bit_equal; });
  if (verdict.spread_most > 0) {
    Json spread = {{"runs", verdict.spread_runs}, {"most", verdict.spread_most}, {"undetermined", Json::array()}};
    if (!verdict.spread_device.empty()) spread["device"] = verdict.spread_device;
    for (const runtime::StateDifference& difference : verdict.states) {
      if (difference.is_undetermined) {
        spread["undetermined"].push_back({{"name", difference.name},
                                          {"max_rel_diff", number(difference.max_rel_diff)},
                                          {"spread", number(difference.spread.largest)},
                                          {"eager_inexact", difference.is_eager_inexact}});
      }
    }
    state["spread"] = std::move(spread);
  }
  state["noise"] = {{"elements", verdict.noise_elements}, {"parameters", verdict.noise_parameters}};
  if (!verdict.states_not_recorded.empty()) state["not_recorded"] = verdict.states_not_recorded;
  state["differences"] = Json::object();
  for (const runtime::StateDifference& difference : verdict.states) {
    if (!difference.bit_equal) state["differences"][difference.name] = number(difference.max_rel_diff);
    if (!difference.words.empty()) state["words"][difference.name] = difference.words;
  }
  return state;
}

/// The losses beyond the tolerance.
Json losses_json(const runtime::Verification& verdict) {
  Json json = Json::array();
  for (const runtime::LossDifference& loss : verdict.losses) {
    Json row = {{"iteration", loss.iteration}, {"name", loss.name}, {"rel_diff", number(loss.rel_diff)}};
    if (verdict.spread_runs > 0) row["spread"] = number(loss.spread);
    if (verdict.spread_runs > 0) row["undetermined"] = loss.is_undetermined;
    if (verdict.spread_runs > 0) row["eager_inexact"] = loss.is_eager_inexact;
    json.push_back(std::move(row));
  }
  return json;
}

Json outputs_json(const runtime::Verification& verdict) {
  Json json;
  json["compared"] = verdict.outputs_compared;
  json["bit_equal"] = verdict.outputs_compared - verdict.outputs.size();
  json["differences"] = Json::array();
  for (const runtime::OutputDifference& output : verdict.outputs) {
    json["differences"].push_back({{"iteration", output.iteration},
                                   {"name", output.name},
                                   {"dtype", name(output.dtype)},
                                   {"max_rel_diff", number(output.max_rel_diff)},
                                   {"tolerance", output.tolerance},
                                   {"within", output.is_within()},
                                   {"undetermined", output.is_undetermined}});
    if (!output.words.empty()) json["differences"].back()["words"] = output.words;
  }
  json["left_out"] = verdict.outputs_left_out;
  return json;
}

/// A plugin's own names and words; whole numbers as such.
Json facts_json(const std::vector<backend::Properties>& plans) {
  Json all = Json::array();
  for (const backend::Properties& facts : plans) {
    Json plan = Json::object();
    for (const auto& [key, value] : facts) {
      std::uint64_t number = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
      plan[key] = error == std::errc() && end == value.data() + value.size() ? Json(number) : Json(value);
    }
    all.push_back(std::move(plan));
  }
  return all;
}

}  // namespace

double ReplayReport::time_ns() const {
  if (times_ns.empty()) return 0;
  std::vector<std::uint64_t> sorted = times_ns;
  std::ranges::sort(sorted);
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? static_cast<double>(sorted[middle])
                                : (static_cast<double>(sorted[middle - 1]) + static_cast<double>(sorted[middle])) / 2;
}

const graph::Program& ReplayReport::program() const {
  return device != nullptr ? session.program() : *variants.programs[session.variant()];
}

ArrangedMemory ReplayReport::arranged() const {
  const runtime::Placement& placement = session.placement();
  return {options.memory.budget_bytes, placement.host_plan.peak_bytes, session.arrange_report(), placement.certificate};
}

Json ReplayReport::to_json() const {
  const memory::Plan& plan = session.placement().plan;
  const bool planned = device != nullptr;  // the interpreter has neither plan nor kernels
  Json document;
  document["file"] = file;
  document["backend"] = planned ? device->backend().name() : kReferenceBackend;
  document["device"] = planned ? device->info().name : "reference interpreter";
  document["iterations"] = iterations_json(*this);
  document["variants"] = variants_json(variants);
  document["state"] = verification ? state_json(*verification)
                                   : Json{{"tensors", nullptr}, {"max_rel_diff", nullptr}, {"worst", nullptr}};
  document["outputs"] = verification ? outputs_json(*verification) : Json(nullptr);
  document["unrecorded_writes"] = verification ? unrecorded_json(trace, unrecorded) : Json(nullptr);
  document["verified"] = verification ? Json(verification->verified) : Json(nullptr);
  if (verification) document["verdict"] = verification->verdict;
  if (verification && !verification->verified) document["reason"] = verification->reason;
  if (verification && !verification->notes.empty()) document["explained"] = verification->notes;
  if (verification && !verification->found.empty()) document["found"] = verification->found;
  document["but"] = trace::reservations(trace);
  if (verification) {
    document["max_loss_rel_diff"] = number(verification->max_loss_rel_diff);
    document["losses_rounded"] = verification->losses_rounded;
  }
  if (verification) document["losses_beyond_tolerance"] = losses_json(*verification);
  document["result_sha256"] = result_sha256 ? Json(*result_sha256) : Json(nullptr);
  const auto if_planned = [&](Json value) { return planned ? std::move(value) : Json(nullptr); };
  document["time_ns_per_iteration"] = time_ns();
  document["timed_iterations"] = times_ns.size();
  document["times_ns"] = times_ns;
  document["start"] = {
      {"read_ns", start.read}, {"open_ns", start.open}, {"prepare_ns", start.prepare}, {"states_ns", start.states}};
  document["plans"] = if_planned(facts_json(session.plan_facts()));
  document["peak_bytes"] = peak_bytes ? Json(*peak_bytes) : Json(nullptr);
  document["planned_peak_bytes"] = if_planned(plan.peak_bytes);
  document["lower_bound_bytes"] = if_planned(plan.lower_bound_bytes);
  document["arena_bytes"] = if_planned(session.arena_bytes());
  document["memory"] = planned ? arranged().to_json() : Json(nullptr);
  document["compile_ns"] = if_planned(session.compile_ns());
  document["cache"] = if_planned(session.compiled_from_cache() ? "hit" : "miss");
  document["ops_per_iteration"] = trace.iterations.empty() ? 0u : trace.iterations[0].op_count;
  document["steps"] = if_planned(session.schedule().steps.size());
  document["kernels"] = if_planned(session.schedule().kernels.size());
  if (!profile.empty()) {
    document["profile"] = profile_json(*this);
    document["profile_runs"] = profile_runs;
    document["profile_times"] = times_from.empty() ? Json(nullptr) : Json(times_from);
    document["device_profile"] =
        device_profile
            ? Json{{"name", device_profile->name}, {"source", device_profile->source}, {"date", device_profile->date}}
            : Json(nullptr);
  }
  if (!counters.asked.empty()) document["counters"] = counters_json(counters);
  document["receipt"] = receipt_json(*this);
  document["lost"] = document["receipt"]["lost"];
  return document;
}

}  // namespace crucible::replay
