// Reading the reports, and saying what they say.
#include "frontends/cli/record_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/base/terminal.hpp"
#include "core/base/words.hpp"
#include "core/trace/text.hpp"
#include "frontends/cli/command.hpp"

namespace crucible::cli {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

ordered_json read_object(const fs::path& path) {
  std::ifstream source(path);
  ordered_json read = ordered_json::parse(source, nullptr, false);
  return read.is_object() ? read : ordered_json::object();
}

std::string ops_text(const ordered_json& report) {
  const auto counts = report.value("ops_per_iteration", std::vector<std::uint64_t>{});
  if (counts.empty()) return "0 ops";
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  return *least == *most ? fmt::format("{} ops each", *least) : fmt::format("{} to {} ops each", *least, *most);
}

/// "", or whose file it is when there are several: "rank 1: ".
std::string owner(const ordered_json& report) {
  return report.contains("rank") && report["rank"].is_number() ? fmt::format("rank {}: ", report["rank"].get<int>())
                                                               : "";
}

std::string why_waiting(const ordered_json& report, const RecordRequest& request) {
  if (!report.value("ended", false))
    return "the program ended before the recording began, without running its exit handlers";
  if (const std::string raised = report.value("raised", ""); !raised.empty()) return raised + " before recording began";
  const std::uint64_t steps = report.value("steps", std::uint64_t{0});
  const bool is_module = report.contains("kind") && report["kind"] == "module";
  if (report.value("events", std::uint64_t{0}) == 0) {
    if (report.value("backward", false)) {
      return "no optimizer step was seen, and what repeats was not found; call crucible.step() at the end of each "
             "iteration (import crucible)";
    }
    return "no optimizer step was seen; call crucible.step() at the end of each iteration (import crucible)";
  }
  if (const auto waits = report.value("waits_for", std::vector<std::string>{}); !waits.empty()) {
    return fmt::format(
        "an optimizer of the program ({}) never stepped, so what repeats was not certain after {} steps; run more "
        "steps, "
        "or call crucible.step() at the end of each iteration",
        waits.front(), steps);
  }
  if (steps == 0)
    return "the optimizers' steps do not repeat in any order; call crucible.step() at the end of each iteration "
           "(import crucible)";
  if (report.value("signal_missing", false)) return "the signal of --on-signal did not arrive";
  const char* what = is_module ? "module calls" : "steps";
  if (request.first_option == "--warmup") {
    return fmt::format("the program made {} {} and the warm-up takes {}; run at least {} {}, or lower --warmup", steps,
                       what, request.first_iteration - 1, request.first_iteration, what);
  }
  return fmt::format("the program made {} {} and {} is {}; run more, or lower it", steps, what, request.first_option,
                     request.first_iteration);
}

std::string why_not(const ordered_json& report, const RecordRequest& request) {
  const std::string state = report.value("state", "");
  if (state == "refused" || state == "failed") return report.value("message", "the recorder gave no reason");
  if (state == "recording") {
    return fmt::format(
        "the program ended while it was recorded, without running its exit handlers; crucible trace recover {} "
        "makes a file of the iterations that were complete",
        request.output);
  }
  return why_waiting(report, request);
}

}  // namespace

RecordReport RecordReport::read(const fs::path& status) {
  RecordReport all;
  all.plain_state_ = read_object(status).value("state", "");
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(status.parent_path(), error)) {
    if (entry.path().extension() != ".report") continue;
    ordered_json report = read_object(entry.path());
    auto& place = report.value("state", "") == "written" ? all.written_ : all.others_;
    if (!report.empty()) place.push_back(std::move(report));
  }
  const auto by_number = [](const ordered_json& a, const ordered_json& b) {
    const auto number = [](const ordered_json& report) {
      return report.contains("rank") && report["rank"].is_number() ? report["rank"].get<int>()
                                                                   : report.value("process", 0);
    };
    return number(a) < number(b);
  };
  std::sort(all.written_.begin(), all.written_.end(), by_number);
  std::sort(all.others_.begin(), all.others_.end(), by_number);
  return all;
}

