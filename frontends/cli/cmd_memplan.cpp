// `crucible memplan`: the planner alone, on an instance that any compiler can write as CSV. Every plan that is printed
// has been judged by the independent checker.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/terminal.hpp"
#include "core/memory/certificate.hpp"
#include "core/memory/instance_csv.hpp"
#include "core/memory/plan.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/text_sink.hpp"

namespace crucible::cli {
namespace {

using Json = nlohmann::ordered_json;

struct MemplanOptions {
  std::string file, output;
  std::uint64_t capacity = memory::kNoCapacity, budget = memory::Options::kThorough, alignment = 1;
  std::uint32_t threads = 1;
  bool json = false;
};

/// What there is to report: the same facts for text and JSON.
struct MemplanReport {
  std::string file;
  memory::Instance instance;
  memory::Solution solution;
  memory::Certificate certificate;
  std::uint64_t time_ns = 0;
};

/// Says on a terminal what is being done, where it may take long.
void say(const std::string& what) {
  if (isatty(2) == 1) tell("crucible memplan: {}\n", what);
}

Result<std::string> read_text(const std::string& path) {
  const auto failed = [&] {
    return Error{ErrorCode::kBadInput, fmt::format("cannot read {}: {}", path, std::strerror(errno))};
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) return failed();
  std::string text;
  constexpr std::size_t kPiece = 1 << 22;
  for (std::size_t size = kPiece; size == kPiece;) {
    const std::size_t before = text.size();
    text.resize(before + kPiece);
    size = std::fread(text.data() + before, 1, kPiece, file.get());
    text.resize(before + size);
  }
  if (std::ferror(file.get()) != 0) return failed();
  return text;
}

std::string_view outcome_name(memory::Outcome outcome) {
  switch (outcome) {
    case memory::Outcome::kFound:
      return "found";
    case memory::Outcome::kImpossible:
      return "impossible";
    case memory::Outcome::kNotFound:
      return "not_found";
  }
  return "";
}

Json names(const MemplanReport& report, const std::vector<std::uint32_t>& buffers) {
  Json list = Json::array();
  for (const std::uint32_t buffer : buffers) {
    list.push_back({{"id", report.instance.ids[buffer]},
                    {"size_bytes", report.instance.problem.buffers[buffer].size_bytes}});
  }
  return list;
}

Json space_json(const MemplanReport& report, std::size_t index) {
  const memory::SpacePlan& plan = report.solution.spaces[index];
  const memory::Space& space = report.instance.problem.spaces[index];
  Json json = {{"outcome", outcome_name(plan.outcome)},
               {"lower_bound_bytes", plan.lower_bound_bytes},
               {"lower_bound_step", plan.lower_bound_time},
               {"peak_bytes", plan.peak_bytes},
               {"capacity_bytes", nullptr},
               {"optimal", plan.optimal},
               {"reason", plan.reason},
               {"witness", names(report, plan.witness)}};
  if (space.capacity_bytes != memory::kNoCapacity) json["capacity_bytes"] = space.capacity_bytes;
  return json;
}

/// The keys of `crucible plan` at the top (sums, where there are several spaces), and each space below.
Json to_json(const MemplanReport& report) {
  std::uint64_t bound = 0, peak = 0;
  bool optimal = true;
  Json spaces = Json::array(), witness = Json::array();
  for (std::size_t i = 0; i < report.solution.spaces.size(); ++i) {
    bound += report.solution.spaces[i].lower_bound_bytes;
    peak += report.solution.spaces[i].peak_bytes;
    optimal = optimal && report.solution.spaces[i].optimal;
    spaces.push_back(space_json(report, i));
    for (const Json& row : spaces.back()["witness"]) witness.push_back(row);
  }
  Json json = {{"file", report.file},
               {"outcome", outcome_name(report.solution.outcome)},
               {"buffers", report.instance.ids.size()},
               {"lower_bound_bytes", bound},
               {"peak_bytes", peak},
               {"optimal", optimal},
               {"passes", report.solution.passes},
               {"time_ns", report.time_ns},
               {"certificate", nullptr},
               {"witness", std::move(witness)},
               {"spaces", std::move(spaces)}};
  if (report.certificate.is_valid) json["certificate"] = report.certificate.digest.hex();
  return json;
}

std::string to_text(const MemplanReport& report) {
  std::vector<std::vector<std::string>> rows = {
      {"space", "lower bound", "peak", "peak in bytes", "over bound", "at step", "result"}};
  for (std::size_t i = 0; i < report.solution.spaces.size(); ++i) {
    const memory::SpacePlan& plan = report.solution.spaces[i];
    const double ratio = plan.lower_bound_bytes == 0
                             ? 1.0
                             : static_cast<double>(plan.peak_bytes) / static_cast<double>(plan.lower_bound_bytes);
    std::string result = plan.outcome == memory::Outcome::kFound        ? "found"
                         : plan.outcome == memory::Outcome::kImpossible ? "impossible"
                                                                        : "not found";
    if (plan.optimal) result += plan.peak_bytes == plan.lower_bound_bytes ? ", optimal" : ", optimal (searched)";
    rows.push_back({std::to_string(i), format_bytes(plan.lower_bound_bytes), format_bytes(plan.peak_bytes),
                    std::to_string(plan.peak_bytes), fmt::format("{:.3f} %", 100 * (ratio - 1)),
                    std::to_string(plan.lower_bound_time), result});
  }
  std::string text = fmt::format("{}: {} buffers, planned in {}, {} passes of search\n\n{}", report.file,
                                 report.instance.ids.size(), format_ns(static_cast<double>(report.time_ns)),
                                 report.solution.passes, format_table(rows));
  if (report.certificate.is_valid) text += "\ncertificate " + report.certificate.digest.hex() + ", checked\n";
  return text;
}

/// Error when the plan is not there or not valid; the report has been printed by then.
Result<int> verdict(const MemplanReport& report) {
  for (std::size_t i = 0; i < report.solution.spaces.size(); ++i) {
    const memory::SpacePlan& plan = report.solution.spaces[i];
    if (plan.outcome == memory::Outcome::kFound || plan.outcome != report.solution.outcome) continue;
    const std::string_view what = plan.outcome == memory::Outcome::kImpossible
                                      ? "there is no plan within the capacity (proved)"
                                      : "no plan within the capacity was found within the budget (nothing is proved)";
    return Error{ErrorCode::kCheckFailed, fmt::format("space {}: {}: {}", i, what, plan.reason)};
  }
  return 0;
}

Result<int> memplan(const MemplanOptions& options) {
  if (options.alignment == 0 || (options.alignment & (options.alignment - 1)) != 0) {
    return Error{ErrorCode::kUsage, fmt::format("--alignment {} is not a power of two", options.alignment)};
  }
  CRUCIBLE_TRY(const std::string text, read_text(options.file));
  say(fmt::format("reading {} from {}", format_bytes(text.size()), options.file));
  const auto located = [&](const Error& error) { return Error{error.code, options.file + ": " + error.message}; };
  Result<memory::Instance> instance = memory::parse_csv(text);
  if (!instance) return located(instance.error());
  MemplanReport report{options.file, *std::move(instance), {}, {}, 0};
  for (memory::Space& space : report.instance.problem.spaces) {
    space = {.alignment = options.alignment, .capacity_bytes = options.capacity};
  }
  say(fmt::format("planning {} buffers", report.instance.ids.size()));
  const auto start = std::chrono::steady_clock::now();
  Result<memory::Solution> solution =
      memory::solve(report.instance.problem, {.budget_passes = options.budget, .threads = options.threads});
  const auto end = std::chrono::steady_clock::now();
  if (!solution) return located(solution.error());
  report.solution = *std::move(solution);
  report.time_ns =
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count());
  if (report.solution.outcome == memory::Outcome::kFound) {
    say("checking the plan");
    report.certificate = memory::certify(report.instance.problem, report.solution);
    if (!report.certificate.is_valid) return Error{ErrorCode::kInternal, report.certificate.verdict};
    if (!options.output.empty()) {
      CRUCIBLE_TRY(TextSink sink, TextSink::open(options.output, trace::Readers::kAnyone));
      sink.append(memory::to_csv(report.instance, report.solution.offsets));
      CRUCIBLE_TRY_VOID(sink.finish());
    }
  }
  if (options.json) {
    print_json(to_json(report));
  } else {
    print_text(to_text(report));
  }
  return verdict(report);
}

}  // namespace

void add_memplan(Commands& commands) {
  auto options = std::make_shared<MemplanOptions>();  // shared with the callback, which runs after this function
  CLI::App* command = add_subcommand(commands.app, "memplan",
                                     "Plans the memory of an instance in CSV: id,lower,upper,size[,alignment][,...].",
                                     "crucible memplan instance.csv --capacity 1048576 -o planned.csv");
  command->add_option("instance", options->file, "The instance (.csv)")->required();
  command->add_option("--capacity", options->capacity, "Bytes of each space: is there a plan that fits?");
  command->add_option(
      "--budget", options->budget,
      "Passes of search over all buffers; the plan depends on nothing else (default: some seconds' worth)");
  command->add_option("--alignment", options->alignment, "Of all offsets, sizes are rounded up to it (default: 1)");
  command->add_option("--threads", options->threads, "The plan is the same with any number (default: 1)")
      ->check(CLI::Range(1, 256));
  command->add_option("-o,--output", options->output, "Write the instance with a column offset to this file");
  command->add_flag("--json", options->json, "One JSON document on standard output");
  command->callback([&commands, options] { commands.run = [options] { return memplan(*options); }; });
}

}  // namespace crucible::cli
