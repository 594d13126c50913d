// Starting crucible-probe and putting its end into words.
#include "plugins/loader/probe.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "plugins/loader/candidates.hpp"
#include "plugins/loader/child.hpp"

namespace crucible::backend {
namespace {

/// The first line or two of what it wrote, on one line and between quotes.
std::string quote(const std::string& text) {
  constexpr std::size_t kMost = 240;
  std::string line;
  for (const char letter : text) {
    if (line.size() >= kMost) return line + "...";
    const bool blank = letter == '\n' || letter == '\t' || letter == ' ';
    if (blank && (line.empty() || line.back() == ' ')) continue;
    line += blank ? ' ' : static_cast<unsigned char>(letter) < ' ' ? '?' : letter;
  }
  while (line.ends_with(' ')) line.pop_back();
  return line;
}

std::string signal_text(int number) {
  const char* const name = sigabbrev_np(number);
  const char* const meaning = sigdescr_np(number);
  return fmt::format("SIG{} ({})", name == nullptr ? std::to_string(number) : name, meaning == nullptr ? "?" : meaning);
}

/// How a probe ended that did not finish, as "it ..." without a full stop.
std::string end_in_words(const ChildResult& child, const LoadPolicy& policy) {
  if (child.timed_out) return fmt::format("it did not answer within {} ms", policy.probe_time_limit.count());
  if (child.wrote_too_much) return "it wrote more than a mebibyte";
  if (!child.status_known) return "it ended the process";
  if (!WIFSIGNALED(child.status))
    return fmt::format("it ended the process with exit code {}", WEXITSTATUS(child.status));
  const int number = WTERMSIG(child.status);
  if (number == SIGXCPU) return "it used more processor time than it may";
  const auto used = static_cast<std::uint64_t>(child.usage.ru_maxrss) * 1024;
  if (used > policy.probe_memory_bytes / 4 * 3) {
    return fmt::format("it crashed with {} after it had taken {} MiB of the {} MiB that it may", signal_text(number),
                       used >> 20, policy.probe_memory_bytes >> 20);
  }
  return fmt::format("it crashed with {}", signal_text(number));
}

/// The step in which a probe ended that did not finish.
Step step_of(const ProbeAnswer& answer, ProbeDepth depth) {
  if (depth == ProbeDepth::kDevices) return Step::kInit;
  const auto has = [&](Step step) {
    return std::any_of(answer.steps.begin(), answer.steps.end(), [&](const ProbeStep& at) { return at.step == step; });
  };
  return has(Step::kDependency) ? Step::kProbe : has(Step::kInspect) ? Step::kDependency : Step::kInspect;
}

void add_unexpected_end(const OpenFile& file, const ChildResult& child, const LoadPolicy& policy, ProbeDepth depth,
                        ProbeAnswer& answer) {
  ProbeStep step;
  step.step = step_of(answer, depth);
  step.outcome = Outcome::kRefused;
  step.reason = fmt::format("plugin {}: {} while the probe was {}", file.path().string(), end_in_words(child, policy),
                            answer.doing.empty() ? "starting" : answer.doing);
  if (const std::string words = quote(child.errors); !words.empty())
    step.reason += fmt::format("; it wrote: {}", words);
  answer.steps.push_back(std::move(step));
}

}  // namespace

Result<std::filesystem::path> find_probe() {
  std::string places;
  for (const std::filesystem::path& folder : runtime_folders()) {
    for (const std::filesystem::path& place :
         {folder / "crucible-probe", folder.parent_path() / "libexec" / "crucible" / "crucible-probe"}) {
      if (access(place.c_str(), X_OK) == 0) return place;
      places += fmt::format("{}{}", places.empty() ? "" : ", ", place.string());
    }
  }
  return Error{ErrorCode::kUnavailable,
               fmt::format("crucible-probe was not found (looked for {}): install it with the runtime", places)};
}

Result<ProbeAnswer> run_probe(const OpenFile& file, const LoadPolicy& policy, ProbeDepth depth,
                              const std::map<std::string, std::string>& options) {
  CRUCIBLE_TRY(const std::filesystem::path probe, find_probe());
  const bool devices = depth == ProbeDepth::kDevices;
  // Drivers reserve far more addresses than memory when they are started: the limit is for the query alone.
  const std::uint64_t memory = devices ? ~std::uint64_t{0} : policy.probe_memory_bytes;
  const auto cpu_seconds = std::chrono::ceil<std::chrono::seconds>(policy.probe_time_limit).count() + 1;
  std::vector<std::string> command = {probe.string(), file.path().string(), std::to_string(memory),
                                      std::to_string(cpu_seconds), devices ? "devices" : "query"};
  for (const auto& [name, value] : options) command.push_back(fmt::format("{}={}", name, value));
  CRUCIBLE_TRY(const ChildResult child, run_child(command, file.descriptor(), policy.probe_time_limit));
  ProbeAnswer answer;
  for (std::size_t start = 0, end; (end = child.answers.find('\n', start)) != std::string::npos; start = end + 1) {
    take_line(std::string_view(child.answers).substr(start, end - start), answer);
  }
  if (!answer.finished) {
    add_unexpected_end(file, child, policy, depth, answer);
    return answer;
  }
  // Words on a stream are harmless, except that standard output is where a command's results go.
  for (ProbeStep& step : answer.steps) {
    if (step.step != Step::kProbe) continue;
    if (step.outcome == Outcome::kPassed && !(child.output + child.errors).empty()) {
      step.outcome = Outcome::kWarned;
      step.reason += fmt::format("; it writes to standard {} by itself: {}", child.output.empty() ? "error" : "output",
                                 quote(child.output + child.errors));
    } else if (step.outcome == Outcome::kRefused && !child.errors.empty()) {
      step.reason += fmt::format("; it wrote: {}", quote(child.errors));
    }
  }
  return answer;
}

}  // namespace crucible::backend
