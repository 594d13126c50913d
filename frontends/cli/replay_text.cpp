// Numbers of a replay made readable: a table of iterations, and a summary.
#include "frontends/cli/replay_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/words.hpp"
#include "core/trace/reservations.hpp"
#include "core/trace/text.hpp"
#include "frontends/cli/arranged_text.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/profile_text.hpp"
#include "frontends/replay/receipt.hpp"
#include "runtime/measure/choices.hpp"

namespace crucible::cli {
namespace {

/// "0.003"; what has no finite size is said in words.
std::string size_text(double difference, const std::string& words) {
  return std::isfinite(difference) ? fmt::format("{:.2g}", difference) : words.empty() ? "no finite number" : words;
}

/// "weight, tensor made by aten::add at train.py:3 (5 times), and 4 more".
std::string counted_text(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 8;
  std::vector<std::pair<std::string, std::size_t>> counted;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(counted, name, [](const auto& each) { return each.first; });
    if (found != counted.end()) {
      ++found->second;
    } else {
      counted.emplace_back(name, 1);
    }
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, counted.size()); ++i) {
    text += (i == 0 ? "" : ", ") + counted[i].first;
    if (counted[i].second > 1) text += fmt::format(" ({} times)", counted[i].second);
  }
  return counted.size() > kShown ? fmt::format("{}, and {} more", text, counted.size() - kShown) : text;
}

