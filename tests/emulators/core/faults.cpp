// Parsing and counting fault rules: see faults.hpp.
#include "tests/emulators/core/faults.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <span>
#include <utility>

#include "tests/emulators/core/settings.hpp"

namespace crucible::emulator {
namespace {

constexpr std::string_view kActions[] = {"oom",  "fail", "lost", "hang", "trap", "flip",
                                         "slow", "hot",  "ecc",  "xid",  "deny", "missing"};
constexpr std::string_view kSites[] = {"init",   "alloc", "free",   "copy",   "compile", "load",
                                       "launch", "sync",  "record", "submit", "query"};

std::string listed(std::span<const std::string_view> words) {
  std::string all;
  for (const std::string_view word : words) all += (all.empty() ? "" : ", ") + std::string(word);
  return all;
}

/// The place of `word` in `words`.
std::optional<std::size_t> place(std::span<const std::string_view> words, std::string_view word) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == word) return i;
  }
  return std::nullopt;
}

template <class T>
bool read_all(std::string_view word, T& out) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), out);
  return error == std::errc() && end == word.data() + word.size();
}

bool ends_with_unit(std::string_view word, std::string_view unit, std::string_view& number) {
  if (!word.ends_with(unit) || word.find('=') != std::string_view::npos) return false;
  number = word.substr(0, word.size() - unit.size());
  return true;
}

/// Reads one argument into the rule. Returns what is wrong with it, "" when nothing is.
std::string read_argument(std::string_view word, Rule& rule) {
  std::string_view number;
  if (ends_with_unit(word, "GBps", number)) {
    if (rule.action != Action::kSlow) return "only slow has a rate";
    return read_all(number, rule.gigabytes_per_second) && rule.gigabytes_per_second > 0 ? "" : "no rate above 0";
  }
  if (ends_with_unit(word, "ms", number)) {
    if (rule.action != Action::kHang && rule.action != Action::kSlow) return "only hang and slow have a time";
    double wait = 0;
    if (!read_all(number, wait) || wait < 0) return "no time";
    rule.wait_ms = wait;
    return "";
  }
  const std::size_t sign = word.find('=');
  const std::string_view key = word.substr(0, sign);
  const std::string_view value = sign == std::string_view::npos ? std::string_view() : word.substr(sign + 1);
  if (key == "code" && !value.empty()) {
    rule.code = value;
    return "";
  }
  struct Number {
    std::string_view key;
    Action action;
    std::uint64_t* target;
  };
  for (const Number& number : {Number{"arg", Action::kFlip, &rule.arg},
                               {"byte", Action::kFlip, &rule.byte},
                               {"bit", Action::kFlip, &rule.bit},
                               {"celsius", Action::kHot, &rule.celsius},
                               {"count", Action::kEcc, &rule.count},
                               {"corrected", Action::kEcc, &rule.corrected},
                               {"number", Action::kXid, &rule.number}}) {
    if (key != number.key) continue;
    if (rule.action != number.action) return "only " + std::string(name(number.action)) + " has it";
    return read_all(value, *number.target) ? "" : "no number";
  }
  return "arguments are 250ms, 1.5GBps, code=NAME, arg=K, byte=B, bit=N, celsius=C, count=N, corrected=N, number=N";
}

std::string read_arguments(std::string_view words, Rule& rule) {
  while (true) {
    const std::size_t comma = words.find(',');
    const std::string_view word = words.substr(0, comma);
    if (const std::string problem = read_argument(word, rule); !problem.empty()) {
      return "argument '" + std::string(word) + "': " + problem;
    }
    if (comma == std::string_view::npos) return "";
    words = words.substr(comma + 1);
  }
}

/// "#3", "#3+", "%3" or nothing.
std::string read_when(std::string_view word, Rule& rule) {
  if (word.empty()) return "";
  const bool from = word.front() == '#' && word.back() == '+';
  const std::string_view number = word.substr(1, word.size() - (from ? 2 : 1));
  if ((word.front() != '#' && word.front() != '%') || !read_all(number, rule.n) || rule.n == 0) {
    return "'" + std::string(word) + "' is none of #n, #n+, %n with n from 1 on";
  }
  rule.when = word.front() == '%' ? When::kEveryNth : from ? When::kFromNth : When::kNth;
  return "";
}

std::string read_site(std::string_view words, Rule& rule) {
  std::size_t end = words.find_first_of("(#%");
  const std::string_view site = words.substr(0, end);
  const auto found = place(kSites, site);
  if (!found) return "no site '" + std::string(site) + "': there are " + listed(kSites);
  rule.site = static_cast<Site>(*found);
  if (end == std::string_view::npos) return "";
  if (words[end] == '(') {
    const std::size_t close = words.find(')', end);
    if (close == std::string_view::npos) return "the name's ')' is missing";
    rule.glob = words.substr(end + 1, close - end - 1);
    if (rule.glob.empty()) return "the name in '()' is empty";
    end = close + 1;
  }
  return read_when(words.substr(end), rule);
}

