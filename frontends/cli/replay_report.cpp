// Numbers of a replay made readable: a table of iterations, a summary, and the JSON document.
#include "frontends/cli/replay_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/words.hpp"
#include "runtime/measure/choices.hpp"
#include "core/trace/reservations.hpp"
#include "core/trace/text.hpp"
#include "frontends/cli/arranged.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/receipt.hpp"
#include "frontends/cli/replay_profile.hpp"
#include "frontends/cli/unrecorded_words.hpp"

namespace crucible::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Numbers that JSON cannot hold become null.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

double median(std::vector<std::uint64_t> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? static_cast<double>(values[middle])
                                : (static_cast<double>(values[middle - 1]) + static_cast<double>(values[middle])) / 2;
}

/// "0.003"; what has no finite size is said in words.
std::string size_text(double difference, const std::string& words) {
  return std::isfinite(difference) ? fmt::format("{:.2g}", difference) : words.empty() ? "no finite number" : words;
}

Json iterations_json(const ReplayReport& report) {
  Json rows = Json::array();
  for (const runtime::IterationResult& result : report.results) {
    Json row;
    row["loss_recorded"] = result.recorded_losses.empty() ? Json(nullptr) : number(result.recorded_losses[0]);
    row["loss"] = result.losses.empty() ? Json(nullptr) : number(result.losses[0]);
    row["rel_diff"] = number(result.max_rel_diff);
    row["time_ns"] = result.time_ns;
    if (result.losses.size() > 1) {
      for (std::size_t i = 0; i < result.losses.size(); ++i) {
        row["outputs"].push_back({{"name", report.program.outputs[i].name},
                                  {"recorded", number(result.recorded_losses[i])},
                                  {"value", number(result.losses[i])}});
      }
    }
    rows.push_back(std::move(row));
  }
  return rows;
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
        spread["undetermined"].push_back({{"name", difference.name}, {"max_rel_diff", number(difference.max_rel_diff)}, {"spread", number(difference.spread.largest)}, {"eager_inexact", difference.is_eager_inexact}});
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

std::string outputs_text(const runtime::Verification& verdict) {
  std::string text;
  if (verdict.outputs_compared > 0) {
    text += fmt::format("outputs   {} compared, {} bit-equal", verdict.outputs_compared,
                        verdict.outputs_compared - verdict.outputs.size());
    if (!verdict.outputs.empty()) {
      const runtime::OutputDifference& worst = verdict.outputs[0];
      text += fmt::format(", worst {}: {} of iteration {} (tolerance {:g})", size_text(worst.max_rel_diff, worst.words), worst.name,
                          worst.iteration, worst.tolerance);
    }
    text += "\n";
  }
  std::size_t shown = 0;
  for (const runtime::OutputDifference& output : verdict.outputs) {
    if (!output.is_bad() || ++shown > 10) continue;
    text += fmt::format("outputs   differs: iteration {}, {} ({}), by {}, tolerance {:g}{}\n", output.iteration, output.name,
                        name(output.dtype), std::isfinite(output.max_rel_diff) ? fmt::format("{:.3g}", output.max_rel_diff) : "no finite number", output.tolerance, output.words.empty() ? "" : ": " + output.words);
  }
  if (shown > 10) text += fmt::format("outputs   and {} more that differ\n", shown - 10);
  for (const std::string& why : verdict.outputs_left_out) text += fmt::format("outputs   not compared: {}\n", why);
  return text;
}

std::string compiled_in_words(const runtime::Session& session) {
  if (session.compiled_from_cache()) return ", from the cache";
  const std::optional<backend::CompileCounts> counts = session.compile_counts();
  if (!counts) return "";
  return fmt::format(", {} of {} kernels compiled", counts->compiled, counts->compiled + counts->from_cache);
}

std::string trials_in_words(const runtime::TrialReport& trials) {
  if (!trials.is_on || trials.kernels == 0) return "";
  const auto replaced = std::ranges::count_if(trials.wrong, &runtime::WrongKernel::is_mended);
  std::string text = fmt::format("trial     {} kernels against their interpreter, {} of them now ({})", trials.kernels, trials.tried,
                                 format_ns(static_cast<double>(trials.time_ns)));
  if (!trials.wrong.empty()) text += fmt::format("; {} wrong: {} compiled again, {} refused", trials.wrong.size(), replaced,
                                                 trials.wrong.size() - static_cast<std::size_t>(replaced));
  if (!trials.untried.empty()) text += fmt::format("; {} could not be tried", trials.untried.size());
  return text + "\n";
}

std::string iteration_table(const ReplayReport& report) {
  std::vector<std::vector<std::string>> rows = {{"iteration", "recorded loss", "loss", "rel diff", "time"}};
  for (std::size_t i = 0; i < report.results.size(); ++i) {
    const runtime::IterationResult& result = report.results[i];
    const bool has_loss = !result.losses.empty();
    rows.push_back({std::to_string(i), has_loss ? fmt::format("{:.9g}", result.recorded_losses[0]) : "-",
                    has_loss ? fmt::format("{:.9g}", result.losses[0]) : "-",
                    has_loss ? size_text(result.max_rel_diff, "") : "-",
                    format_ns(static_cast<double>(result.time_ns))});
  }
  return format_table(rows);
}

/// All that is said of a verification before its verdict.
std::string verification_text(const runtime::Verification& verdict) {
  std::string text;
  if (verdict.losses_compared > 0) {
    text += fmt::format("losses    largest relative difference {} (tolerance {:g})\n", size_text(verdict.max_loss_rel_diff, ""),
                        verdict.loss_tolerance);
    if (verdict.losses_rounded > 0) {
      text += fmt::format("rounding  {} losses are within {:.2g} of the recorded ones, which is what a logarithm's rounded argument leaves open\n",
                          verdict.losses_rounded, verdict.loss_rounding);
    }
  }
  text += outputs_text(verdict);
  if (!verdict.states.empty()) {
    const auto equal =
        std::ranges::count_if(verdict.states, [](const auto& difference) { return difference.bit_equal; });
    text +=
        fmt::format("states    {} compared, {} bit-equal, worst {}: {} (tolerance {:g})\n", verdict.states.size(),
                    equal, size_text(verdict.states[0].max_rel_diff, verdict.states[0].words), verdict.states[0].name, verdict.state_tolerance);
  }
  if (verdict.spread_runs > 0) {
    text += fmt::format(
        "spread    {} losses and {} states beyond the tolerance are not determined: within {:g} times what {} runs{} from starts one rounding away differ{}\n",
        verdict.losses_undetermined, verdict.states_undetermined, runtime::kSpreads, verdict.spread_runs,
        verdict.spread_device.empty() ? "" : " on " + verdict.spread_device,
        verdict.rough_runs == 0 ? "" : fmt::format(", or {} runs of the reference interpreter with rough arithmetic", verdict.rough_runs));
  }
  for (const std::string& note : verdict.notes) text += fmt::format("explained {}\n", note);
  if (verdict.noise_elements > 0) {
    text += fmt::format("noise     {} elements of {} parameters have gradients of rounding noise: compared by size alone\n",
                        verdict.noise_elements, verdict.noise_parameters);
  }
  if (!verdict.states_not_recorded.empty()) {
    text += fmt::format("states    {} changed but have no recorded end: {}\n", verdict.states_not_recorded.size(),
                        fmt::join(verdict.states_not_recorded, ", "));
  }
  return text;
}

/// `but`: what the recording lacks; agreement with it says nothing of that.
std::string reservations_text(bool is_verified, const std::vector<std::string>& but) {
  std::string text;
  for (std::size_t i = 0; i < but.size(); ++i) text += (i > 0 ? "; " : is_verified ? ", but " : "; besides, ") + but[i];
  return text;
}

ArrangedMemory arranged(const ReplayReport& report) {
  const runtime::Placement& placement = report.session.placement();
  return {report.options.memory.budget_bytes, placement.host_plan.peak_bytes, report.session.arrange_report(), placement.certificate};
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

/// "threads   1 of 2; ..." for each plan of which the plugin says how many threads it has, and why.
std::string threads_in_words(const runtime::Session& session) {
  std::string text;
  for (const backend::Properties& facts : session.plan_facts()) {
    const auto found = std::ranges::find(facts, "threads", &std::pair<std::string, std::string>::first);
    if (found != facts.end()) text += fmt::format("threads   {}\n", printable(found->second));
  }
  return text;
}

}  // namespace

Json ReplayReport::to_json() const {
  const memory::Plan& plan = session.placement().plan;
  const bool planned = device != nullptr;  // the interpreter has neither plan nor kernels
  Json document;
  document["file"] = file;
  document["backend"] = planned ? device->backend().name() : kReferenceBackend;
  document["device"] = planned ? device->info().name : "reference interpreter";
  document["iterations"] = iterations_json(*this);
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
  document["time_ns_per_iteration"] = median(times_ns);
  document["timed_iterations"] = times_ns.size();
  document["times_ns"] = times_ns;
  document["plans"] = if_planned(facts_json(session.plan_facts()));
  document["peak_bytes"] = peak_bytes ? Json(*peak_bytes) : Json(nullptr);
  document["planned_peak_bytes"] = if_planned(plan.peak_bytes);
  document["lower_bound_bytes"] = if_planned(plan.lower_bound_bytes);
  document["arena_bytes"] = if_planned(session.arena_bytes());
  document["memory"] = planned ? arranged(*this).to_json() : Json(nullptr);
  document["compile_ns"] = if_planned(session.compile_ns());
  document["cache"] = if_planned(session.compiled_from_cache() ? "hit" : "miss");
  document["ops_per_iteration"] = trace.iterations.empty() ? 0u : trace.iterations[0].op_count;
  document["steps"] = if_planned(session.schedule().steps.size());
  document["kernels"] = if_planned(session.schedule().kernels.size());
  if (!profile.empty()) {
    document["profile"] = profile_json(*this);
    document["profile_runs"] = profile_runs;
    document["profile_times"] = times_from.empty() ? Json(nullptr) : Json(times_from);
    document["device_profile"] = device_profile ? Json{{"name", device_profile->name}, {"source", device_profile->source}, {"date", device_profile->date}}
                                                : Json(nullptr);
  }
  if (!counters.asked.empty()) document["counters"] = counters_json(counters);
  document["receipt"] = receipt_json(*this);
  document["lost"] = document["receipt"]["lost"];
  return document;
}

ReplayText ReplayReport::to_text() const {
  const memory::Plan& plan = session.placement().plan;
  const StepCounts counts = count_steps(*this);
  const std::uint32_t recorded_ops = trace.iterations.empty() ? 0u : trace.iterations[0].op_count;
  std::string text = iteration_table(*this) + "\n";
  if (device == nullptr) {
    const auto composites = static_cast<std::size_t>(std::ranges::count(program.ops, graph::OpKind::kComposite, &graph::Op::kind));
    text += fmt::format("backend   {}: {}\nprogram   {} recorded ops, {} neutral ops{}, interpreted one by one\n", kReferenceBackend,
                        kReferenceWords, recorded_ops, program.ops.size() - composites,
                        composites == 0 ? "" : fmt::format(" and {} composites", composites));
  } else {
    text += fmt::format("backend   {} {}, {} ({})\n", device->backend().name(), device->backend().version(),
                        device->info().name, device->info().id);
  }
  for (const runtime::DeviceLoss& loss : losses) {
    text += fmt::format("lost      {}\nwent on   on {} from iteration {}{}\n", runtime::loss_text(loss), loss.went_on, loss.from_iteration,
                        loss.repeated == 0 ? "" : fmt::format(", {} iterations again: their states were not kept", loss.repeated));
  }
  if (!losses.empty() && !passed_over.empty()) {
    for (const PassedOver& other : passed_over) text += fmt::format("passed    {}: {}\n", other.device, other.reason);
  }
  if (kept.times > 0) {
    text += fmt::format("kept      states of {} iterations, {} each, {} in all beside the iterations' times\n", kept.times, format_bytes(kept.bytes),
                        format_ns(static_cast<double>(kept.ns)));
  }
  if (!opened.asked_for.empty()) text += fmt::format("instead   of {}: {}\n", opened.asked_for, opened.asked_error);
  if (const runtime::FallbackReport& elsewhere = session.fallback(); elsewhere.device) {
    text += fmt::format("fallback  {} of {} steps on {}, {} copies of {} per iteration\n", elsewhere.steps.size(),
                        session.schedule().steps.size(), elsewhere.device->info().id, elsewhere.copies_per_iteration,
                        format_bytes(elsewhere.bytes_per_iteration));
  }
  if (counts.opaque > 0) text += fmt::format("opaque    {} steps as the framework recorded them\n", counts.opaque);
  if (device != nullptr) {
    text += fmt::format(
        "program   {} recorded ops, {} neutral ops, {} steps: {} library calls, {} launches of {} kernels\n", recorded_ops,
        program.ops.size(), session.schedule().steps.size(), counts.library, counts.generated,
        session.schedule().kernels.size());
    if (options.choices) {
      if (const auto choices = options.choices->summary(); choices.measured > 0) {
        text += fmt::format("choices   {} of {} distinct products and convolutions measured{}: {} generated{}, {} by the library\n",
                            choices.measured, choices.calls, measured_now > 0 ? fmt::format(", {} of them now", measured_now) : "",
                            choices.generated, choices.recut > 0 ? fmt::format(" ({} cut otherwise than the model would)", choices.recut) : "",
                            choices.measured - choices.generated);
      }
    }
    text += fmt::format("compile   {}{}\n", format_ns(static_cast<double>(session.compile_ns())), compiled_in_words(session));
    text += trials_in_words(session.trials());
    text += fmt::format("memory    planned peak {} ({}), lower bound {}, arena {}\n", format_bytes(plan.peak_bytes),
                        plan.peak_bytes == plan.lower_bound_bytes ? "optimal" : "not proved optimal",
                        format_bytes(plan.lower_bound_bytes), format_bytes(session.arena_bytes()));
    text += arranged(*this).to_text(10);
  }
  text += fmt::format("time      {} per iteration (median of {})\n", format_ns(median(times_ns)), times_ns.size());
  if (device != nullptr) text += threads_in_words(session);
  if (const std::size_t draws = count_draws(program); draws > 0) {
    text += fmt::format("random    recorded draws fed back ({} tensors per iteration)\n", draws);
  }
  for (const std::string& note : notes(*this)) text += fmt::format("note      {}\n", note);
  if (options.poison) text += "poison    dead ranges are overwritten; times are not representative\n";
  if (result_sha256) text += fmt::format("results   sha256 {}\n", *result_sha256);
  if (verification && !result_sha256) text += "results   no hash: neither a loss nor an output nor a state\n";
  for (const trace::UnrecordedWrite& write : unrecorded) text += fmt::format("unseen    {}\n", printable(trace::describe(trace, write)));
  const std::vector<std::string> but = trace::reservations(trace);
  if (!verification) {
    for (const std::string& what : but) text += fmt::format("note      {}\n", what);
  }
  if (verification) text += verification_text(*verification);
  std::string after = (verification ? reservations_text(verification->verified, but) : "") + "\n";
  if (!counters.asked.empty()) after += counters_text(counters, device != nullptr && device->info().emulated);
  if (!profile.empty()) after += profile_text(*this);
  return {text + "verified  ", verification ? verification->verdict : "not asked for (--verify)", after};
}

}  // namespace crucible::cli
