// Variants in words: see variants_text.hpp.
#include "frontends/cli/variants_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "core/base/figures.hpp"
#include "core/base/words.hpp"

namespace crucible::cli {
namespace {

bool is_seam(const graph::Turn& turn) { return std::ranges::any_of(turn.given, &graph::Given::is_seam); }

std::size_t states_given(const graph::Turn& turn) {
  return static_cast<std::size_t>(std::ranges::count_if(turn.given, &graph::Given::is_seam));
}

std::uint32_t first_iteration(const graph::Variants& variants, std::size_t v) {
  return std::ranges::find(variants.turns, v, &graph::Turn::variant)->iteration;
}

/// "0 x4, 1, |0 x3": variants in the order in which they ran, those in a row together; | is a seam.
std::string order_text(const graph::Variants& variants) {
  constexpr std::size_t kShown = 60;
  std::string text;
  std::size_t shown = 0;
  for (std::size_t k = 0; k < variants.turns.size();) {
    if (++shown > kShown) return text + ", ...";
    std::size_t end = k + 1;
    while (end < variants.turns.size() && variants.turns[end].variant == variants.turns[k].variant &&
           !is_seam(variants.turns[end]))
      ++end;
    text += fmt::format("{}{}{}{}", k == 0 ? "" : ", ", is_seam(variants.turns[k]) ? "|" : "",
                        variants.turns[k].variant, end - k == 1 ? "" : fmt::format(" x{}", end - k));
    k = end;
  }
  return text;
}

/// Which variants a person is shown, in their order: those that ran most often, of equal ones the first.
std::vector<std::size_t> most_used(const graph::Variants& variants) {
  constexpr std::size_t kShown = 16;
  std::vector<std::size_t> shown(variants.programs.size());
  std::iota(shown.begin(), shown.end(), std::size_t{0});
  std::ranges::stable_sort(shown, std::ranges::greater(),
                           [&](std::size_t v) { return variants.programs[v]->iterations; });
  if (shown.size() > kShown + 1) shown.resize(kShown);  // a line about one row is as long as the row
  std::ranges::sort(shown);
  return shown;
}

constexpr std::size_t kMostWays = 16;  // of a branch
constexpr int kMostDeep = 24;

/// Adds the branch and those that its ways lead to, each further in.
void add_branch(const graph::Branches& branches, std::uint32_t number, int depth, std::string& text) {
  const std::string margin(static_cast<std::size_t>(depth) * 4 + 2, ' ');
  if (depth > kMostDeep) {
    text += margin + "further branches: --json lists all\n";
    return;
  }
  const graph::Branch& branch = branches[number];
  text += fmt::format("{}{}\n", margin, printable(branch_words(branch)));
  std::size_t widest = 0;
  for (std::size_t k = 0; k < std::min(branch.arms.size(), kMostWays); ++k)
    widest = std::max(widest, branch.arms[k].when.size());
  widest = std::min<std::size_t>(widest, 32);
  for (std::size_t k = 0; k < branch.arms.size(); ++k) {
    if (k == kMostWays) {
      text += fmt::format("{}  and {} more ways: --json lists all\n", margin, branch.arms.size() - k);
      break;
    }
    const graph::Arm& arm = branch.arms[k];
    const bool is_end = arm.next == graph::kNone;
    text += fmt::format(
        "{}  {:{}}  {}, {}\n", margin, printable(arm.when), widest,
        is_end ? fmt::format("variant {}", arm.variants[0]) : fmt::format("{} variants", arm.variants.size()),
        times_in_words(arm.iterations));
    if (!is_end) add_branch(branches, arm.next, depth + 1, text);
  }
  if (branch.alike_after > 0) {
    text += fmt::format("{}  and then, the same on all ways, the last {}\n", margin,
                        branch.alike_after == 1 ? "op" : fmt::format("{} ops", branch.alike_after));
  }
}

}  // namespace

std::string branch_words(const graph::Branch& branch) {
  return fmt::format("op {}, {}: {}", branch.op, branch.site, branch.words);
}

std::string variants_text(const graph::Variants& variants, const graph::Branches& branches) {
  std::vector<std::vector<std::string>> rows = {{"variant", "iterations", "first", "ops"}};
  const std::vector<std::size_t> shown = most_used(variants);
  for (const std::size_t v : shown) {
    rows.push_back({fmt::format("{}", v), fmt::format("{}", variants.programs[v]->iterations),
                    fmt::format("{}", first_iteration(variants, v)),
                    fmt::format("{}", variants.programs[v]->ops.size())});
  }
  std::string text = format_table(rows);
  if (const std::size_t more = variants.programs.size() - shown.size(); more > 0) {
    const std::size_t iterations =
        std::accumulate(shown.begin(), shown.end(), variants.turns.size(),
                        [&](std::size_t left, std::size_t v) { return left - variants.programs[v]->iterations; });
    text += fmt::format("and {} more, which ran {} iterations (--json lists all)\n", more, iterations);
  }
  text += fmt::format("order    {}\n", order_text(variants));
  if (graph::shares_nothing(variants)) text += fmt::format("shared   {}\n", graph::kSharesNothing);
  if (variants.seams() > 0) {
    text += fmt::format("seams    {} (|): something changed {} states there where nothing is recorded\n",
                        variants.seams(), variants.states_given());
  }
  if (branches.empty()) return text;
  text += "branches, at the first recorded op that is not the same:\n";
  add_branch(branches, 0, 0, text);
  return text;
}

nlohmann::ordered_json variants_document(const graph::Variants& variants, const graph::Branches& branches) {
  nlohmann::ordered_json document = {
      {"count", variants.programs.size()},           {"seams", variants.seams()},
      {"states_given", variants.states_given()},     {"variants", nlohmann::ordered_json::array()},
      {"branches", nlohmann::ordered_json::array()}, {"turns", nlohmann::ordered_json::array()}};
  for (std::size_t v = 0; v < variants.programs.size(); ++v) {
    document["variants"].push_back({{"variant", v},
                                    {"iterations", variants.programs[v]->iterations},
                                    {"ops", variants.programs[v]->ops.size()},
                                    {"values", variants.programs[v]->values.size()},
                                    {"first_iteration", first_iteration(variants, v)},
                                    {"difference", variants.differences[v]}});
  }
  for (const graph::Branch& branch : branches) {
    nlohmann::ordered_json ways = nlohmann::ordered_json::array();
    for (const graph::Arm& arm : branch.arms) {
      ways.push_back(
          {{"when", arm.when}, {"variants", arm.variants}, {"iterations", arm.iterations}, {"next", nullptr}});
      if (arm.next != graph::kNone) ways.back()["next"] = arm.next;
    }
    document["branches"].push_back({{"op", branch.op},
                                    {"op_name", branch.op_name},
                                    {"site", branch.site},
                                    {"guard", graph::name(branch.guard)},
                                    {"words", branch.words},
                                    {"alike_after", branch.alike_after},
                                    {"ways", std::move(ways)}});
  }
  for (const graph::Turn& turn : variants.turns) {
    document["turns"].push_back({{"iteration", turn.iteration},
                                 {"variant", turn.variant},
                                 {"seam", is_seam(turn)},
                                 {"states_given", states_given(turn)}});
  }
  return document;
}

}  // namespace crucible::cli