std::string outputs_text(const runtime::Verification& verdict) {
  std::string text;
  if (verdict.outputs_compared > 0) {
    text += fmt::format("outputs   {} compared, {} bit-equal", verdict.outputs_compared,
                        verdict.outputs_compared - verdict.outputs.size());
    if (!verdict.outputs.empty()) {
      const runtime::OutputDifference& worst = verdict.outputs[0];
      text += fmt::format(", worst {}: {} of iteration {} (tolerance {:g})", size_text(worst.max_rel_diff, worst.words),
                          worst.name, worst.iteration, worst.tolerance);
    }
    text += "\n";
  }
  std::size_t shown = 0;
  for (const runtime::OutputDifference& output : verdict.outputs) {
    if (!output.is_bad() || ++shown > 10) continue;
    text += fmt::format(
        "outputs   differs: iteration {}, {} ({}), by {}, tolerance {:g}{}\n", output.iteration, output.name,
        name(output.dtype),
        std::isfinite(output.max_rel_diff) ? fmt::format("{:.3g}", output.max_rel_diff) : "no finite number",
        output.tolerance, output.words.empty() ? "" : ": " + output.words);
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
  std::string text = fmt::format("trial     {} kernels against their interpreter, {} of them now ({})", trials.kernels,
                                 trials.tried, format_ns(static_cast<double>(trials.time_ns)));
  if (!trials.wrong.empty())
    text += fmt::format("; {} wrong: {} compiled again, {} refused", trials.wrong.size(), replaced,
                        trials.wrong.size() - static_cast<std::size_t>(replaced));
  if (!trials.untried.empty()) text += fmt::format("; {} could not be tried", trials.untried.size());
  return text + "\n";
}

std::string iteration_table(const ReplayReport& report) {
  constexpr std::size_t kMost = 64, kAtEachEnd = 16;
  std::vector<std::vector<std::string>> rows = {{"iteration", "recorded loss", "loss", "rel diff", "time"}};
  const std::size_t all = report.results.size();
  for (std::size_t i = 0; i < all; ++i) {
    if (all > kMost && i == kAtEachEnd) i = all - kAtEachEnd;
    const runtime::IterationResult& result = report.results[i];
    const bool has_loss = !result.losses.empty();
    rows.push_back({std::to_string(i), has_loss ? fmt::format("{:.9g}", result.recorded_losses[0]) : "-",
                    has_loss ? fmt::format("{:.9g}", result.losses[0]) : "-",
                    has_loss ? size_text(result.max_rel_diff, "") : "-",
                    format_ns(static_cast<double>(result.time_ns))});
  }
  std::string table = format_table(rows);
  if (all <= kMost) return table;
  std::size_t line = 0;
  for (std::size_t row = 0; row <= kAtEachEnd; ++row) line = table.find('\n', line) + 1;
  return table.insert(line, fmt::format("  and {} more (--json lists all)\n", all - 2 * kAtEachEnd));
}

/// All that is said of a verification before its verdict.
std::string verification_text(const runtime::Verification& verdict) {
  std::string text;
  if (verdict.losses_compared > 0) {
    text += fmt::format("losses    largest relative difference {} (tolerance {:g})\n",
                        size_text(verdict.max_loss_rel_diff, ""), verdict.loss_tolerance);
    if (verdict.losses_rounded > 0) {
      text += fmt::format(
          "rounding  {} losses are within {:.2g} of the recorded ones, which is what a logarithm's rounded argument "
          "leaves open\n",
          verdict.losses_rounded, verdict.loss_rounding);
    }
  }
  text += outputs_text(verdict);
  if (!verdict.states.empty()) {
    const auto equal =
        std::ranges::count_if(verdict.states, [](const auto& difference) { return difference.bit_equal; });
    text += fmt::format("states    {} compared, {} bit-equal, worst {}: {} (tolerance {:g})\n", verdict.states.size(),
                        equal, size_text(verdict.states[0].max_rel_diff, verdict.states[0].words),
                        verdict.states[0].name, verdict.state_tolerance);
  }
  if (verdict.spread_runs > 0) {
    text += fmt::format(
        "spread    {} losses and {} states beyond the tolerance are not determined: within {:g} times what {} run{}{} "
        "from starts one rounding away differ{}\n",
        verdict.losses_undetermined, verdict.states_undetermined, runtime::kSpreads, verdict.spread_runs,
        verdict.spread_runs == 1 ? "" : "s", verdict.spread_device.empty() ? "" : " on " + verdict.spread_device,
        verdict.rough_runs == 0
            ? ""
            : fmt::format(", or {} runs of the reference interpreter with rough arithmetic", verdict.rough_runs));
  }
  for (const std::string& note : verdict.notes) text += fmt::format("explained {}\n", note);
  if (verdict.noise_elements > 0) {
    text +=
        fmt::format("noise     {} elements of {} parameters have gradients of rounding noise: compared by size alone\n",
                    verdict.noise_elements, verdict.noise_parameters);
  }
  if (!verdict.states_not_recorded.empty()) {
    text += fmt::format("states    {} changed but have no recorded end: {}\n", verdict.states_not_recorded.size(),
                        counted_text(verdict.states_not_recorded));
  }
  return text;
}

/// `but`: what the recording lacks; agreement with it says nothing of that.
std::string reservations_text(bool is_verified, const std::vector<std::string>& but) {
  std::string text;
  for (std::size_t i = 0; i < but.size(); ++i) text += (i > 0 ? "; " : is_verified ? ", but " : "; besides, ") + but[i];
  return text;
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

/// "launches  164 for 269 ops, 9 of them for several; 131 behind each other at most" for each plan of which the plugin
/// says what it starts.
std::string launches_in_words(const runtime::Session& session) {
  std::string text;
  for (const backend::Properties& facts : session.plan_facts()) {
    const auto of = [&](std::string_view key) {
      const auto found = std::ranges::find(facts, key, &std::pair<std::string, std::string>::first);
      return found == facts.end() ? std::string() : printable(found->second);
    };
    if (of("launches").empty()) continue;
    text += fmt::format("launches  {} for {} ops, {} of them for several; at most {} behind each other\n",
                        of("launches"), of("ops"), of("batches"), of("longest_path"));
  }
  return text;
}

}  // namespace

ReplayText replay_text(const ReplayReport& report) {
  const backend::Device* const device = report.device;
  const runtime::Session& session = report.session;
  const std::optional<runtime::Verification>& verification = report.verification;
  const memory::Plan& plan = session.placement().plan;
  const StepCounts counts = count_steps(report);
  const std::uint32_t recorded_ops = report.trace.iterations.empty() ? 0u : report.trace.iterations[0].op_count;
  std::string text = iteration_table(report) + "\n";
  if (device == nullptr) {
    const auto composites =
        static_cast<std::size_t>(std::ranges::count(report.program().ops, graph::OpKind::kComposite, &graph::Op::kind));
    text += fmt::format("backend   {}: {}\nprogram   {} recorded ops, {} neutral ops{}, interpreted one by one\n",
                        kReferenceBackend, kReferenceWords, recorded_ops, report.program().ops.size() - composites,
                        composites == 0 ? "" : fmt::format(" and {} composites", composites));
  } else {
    text += fmt::format("backend   {} {}, {} ({})\n", device->backend().name(), device->backend().version(),
                        device->info().name, device->info().id);
  }
  if (report.variants.programs.size() > 1) {
    text += fmt::format("variants  {}; what follows is of variant {}\n", graph::counts_in_words(report.variants),
                        session.variant());
    if (graph::shares_nothing(report.variants)) text += fmt::format("shared    {}\n", graph::kSharesNothing);
  }
  if (const std::size_t seams = report.variants.seams(); seams > 0) {
    const std::size_t states = report.variants.states_given();
    text += fmt::format("seams     {}: there something changed what nothing recorded; {} {} taken from the recording\n",
                        seams, states, states == 1 ? "state was" : "states were");
  }
  for (const runtime::DeviceLoss& loss : report.losses) {
    text += fmt::format(
        "lost      {}\nwent on   on {} from iteration {}{}\n", runtime::loss_text(loss), loss.went_on,
        loss.from_iteration,
        loss.repeated == 0 ? "" : fmt::format(", {} iterations again: their states were not kept", loss.repeated));
  }
  if (!report.losses.empty() && !report.passed_over.empty()) {
    for (const PassedOver& other : report.passed_over)
      text += fmt::format("passed    {}: {}\n", other.device, other.reason);
  }
  if (report.kept.times > 0) {
    text +=
        fmt::format("kept      states of {} iterations, {} each, {} in all beside the iterations' times\n",
                    report.kept.times, format_bytes(report.kept.bytes), format_ns(static_cast<double>(report.kept.ns)));
  }
  if (!report.opened.asked_for.empty())
    text += fmt::format("instead   of {}: {}\n", report.opened.asked_for, report.opened.asked_error);
  if (const runtime::FallbackReport& elsewhere = session.fallback(); elsewhere.device) {
    text += fmt::format("fallback  {} of {} steps on {}, {} copies of {} per iteration\n", elsewhere.steps.size(),
                        session.schedule().steps.size(), elsewhere.device->info().id, elsewhere.copies_per_iteration,
                        format_bytes(elsewhere.bytes_per_iteration));
  }
  if (counts.opaque > 0) text += fmt::format("opaque    {} steps as the framework recorded them\n", counts.opaque);
  if (device != nullptr) {
    text += fmt::format(
        "program   {} recorded ops, {} neutral ops, {} steps: {} library calls, {} launches of {} kernels\n",
        recorded_ops, report.program().ops.size(), session.schedule().steps.size(), counts.library, counts.generated,
        session.schedule().kernels.size());
    if (report.options.choices) {
      if (const auto choices = report.options.choices->summary(); choices.measured > 0) {
        text += fmt::format(
            "choices   {} of {} distinct products and convolutions measured{}: {} generated{}, {} by the library\n",
            choices.measured, choices.calls,
            report.measured_now > 0 ? fmt::format(", {} of them now", report.measured_now) : "", choices.generated,
            choices.recut > 0 ? fmt::format(" ({} cut otherwise than the model would)", choices.recut) : "",
            choices.measured - choices.generated);
      }
    }
    text += fmt::format("compile   {}{}\n", format_ns(static_cast<double>(session.compile_ns())),
                        compiled_in_words(session));
    text += trials_in_words(session.trials());
    text += launches_in_words(session);
    text += fmt::format("memory    planned peak {} ({}), lower bound {}, arena {}\n", format_bytes(plan.peak_bytes),
                        plan.peak_bytes == plan.lower_bound_bytes ? "optimal" : "not proved optimal",
                        format_bytes(plan.lower_bound_bytes), format_bytes(session.arena_bytes()));
    text += arranged_text(report.arranged(), 10);
  }
  text +=
      fmt::format("time      {} per iteration (median of {})\n", format_ns(report.time_ns()), report.times_ns.size());
  if (device != nullptr) text += threads_in_words(session);
  if (const std::size_t draws = count_draws(report.program()); draws > 0) {
    text += fmt::format("random    recorded draws fed back ({} tensors per iteration)\n", draws);
  }
  for (const std::string& note : notes(report)) text += fmt::format("note      {}\n", note);
  if (report.options.poison) text += "poison    dead ranges are overwritten; times are not representative\n";
  if (report.result_sha256) text += fmt::format("results   sha256 {}\n", *report.result_sha256);
  if (verification && !report.result_sha256) text += "results   no hash: neither a loss nor an output nor a state\n";
  for (const trace::UnrecordedWrite& write : report.unrecorded)
    text += fmt::format("unseen    {}\n", printable(trace::describe(report.trace, write)));
  const std::vector<std::string> but = trace::reservations(report.trace);
  if (!verification) {
    for (const std::string& what : but) text += fmt::format("note      {}\n", what);
  }
  if (verification) text += verification_text(*verification);
  std::string after = (verification ? reservations_text(verification->verified, but) : "") + "\n";
  if (!report.counters.asked.empty())
    after += counters_text(report.counters, device != nullptr && device->info().emulated);
  if (!report.profile.empty()) after += profile_text(report);
  return {text + "verified  ", verification ? verification->verdict : "not asked for (--verify)", after};
}

}  // namespace crucible::cli