std::string read_rule(std::string_view words, Rule& rule) {
  const std::size_t at = words.find('@');
  if (at == std::string_view::npos) return "there is no '@'";
  const std::string_view head = words.substr(0, at);
  const std::size_t colon = head.find(':');
  const auto action = place(kActions, head.substr(0, colon));
  if (!action) return "no action '" + std::string(head.substr(0, colon)) + "': there are " + listed(kActions);
  rule.action = static_cast<Action>(*action);
  if (colon != std::string_view::npos) {
    if (const std::string problem = read_arguments(head.substr(colon + 1), rule); !problem.empty()) return problem;
  }
  if (rule.action == Action::kSlow && !rule.wait_ms && rule.gigabytes_per_second == 0) {
    return "slow needs a rate (1.5GBps) or a time (250ms)";
  }
  if (const std::string problem = read_site(words.substr(at + 1), rule); !problem.empty()) return problem;
  const bool is_of_queries = rule.action >= Action::kHot;
  return is_of_queries && rule.site != Site::kQuery ? std::string(name(rule.action)) + " is for the site query alone"
                                                    : "";
}

bool fires(const Rule& rule) {
  switch (rule.when) {
    case When::kEach:
      return true;
    case When::kNth:
      return rule.seen == rule.n;
    case When::kFromNth:
      return rule.seen >= rule.n;
    case When::kEveryNth:
      return rule.seen % rule.n == 0;
  }
  return false;
}

std::mutex faults_mutex;

std::unique_ptr<Faults>& current_faults() {
  static auto& current = *new std::unique_ptr<Faults>;  // never destroyed: threads of a driver outlive main
  return current;
}

std::unique_ptr<Faults> from_settings() {
  auto rules = parse_faults(settings().faults);
  if (!rules) give_up("CRUCIBLE_EMU_FAULTS: " + rules.error());
  return std::make_unique<Faults>(*std::move(rules), settings().log);
}

}  // namespace

std::string_view name(Action action) { return kActions[static_cast<std::size_t>(action)]; }
std::string_view name(Site site) { return kSites[static_cast<std::size_t>(site)]; }

std::expected<std::vector<Rule>, std::string> parse_faults(std::string_view text) {
  std::vector<Rule> rules;
  std::string words;
  for (const char c : std::string(text) + ";") {
    if (c == ' ' || c == '\t' || c == '\n') continue;
    if (c != ';') {
      words += c;
      continue;
    }
    if (words.empty()) continue;
    Rule rule;
    if (const std::string problem = read_rule(words, rule); !problem.empty()) {
      return std::unexpected("rule '" + words + "': " + problem);
    }
    rules.push_back(rule);
    words.clear();
  }
  return rules;
}

Faults::Faults(std::vector<Rule> rules, std::string log_file)
    : rules_(std::move(rules)), log_file_(std::move(log_file)) {}

std::optional<Rule> Faults::hit(Site site, std::string_view at) {
  static constexpr Action kEverywhere[] = {Action::kOom,  Action::kFail, Action::kLost, Action::kHang,
                                           Action::kTrap, Action::kFlip, Action::kSlow};
  return hit(site, at, kEverywhere);
}

std::optional<Rule> Faults::hit(Site site, std::string_view at, std::span<const Action> possible) {
  const std::lock_guard lock(mutex_);
  if (rules_.empty()) return std::nullopt;
  const std::string name_at(at);
  const Rule* fired = nullptr;
  for (Rule& rule : rules_) {
    if (rule.site != site || fnmatch(rule.glob.c_str(), name_at.c_str(), 0) != 0) continue;
    if (std::ranges::find(possible, rule.action) == possible.end()) continue;
    ++rule.seen;
    if (fired == nullptr && fires(rule)) fired = &rule;
  }
  if (fired == nullptr) return std::nullopt;
  append(std::string(name(fired->action)) + "@" + std::string(name(site)) + "(" + name_at + ") match " +
         std::to_string(fired->seen));
  return *fired;
}

void Faults::note(std::string_view line) {
  const std::lock_guard lock(mutex_);
  append(std::string(line));
}

void Faults::append(const std::string& line) {
  if (log_file_.empty()) return;
  // Opened for each line: several processes may write one log, and a line has to be there when the next call dies.
  std::FILE* const file = std::fopen(log_file_.c_str(), "a");
  if (file == nullptr) give_up("CRUCIBLE_EMU_LOG: " + log_file_ + " cannot be written");
  std::fputs((line + "\n").c_str(), file);
  std::fclose(file);
}

Faults& faults() {
  const std::lock_guard lock(faults_mutex);
  if (current_faults() == nullptr) current_faults() = from_settings();
  return *current_faults();
}

void reload_faults() {
  const std::lock_guard lock(faults_mutex);
  current_faults() = from_settings();
}

}  // namespace crucible::emulator