std::string RecordReport::why_nothing(const RecordRequest& request) const {
  if (!written_.empty()) return "";
  // A process that was refused says more than one that only waited.
  const ordered_json* telling = nullptr;
  for (const ordered_json& report : others_) {
    if (telling == nullptr || (telling->value("state", "") == "waiting" && report.value("state", "") != "waiting"))
      telling = &report;
  }
  if (telling != nullptr) return why_not(*telling, request);
  if (plain_state_ == "python") return "the program never imported torch";
  return fmt::format("no Python that reads PYTHONPATH was started by '{}' (one with -I, -E or -S does not)",
                     request.program);
}

std::vector<std::string> RecordReport::files_of_ranks() const {
  std::vector<std::string> files;
  for (const ordered_json& report : written_) {
    if (!owner(report).empty()) files.push_back(report.value("path", ""));
  }
  return files;
}

void RecordReport::print_summary(const RecordRequest& request) const {
  for (const ordered_json& report : written_) {
    const std::uint64_t iterations = report.value("iterations", std::uint64_t{0});
    const std::string path = written_.size() == 1 && owner(report).empty() ? request.output : report.value("path", "");
    const std::string who = owner(report);
    tell("crucible: {}recorded {} iteration{}, {}, {} -> {}\n", who, iterations, iterations == 1 ? "" : "s",
         ops_text(report), format_bytes(report.value("bytes", std::uint64_t{0})), printable(path));
    for (const auto& reason : report.value("incomplete", ordered_json::array())) {
      tell("crucible: {}incomplete: {}\n", who, printable(reason.get<std::string>()));
    }
    for (const auto& note : report.value("notes", ordered_json::array())) {
      tell("crucible: {}{}\n", who, printable(note.get<std::string>()));
    }
    for (const auto& item : report.value("not_recorded", ordered_json::array())) {
      const std::string what = printable(item.value("what", "")), site = printable(item.value("site", "?"));
      const std::uint64_t count = item.value("count", std::uint64_t{0});
      const bool is_alone = count == 1 && site == "?";
      tell("crucible: {}not recorded: {}{}\n", who, what,
           is_alone ? "" : fmt::format(", {} times, first at {}", count, site));
    }
  }
  for (const ordered_json& report : others_) {
    if (written_.empty() || report.value("state", "") == "waiting") continue;  // children that only help do not step
    tell("crucible: process {} was not recorded: {}\n", report.value("process", 0), why_not(report, request));
  }
}

ordered_json RecordReport::document(const RecordRequest& request, int program_code) const {
  const ordered_json report = written_.empty() ? ordered_json::object() : written_.front();
  const std::string problem = why_nothing(request);
  ordered_json document;
  document["iterations"] = report.value("iterations", std::uint64_t{0});
  document["ops"] = report.value("ops", std::uint64_t{0});
  document["ops_per_iteration"] = report.value("ops_per_iteration", ordered_json::array());
  document["bytes"] = report.value("bytes", std::uint64_t{0});
  document["incomplete"] =
      problem.empty() ? report.value("incomplete", ordered_json::array()) : ordered_json::array({problem});
  document["not_recorded"] = report.value("not_recorded", ordered_json::array());
  document["notes"] = report.value("notes", ordered_json::array());
  document["overhead_ns_per_op"] = report.value("overhead_ns_per_op", std::uint64_t{0});
  document["frontend"] = report.value("frontend", "");
  document["end_of_iteration"] = report.value("end_of_iteration", "");
  if (!problem.empty()) {
    document["path"] = nullptr;
  } else {
    document["path"] = written_.size() == 1 && owner(report).empty() ? request.output : report.value("path", "");
  }
  document["files"] = ordered_json::array();
  for (const ordered_json& file : written_) {
    document["files"].push_back({{"path", file.value("path", "")},
                                 {"rank", file.contains("rank") ? file["rank"] : ordered_json(nullptr)},
                                 {"world_size", file.value("world_size", 1)},
                                 {"iterations", file.value("iterations", std::uint64_t{0})},
                                 {"ops", file.value("ops", std::uint64_t{0})},
                                 {"bytes", file.value("bytes", std::uint64_t{0})}});
  }
  document["exit_code"] = program_code;
  return document;
}

}  // namespace crucible::cli
