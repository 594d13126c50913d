#include "frontends/cli/log_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/figures.hpp"

namespace crucible::cli {
namespace {

using nlohmann::ordered_json;
using runlog::IterationRecord;
using runlog::Log;
using runlog::Run;
using runlog::RunBegin;
using runlog::RunEnd;

constexpr std::size_t kDigits = 12;

std::string begin_of(const ContentHash& hash) { return hash.hex().substr(0, kDigits); }

/// Of what may be empty: inputs of a program that has none.
std::string begin_or_none(const ContentHash& hash) { return hash == sha256({}) ? "none" : begin_of(hash); }

std::string joined(const std::vector<std::string>& words, const char* with) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : with) + word;
  return text;
}

std::string signers_text(const Log& log, const Run& run) {
  std::vector<std::string> keys = signers_of(log, run);
  for (std::string& key : keys) key = key.substr(0, kDigits);
  return keys.empty() ? "nobody" : joined(keys, ", ");
}

std::string device_text(const runlog::Machine& machine) {
  return machine.device.empty() ? machine.backend : machine.device;
}

std::string machine_text(const runlog::Machine& machine) {
  if (machine.device.empty()) return machine.backend;
  return fmt::format("{} ({}{}), plugin {} {}, library {}{}", machine.device, machine.name,
                     machine.emulated ? ", emulated" : "", machine.backend, machine.version,
                     machine.library.substr(0, kDigits),
                     machine.mathematics.empty() ? "" : ", mathematics " + machine.mathematics);
}

std::string ending_text(const RunEnd* end) {
  if (end == nullptr) return "no end";
  std::string text(runlog::name(end->ending));
  if (end->verified) text += *end->verified ? ", verified" : ", not verified";
  if (end->ending == runlog::Ending::kInterrupted) text += " by " + end->words;
  return text;
}

std::string iterations_text(const Log& log, const Run& run) {
  const RunEnd* const end = log.end(run);
  const std::uint64_t planned = log.begin(run).iterations;
  if (end != nullptr && end->iterations == planned) return fmt::format("{}", planned);
  if (end != nullptr) return fmt::format("{} of {}", end->iterations, planned);
  const std::uint64_t ran = run.iterations.empty() ? 0 : log.iteration(run.iterations.back()).index + 1;
  return fmt::format("{} or more of {}", ran, planned);
}

}  // namespace

std::vector<std::string> signers_of(const Log& log, const Run& run) {
  std::vector<std::string> keys = log.lines[run.first].keys;
  for (std::size_t at = run.first; at < run.first + run.count; ++at) {
    std::erase_if(keys, [&](const std::string& key) { return std::ranges::count(log.lines[at].keys, key) == 0; });
  }
  return keys;
}

std::string fault_text(const runlog::Fault& fault) { return fmt::format("line {}: {}", fault.line, fault.what); }

std::string runs_text(const Log& log) {
  std::vector<std::vector<std::string>> rows = {
      {"run", "started", "recording", "numerics", "device", "iterations", "ended", "state after", "signed by"}};
  for (const Run& run : log.runs) {
    const RunBegin& begin = log.begin(run);
    rows.push_back(
        {begin_of(log.id(run)), begin.started, begin.source.file, begin.numerics,
         device_text(run.moves.empty() ? begin.machine
                                       : std::get<runlog::Moved>(log.lines[run.moves.back()].record.content).machine),
         iterations_text(log, run), ending_text(log.end(run)), begin_of(log.last_state(run)), signers_text(log, run)});
  }
  return (rows.size() > 1 ? format_table(rows) : std::string()) + plural(log.runs.size(), "run") + ", " +
         plural(log.lines.size(), "record") +
         (log.lines.empty() ? "" : ", the last one is " + begin_of(log.lines.back().hash)) + "\n";
}

