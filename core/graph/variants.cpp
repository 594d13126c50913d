// The checker of variants: see variants.hpp.
#include "core/graph/variants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/base/words.hpp"

namespace crucible::graph {

namespace {

Error broken(const std::string& message) { return Error{ErrorCode::kInternal, fmt::format("variants: {}", message)}; }

std::int64_t bytes_of(const Program& program, const State& state) {
  const Value& value = program.values[state.start];
  return value.elements * size_bytes(value.dtype);
}

}  // namespace

std::size_t Variants::seams() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(turns, [](const Turn& turn) { return std::ranges::any_of(turn.given, &Given::is_seam); }));
}

std::size_t Variants::states_given() const {
  std::size_t sum = 0;
  for (const Turn& turn : turns) sum += static_cast<std::size_t>(std::ranges::count_if(turn.given, &Given::is_seam));
  return sum;
}

std::uint32_t Variants::moves_of(std::size_t state) const {
  const auto gives = [&](const Turn& turn) {
    return std::ranges::find(turn.given, state, &Given::state) != turn.given.end();
  };
  if (std::ranges::any_of(turns, gives)) return 0;
  std::uint32_t moves = 0;
  for (const auto& program : programs) {
    if (program->states[state].start != program->states[state].end) moves += program->iterations;
  }
  return moves;
}

Variants alone(std::shared_ptr<const Program> program) {
  Variants variants;
  for (std::uint32_t i = 0; i < program->iterations; ++i)
    variants.turns.push_back({.variant = 0, .index = i, .iteration = i, .given = {}});
  variants.programs.push_back(std::move(program));
  variants.differences.emplace_back();
  return variants;
}

bool shares_nothing(const Variants& variants) {
  return variants.programs.size() > 2 && variants.programs.size() == variants.turns.size();
}

std::string counts_in_words(const Variants& variants) {
  std::vector<std::uint32_t> iterations;
  for (const auto& program : variants.programs) iterations.push_back(program->iterations);
  return counts_in_words(iterations);
}

std::string counts_in_words(std::span<const std::uint32_t> iterations) {
  constexpr std::size_t kShown = 6;
  const std::size_t count = iterations.size();
  const bool is_each_once = std::ranges::all_of(iterations, [](const auto times) { return times == 1; });
  if (count > 2 && is_each_once) return fmt::format("{} variants, each ran once", count);
  std::vector<std::size_t> shown(count);
  std::iota(shown.begin(), shown.end(), std::size_t{0});
  const auto times_of = [&](std::size_t v) { return iterations[v]; };
  if (count > kShown) std::ranges::stable_sort(shown, std::ranges::greater(), times_of);
  shown.resize(std::min(count, kShown));
  std::string text = fmt::format("{} variant{}: ", count, count == 1 ? "" : "s");
  for (const std::size_t v : shown) {
    const bool is_first = v == shown[0];
    text += fmt::format("{}{}{} {}", is_first ? "" : ", ", v, is_first ? " ran" : "", times_in_words(iterations[v]));
  }
  return count > kShown ? text + fmt::format(", and {} more", count - kShown) : text;
}

Result<std::shared_ptr<const Program>> choose_variant(const Variants& variants, std::optional<std::uint32_t> number) {
  const std::size_t count = variants.programs.size();
  if (!number && count == 1) return variants.programs[0];
  if (number && *number < count) return variants.programs[*number];
  if (number) {
    return Error{ErrorCode::kUsage, fmt::format("--variant {}: the recording has {}", *number,
                                                count == 1 ? "one, 0" : fmt::format("{}, 0 to {}", count, count - 1))};
  }
  return Error{ErrorCode::kUsage, fmt::format("iterations of the recording run other ops or sizes ({}; {}): choose one "
                                              "with --variant N; `crucible replay` runs them all",
                                              counts_in_words(variants), variants.differences[1])};
}

Result<void> verify(const Variants& variants) {
  if (variants.programs.empty() || variants.differences.size() != variants.programs.size())
    return broken("no programs, or not a word about each");
  const Program& first = *variants.programs[0];
  for (std::size_t v = 0; v < variants.programs.size(); ++v) {
    const Program& program = *variants.programs[v];
    if (program.states.size() != first.states.size()) {
      return broken(
          fmt::format("variant {} has {} states, variant 0 {}", v, program.states.size(), first.states.size()));
    }
    for (std::size_t k = 0; k < first.states.size(); ++k) {
      const State &a = first.states[k], &b = program.states[k];
      if (a.start == kNone || b.start == kNone || bytes_of(first, a) != bytes_of(program, b) ||
          a.initial_blob != b.initial_blob || a.final_blob != b.final_blob)
        return broken(fmt::format("state {} of variant {} is not that of variant 0", k, v));
    }
  }
  std::vector<std::uint32_t> next(variants.programs.size(), 0);
  for (std::size_t k = 0; k < variants.turns.size(); ++k) {
    const Turn& turn = variants.turns[k];
    if (turn.variant >= next.size() || turn.index != next[turn.variant]++)
      return broken(fmt::format("iteration {} is not the next one of its variant", k));
    if (k > 0 && turn.iteration <= variants.turns[k - 1].iteration)
      return broken(fmt::format("iteration {} stands behind a later one", k));
    for (const Given& given : turn.given) {
      const bool is_copy = given.from < first.states.size() && given.blob == kNone && !given.is_seam;
      if (given.state >= first.states.size() || (given.from == kNone ? given.blob == kNone : !is_copy))
        return broken(fmt::format("iteration {} is given bytes of no state", k));
      if (is_copy && bytes_of(first, first.states[given.from]) != bytes_of(first, first.states[given.state]))
        return broken(fmt::format("iteration {} is given a state of another size", k));
    }
  }
  for (std::size_t v = 0; v < next.size(); ++v) {
    if (next[v] != variants.programs[v]->iterations)
      return broken(fmt::format("variant {} has {} iterations, {} are in the order", v,
                                variants.programs[v]->iterations, next[v]));
  }
  return {};
}

}  // namespace crucible::graph
