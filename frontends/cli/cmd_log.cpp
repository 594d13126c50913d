// `crucible log`: what a run log says, whether it is sound, whether a run can be had again, and where two part.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/terminal.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/log_text.hpp"
#include "frontends/cli/progress.hpp"
#include "frontends/cli/sandbox.hpp"
#include "frontends/cli/switches.hpp"
#include "frontends/cli/terminal_observer.hpp"
#include "frontends/runlog/again.hpp"

namespace crucible::cli {
namespace {

using nlohmann::ordered_json;
using runlog::Comparison;
using runlog::Log;
using runlog::Run;
using runlog::RunData;

struct LogCommand {
  std::vector<std::string> files, runs, keys;
  std::string recording;
  bool verify = false, compare = false, again = false, json = false;
  DeviceChoice device;
};

/// A run of one of the logs.
struct Chosen {
  const Log* log;
  const Run* run;
};

/// Errors: kUsage for a name that no log has, or several runs.
Result<std::vector<Chosen>> named_runs(const LogCommand& options, const std::vector<Log>& logs) {
  std::vector<Chosen> chosen;
  for (const std::string& prefix : options.runs) {
    const std::size_t before = chosen.size();
    Error last;
    for (const Log& log : logs) {
      const Result<std::size_t> found = runlog::find_run(log, prefix);
      if (found) {
        chosen.push_back({&log, &log.runs[*found]});
        break;
      }
      last = found.error();
    }
    if (chosen.size() == before) return last;
  }
  return chosen;
}

/// Those that were named; else of one log all, of several the last of each.
Result<std::vector<Chosen>> runs_to_compare(const LogCommand& options, const std::vector<Log>& logs) {
  CRUCIBLE_TRY(std::vector<Chosen> chosen, named_runs(options, logs));
  if (options.runs.empty()) {
    for (const Log& log : logs) {
      for (std::size_t at = logs.size() > 1 && !log.runs.empty() ? log.runs.size() - 1 : 0; at < log.runs.size(); ++at)
        chosen.push_back({&log, &log.runs[at]});
    }
  }
  if (chosen.size() < 2) {
    return Error{ErrorCode::kUsage,
                 fmt::format("two runs or more are compared, and there is {}: name another log, or leave out --run",
                             chosen.empty() ? "none" : "one")};
  }
  return chosen;
}

Result<int> compare_runs(const LogCommand& options, const std::vector<Log>& logs) {
  CRUCIBLE_TRY(const std::vector<Chosen> chosen, runs_to_compare(options, logs));
  const RunData first = runlog::data_of(*chosen[0].log, *chosen[0].run);
  bool all_equal = true;
  ordered_json pairs = ordered_json::array();
  for (std::size_t at = 1; at < chosen.size(); ++at) {
    const RunData other = runlog::data_of(*chosen[at].log, *chosen[at].run);
    const Comparison comparison = runlog::compare(first, other);
    all_equal = all_equal && comparison.is_equal();
    if (options.json) {
      pairs.push_back(comparison_json(comparison, first, other));
    } else {
      print_text(runlog::in_words(comparison, first, other));
    }
  }
  if (options.json) print_json({{"equal", all_equal}, {"pairs", pairs}});
  return all_equal ? 0 : exit_code(ErrorCode::kCheckFailed);
}

/// What --verify found, in words and as JSON.
struct Findings {
  std::vector<std::string> bad, notes;
  ordered_json again = nullptr;
};

void check_signatures(const Log& log, const std::vector<store::PublicKey>& keys, Findings& findings) {
  if (!keys.empty()) {
    if (const auto fault = runlog::fault_of_signatures(log, keys); fault) {
      findings.bad.push_back(fault_text(*fault));
    } else {
      findings.notes.push_back("every record is signed by a key that was given");
    }
    return;
  }
  bool is_signed = false;
  for (const runlog::Line& line : log.lines) is_signed = is_signed || !line.keys.empty();
  findings.notes.push_back(is_signed ? "signatures were not checked: --key PUBLIC.pem does"
                                     : "nobody signed it: whoever may write the file could have made all of it anew");
}

/// What a log that is whole line by line may lack.
void check_ends(const Log& log, Findings& findings) {
  if (log.fault) findings.bad.push_back(fault_text(*log.fault));
  if (log.runs.empty()) findings.notes.push_back("there is no run in it");
  for (std::size_t at = 0; at < log.runs.size(); ++at) {
    if (log.runs[at].end) continue;
    const std::string name = log.id(log.runs[at]).hex().substr(0, 12);
    if (at + 1 < log.runs.size()) {
      findings.notes.push_back(fmt::format("run {} has no end: it was killed, and another one began after it", name));
    } else if (!log.fault) {
      findings.bad.push_back(
          fmt::format("run {} has no end: it was killed or still runs, or lines were cut off at the end", name));
    }
  }
}

Result<void> check_again(const LogCommand& options, const RunData& run, Findings& findings) {
  Progress progress(options.json);
  CRUCIBLE_TRY(const RunData again, runlog::run_again(run, options.recording, options.device, terminal(progress)));
  progress.say("");
  const Comparison comparison = runlog::compare(run, again);
  const bool is_same = runlog::is_again(comparison, run), is_promised = comparison.both_strict;
  findings.again = comparison_json(comparison, run, again);
  findings.again["equal"] = is_same;
  findings.again["promised"] = is_promised;
  findings.again["device"] =
      again.begin.machine.device.empty() ? again.begin.machine.backend : again.begin.machine.device;
  const std::string where = fmt::format("run {} again on {}", run.name, findings.again["device"].get<std::string>());
  const std::string promise = is_promised ? "" : " (fast numerics promise no equal bits)";
  if (is_same) {
    findings.notes.push_back(fmt::format("{}: equal in every iteration that was logged{}", where, promise));
  } else if (comparison.parting) {
    findings.bad.push_back(fmt::format("{}: other {} in iteration {}, the first that differs{}", where,
                                       comparison.parting->what, comparison.parting->iteration, promise));
  } else {
    findings.bad.push_back(fmt::format("{}: another {}{}", where,
                                       !comparison.same_program ? "program"
                                       : !comparison.same_start ? "state before the first iteration"
                                                                : "state at the end",
                                       promise));
  }
  return {};
}

Result<void> check_recording(const LogCommand& options, const std::vector<Log>& logs, Findings& findings) {
  const Log& log = logs[0];
  CRUCIBLE_TRY(std::vector<Chosen> chosen, named_runs(options, logs));
  if (chosen.empty() && !log.runs.empty()) chosen.push_back({&log, &log.runs.back()});
  for (const Chosen& each : chosen) {
    const RunData run = runlog::data_of(*each.log, *each.run);
    CRUCIBLE_TRY(const std::string fault, runlog::fault_of_recording(run, options.recording));
    if (!fault.empty()) {
      findings.bad.push_back(fault);
      continue;
    }
    findings.notes.push_back(
        fmt::format("run {} is of {} and of the program that it has", run.name, options.recording));
    if (options.again) CRUCIBLE_TRY_VOID(check_again(options, run, findings));
  }
  return {};
}

Result<int> verify_logs(const LogCommand& options, const std::vector<Log>& logs) {
  std::vector<store::PublicKey> keys;
  for (const std::string& file : options.keys) {
    CRUCIBLE_TRY(store::PublicKey key, store::PublicKey::read(file));
    keys.push_back(std::move(key));
  }
  bool all_good = true;
  ordered_json documents = ordered_json::array();
  for (const Log& log : logs) {
    Findings findings;
    check_ends(log, findings);
    check_signatures(log, keys, findings);
    if (!options.recording.empty()) CRUCIBLE_TRY_VOID(check_recording(options, logs, findings));
    const bool is_good = findings.bad.empty();
    all_good = all_good && is_good;
    if (options.json) {
      ordered_json document = log_json(log);
      document["verified"] = is_good;
      document["bad"] = findings.bad;
      document["notes"] = findings.notes;
      document["again"] = findings.again;
      documents.push_back(std::move(document));
      continue;
    }
    print_text(runs_text(log));
    for (const std::string& note : findings.notes) print_text("  " + note + "\n");
    for (const std::string& bad : findings.bad)
      print_text("  not good: " + bad + "\n", use_colour(1) ? Colour::kBad : Colour::kNone);
    print_text(is_good ? fmt::format("{} is sound\n", log.file) : fmt::format("{} is not sound\n", log.file));
  }
  if (options.json) print_json(logs.size() == 1 ? documents[0] : ordered_json{{"logs", documents}});
  return all_good ? 0 : exit_code(ErrorCode::kCheckFailed);
}

Result<int> show(const LogCommand& options, const std::vector<Log>& logs) {
  const Log& log = logs[0];
  CRUCIBLE_TRY(const std::vector<Chosen> chosen, named_runs(options, logs));
  ordered_json runs = ordered_json::array();
  for (const Chosen& each : chosen) {
    if (options.json) {
      runs.push_back(run_json(*each.log, *each.run, true));
    } else {
      print_text(records_text(*each.log, *each.run));
    }
  }
  if (options.json) {
    print_json(chosen.empty() ? log_json(log) : ordered_json{{"file", log.file}, {"runs", runs}});
  } else if (chosen.empty()) {
    print_text(runs_text(log));
  }
  if (!log.fault) return 0;
  tell("crucible: warning: {}: {}; what follows it is not shown\n", log.file, fault_text(*log.fault));
  return exit_code(ErrorCode::kCheckFailed);
}

Result<void> check_switches(const LogCommand& options) {
  const auto refuse = [](const char* words) { return Error{ErrorCode::kUsage, words}; };
  if (options.verify && options.compare)
    return refuse("--verify looks at logs and --compare at runs: leave one of them out");
  if (!options.verify && (!options.keys.empty() || !options.recording.empty() || options.again))
    return refuse("--key, --recording and --again say what --verify looks at: add --verify");
  if (options.again && options.recording.empty()) return refuse("--again runs a recording again: add --recording FILE");
  if (options.verify && !options.runs.empty() && options.recording.empty())
    return refuse("--verify looks at all of a log, and --run says which run --recording is of: add that");
  if (options.again && options.runs.size() > 1) return refuse("--again runs one run again: give one --run");
  if (!options.recording.empty() && options.files.size() > 1)
    return refuse("--recording is that of one log: name one log alone");
  if (!options.again && (!options.device.backend.empty() || !options.device.device.empty()))
    return refuse("--backend and --device say where --again runs: add --verify --again --recording FILE");
  return {};
}

Result<int> log_command(const LogCommand& options) {
  CRUCIBLE_TRY_VOID(check_switches(options));
  std::vector<Log> logs;
  for (const std::string& file : options.files) {
    CRUCIBLE_TRY(Log log, runlog::read_log(file));
    logs.push_back(std::move(log));
  }
  if (options.verify) return verify_logs(options, logs);
  if (!options.compare && logs.size() == 1) return show(options, logs);
  for (const Log& log : logs) {
    if (log.fault) {
      return Error{ErrorCode::kCheckFailed, fmt::format("{}: {}; runs of a log that is damaged are not compared",
                                                        log.file, fault_text(*log.fault))};
    }
  }
  return compare_runs(options, logs);
}

}  // namespace

void add_log(Commands& commands) {
  auto options = std::make_shared<LogCommand>();  // shared with the callback, which runs after this function
  CLI::App* command = add_reading_subcommand(
      commands.app, "log",
      "What `replay --log` wrote: its runs, whether the chain is sound, whether runs ended in the same state.",
      "crucible log runs.crlog --verify --key ours.pem.pub\n  crucible log nvidia.crlog amd.crlog");
  command->add_option("files", options->files, "A run log; of two or more the last runs are compared")->required();
  command->add_option("--run", options->runs, "Only this run, by the first digits of its name; again for more")
      ->allow_extra_args(false)
      ->take_all();
  command->add_flag("--compare", options->compare,
                    "Compare runs: all of the log, or those of --run; 0 when they ran the same program from the same "
                    "state and ended in the same one, 1 otherwise");
  command->add_flag("--verify", options->verify,
                    "Check the chain, the signatures and the end; 1 when something is bad");
  command
      ->add_option("--key", options->keys,
                   "With --verify: a public Ed25519 key (PEM) that may have signed; again for more")
      ->allow_extra_args(false)
      ->take_all();
  command->add_option("--recording", options->recording,
                      "With --verify: the recording that the run (of --run, else the last one) has to be of");
  command->add_flag("--again", options->again,
                    "With --verify --recording: run it again and compare every hash that was logged");
  command->add_flag("--json", options->json, "One JSON document on standard output");
  add_device_switches(*command, options->device);
  add_sandbox_switch(*command, options->device);
  command->callback([&commands, options] {
    if (options->verify && !options->recording.empty()) {
      commands.before = [options] { return enter_sandbox(options->device, {options->recording, {}}); };
    }
    commands.run = [options] { return log_command(*options); };
  });
}

}  // namespace crucible::cli