std::string records_text(const Log& log, const Run& run) {
  const RunBegin& begin = log.begin(run);
  std::string text = fmt::format(
      "run        {}\nstarted    {} by {}\nrecording  {} ({})\nprogram    {}, regions {}, {}\nnumerics   {}\n"
      "machine    {}\nsigned by  {}\nbefore     {} of {}\n",
      log.id(run).hex(), begin.started, begin.tool, begin.source.content.hex(), begin.source.file,
      begin.program.hash.hex(), begin_of(begin.program.merkle), plural(begin.program.variants, "variant"),
      begin.numerics, machine_text(begin.machine), signers_text(log, run), begin.state.hex(),
      plural(begin.states, "state"));
  std::vector<std::vector<std::string>> rows = {
      {"record", "iteration", "variant", "loss", "inputs", "numbers", "outputs", "state after"}};
  for (const std::size_t line : run.iterations) {
    const IterationRecord& iteration = log.iteration(line);
    const bool has_loss = !iteration.losses.empty() && iteration.losses[0];
    rows.push_back({begin_of(log.lines[line].hash), fmt::format("{}", iteration.index),
                    fmt::format("{}", iteration.variant), has_loss ? fmt::format("{:.9g}", *iteration.losses[0]) : "",
                    begin_or_none(iteration.inputs), begin_or_none(iteration.slots), begin_or_none(iteration.outputs),
                    begin_of(iteration.state)});
  }
  if (rows.size() > 1) text += format_table(rows);
  for (const std::size_t line : run.moves) {
    const auto& moved = std::get<runlog::Moved>(log.lines[line].record.content);
    text += fmt::format("moved      from {}, {}; from iteration {} on: {}\n", moved.from, moved.reason, moved.first,
                        machine_text(moved.machine));
  }
  const RunEnd* const end = log.end(run);
  text += fmt::format("ended      {}{}\n", ending_text(end),
                      end != nullptr && end->ending == runlog::Ending::kFailed ? ": " + end->words : "");
  return text + fmt::format("after      {}\n", log.last_state(run).hex());
}

ordered_json run_json(const Log& log, const Run& run, bool with_records) {
  const RunBegin& begin = log.begin(run);
  const RunEnd* const end = log.end(run);
  ordered_json json = {{"run", log.id(run).hex()},
                       {"line", run.first + 1},
                       {"records", run.count},
                       {"started", begin.started},
                       {"recording", begin.source.file},
                       {"content", begin.source.content.hex()},
                       {"program", begin.program.hash.hex()},
                       {"numerics", begin.numerics},
                       {"backend", begin.machine.backend},
                       {"device", begin.machine.device},
                       {"iterations", begin.iterations},
                       {"iterations_logged", run.iterations.size()},
                       {"ended", end == nullptr ? ordered_json(nullptr) : ordered_json(runlog::name(end->ending))},
                       {"state_before", begin.state.hex()},
                       {"state_after", log.last_state(run).hex()},
                       {"signed_by", signers_of(log, run)}};
  if (!with_records) return json;
  json["lines"] = ordered_json::array();
  for (std::size_t at = run.first; at < run.first + run.count; ++at) {
    ordered_json line = {{"line", at + 1}, {"hash", log.lines[at].hash.hex()}};
    line.update(ordered_json::parse(runlog::to_json(log.lines[at].record)));
    json["lines"].push_back(std::move(line));
  }
  return json;
}

ordered_json log_json(const Log& log) {
  ordered_json json = {{"file", log.file},
                       {"records", log.lines.size()},
                       {"last", log.lines.empty() ? ordered_json(nullptr) : ordered_json(log.lines.back().hash.hex())},
                       {"fault", nullptr},
                       {"runs", ordered_json::array()}};
  if (log.fault) json["fault"] = {{"line", log.fault->line}, {"what", log.fault->what}};
  for (const Run& run : log.runs) json["runs"].push_back(run_json(log, run, false));
  return json;
}

ordered_json comparison_json(const runlog::Comparison& comparison, const runlog::RunData& a, const runlog::RunData& b) {
  ordered_json json = {{"a", a.name},
                       {"b", b.name},
                       {"equal", comparison.is_equal()},
                       {"both_strict", comparison.both_strict},
                       {"same_recording", comparison.same_recording},
                       {"same_program", comparison.same_program},
                       {"same_start", comparison.same_start},
                       {"iterations_compared", comparison.compared},
                       {"first_difference", nullptr},
                       {"iterations", comparison.iterations},
                       {"state", comparison.state ? ordered_json(*comparison.state) : ordered_json(nullptr)},
                       {"states_that_differ", comparison.states_apart}};
  if (comparison.parting) {
    json["first_difference"] = {
        {"iteration", comparison.parting->iteration},
        {"what", comparison.parting->what},
        {"last_equal",
         comparison.parting->last_equal ? ordered_json(*comparison.parting->last_equal) : ordered_json(nullptr)}};
  }
  return json;
}

}  // namespace crucible::cli
