#include "frontends/runlog/compare.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/figures.hpp"

namespace crucible::runlog {
namespace {

constexpr std::size_t kShownStates = 10, kShownDigits = 12;

std::string begin_of(const ContentHash& hash) { return hash.hex().substr(0, kShownDigits); }

std::uint64_t length_of(const RunData& run) {
  if (run.end) return run.end->iterations;
  return run.iterations.empty() ? 0 : run.iterations.back().index + 1;
}

bool is_done(const RunData& run) { return run.end && run.end->ending == Ending::kDone; }

std::string what_differs(const IterationRecord& a, const IterationRecord& b) {
  if (a.inputs != b.inputs) return "inputs";
  if (a.slots != b.slots) return "numbers";
  if (a.outputs != b.outputs) return "outputs";
  return a.state != b.state ? "state" : "";
}

/// Where the states at the end differ. States of both are in the order of the recording.
void compare_states(const RunEnd& a, const RunEnd& b, Comparison& comparison) {
  if (a.states.size() != b.states.size()) return;
  comparison.states_compared = a.states.size();
  for (std::size_t at = 0; at < a.states.size(); ++at) {
    if (a.states[at] == b.states[at]) continue;
    const NamedState& state = a.states[at];
    comparison.states_apart.push_back(fmt::format("{} ({}, {})",
                                                  state.name.empty() ? fmt::format("state {}", at) : state.name,
                                                  state.dtype, plural(state.elements, "element")));
  }
}

std::string end_in_words(const RunData& run) {
  if (!run.end) return "has no end";
  if (run.end->ending == Ending::kDone) return "";
  return fmt::format("{} after {}", run.end->ending == Ending::kFailed ? "failed" : "was interrupted",
                     plural(run.end->iterations, "iteration"));
}

}  // namespace

RunData data_of(const Log& log, const Run& run) {
  RunData data{.name = log.id(run).hex().substr(0, kShownDigits), .begin = log.begin(run), .iterations = {}, .end = {}};
  for (const std::size_t line : run.iterations) data.iterations.push_back(log.iteration(line));
  if (const RunEnd* const end = log.end(run); end != nullptr) data.end = *end;
  return data;
}

Comparison compare(const RunData& a, const RunData& b) {
  Comparison comparison;
  comparison.both_strict = a.begin.numerics == "strict" && b.begin.numerics == "strict";
  comparison.same_recording = a.begin.source.content == b.begin.source.content;
  comparison.same_program = a.begin.program == b.begin.program;
  comparison.same_start = a.begin.state == b.begin.state;
  comparison.both_done = is_done(a) && is_done(b);
  comparison.same_length = length_of(a) == length_of(b);
  comparison.iterations = std::min(length_of(a), length_of(b));
  std::optional<std::uint64_t> last_equal;
  for (auto mine = a.iterations.begin(), other = b.iterations.begin();
       mine != a.iterations.end() && other != b.iterations.end();) {
    if (mine->index != other->index) {
      ++(mine->index < other->index ? mine : other);
      continue;
    }
    ++comparison.compared;
    if (std::string what = what_differs(*mine, *other); !what.empty()) {
      comparison.parting = {mine->index, std::move(what), last_equal};
      break;
    }
    last_equal = mine->index;
    ++mine, ++other;
  }
  if (a.end && b.end && a.end->state && b.end->state && comparison.same_length) {
    if (*a.end->state == *b.end->state) comparison.state = a.end->state->hex();
    compare_states(*a.end, *b.end, comparison);
  }
  return comparison;
}

std::string in_words(const Comparison& comparison, const RunData& a, const RunData& b) {
  std::string text = fmt::format(
      "{} ({}, {}) and {} ({}, {}):\n", a.name,
      a.begin.machine.device.empty() ? a.begin.machine.backend : a.begin.machine.device, a.begin.numerics, b.name,
      b.begin.machine.device.empty() ? b.begin.machine.backend : b.begin.machine.device, b.begin.numerics);
  text += fmt::format("  recording  {}\n",
                      comparison.same_recording
                          ? "the same, " + begin_of(a.begin.source.content)
                          : fmt::format("another one: {} ({}), {} ({})", begin_of(a.begin.source.content),
                                        a.begin.source.file, begin_of(b.begin.source.content), b.begin.source.file));
  text += fmt::format("  program    {}\n", comparison.same_program
                                               ? "the same, " + begin_of(a.begin.program.hash)
                                               : fmt::format("another one: {}, {}", begin_of(a.begin.program.hash),
                                                             begin_of(b.begin.program.hash)));
  text += fmt::format("  start      {}\n",
                      comparison.same_start
                          ? "the same state, " + begin_of(a.begin.state)
                          : fmt::format("another state: {}, {}", begin_of(a.begin.state), begin_of(b.begin.state)));
  if (comparison.parting) {
    const Parting& parting = *comparison.parting;
    text += fmt::format("  iterations they part in iteration {}: other {}{}\n", parting.iteration, parting.what,
                        parting.last_equal ? fmt::format("; after iteration {} they were equal", *parting.last_equal)
                                           : "; it is the first that both logged");
  } else {
    text += fmt::format("  iterations {} logged by both, equal in inputs, numbers, outputs and state\n",
                        comparison.compared);
  }
  for (const RunData* const run : {&a, &b}) {
    if (const std::string words = end_in_words(*run); !words.empty())
      text += fmt::format("  end        {} {}\n", run->name, words);
  }
  if (!comparison.states_apart.empty()) {
    text += fmt::format("  states     {} of {} differ at the end:\n", comparison.states_apart.size(),
                        comparison.states_compared);
    for (std::size_t at = 0; at < std::min(comparison.states_apart.size(), kShownStates); ++at)
      text += "    " + comparison.states_apart[at] + "\n";
    if (comparison.states_apart.size() > kShownStates)
      text += fmt::format("    and {} more: --json has all\n", comparison.states_apart.size() - kShownStates);
  }
  const std::string numerics = comparison.both_strict ? "both strict" : "not both strict, so that nothing is promised";
  if (comparison.is_equal()) {
    text += fmt::format("equal: {}, the same program: the state after {} is equal: {}\n", numerics,
                        plural(comparison.iterations, "iteration"), *comparison.state);
  } else if (!comparison.same_length && comparison.same_program && comparison.same_start && !comparison.parting) {
    text += fmt::format("not equal: one ran {}, the other {}; as far as both were logged they are equal\n",
                        plural(length_of(a), "iteration"), length_of(b));
  } else {
    text += fmt::format("not equal: {}\n", numerics);
  }
  return text;
}

}  // namespace crucible::runlog
