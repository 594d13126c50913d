#include "runtime/run/rounds.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace crucible::runtime {
namespace {

double quantile_of(std::vector<double> numbers, double q) {
  if (numbers.empty()) return 0;
  std::ranges::sort(numbers);
  const double at = q * static_cast<double>(numbers.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, numbers.size() - 1);
  return std::lerp(numbers[below], numbers[above], at - static_cast<double>(below));
}

}  // namespace

double median_of(std::vector<double> numbers) { return quantile_of(std::move(numbers), 0.5); }

double Timing::quantile(double q) const { return quantile_of(rounds, q); }

std::optional<double> Timing::median_joules() const {
  if (joules.empty()) return std::nullopt;
  return median_of(joules);
}

double median_ratio(const Timing& a, const Timing& b) {
  std::vector<double> ratios;
  for (std::size_t round = 0; round < std::min(a.rounds.size(), b.rounds.size()); ++round) {
    ratios.push_back(b.rounds[round] > 0 ? a.rounds[round] / b.rounds[round] : 0);
  }
  return median_of(std::move(ratios));
}

Turn turn_of(Session& session, std::uint32_t iterations, std::function<std::optional<double>()> joules) {
  return [&session, iterations, joules = std::move(joules)]() -> Result<TurnResult> {
    CRUCIBLE_TRY_VOID(session.reset());
    const std::optional<double> before = joules ? joules() : std::nullopt;
    std::vector<double> times;
    for (std::uint32_t iteration = 0; iteration < iterations; ++iteration) {
      CRUCIBLE_TRY(const IterationResult result, session.run(iteration));
      times.push_back(static_cast<double>(result.time_ns));
    }
    const std::optional<double> after = before ? joules() : std::nullopt;
    TurnResult turn{.iteration_ns = median_of(std::move(times))};
    if (after && iterations > 0) turn.joules = (*after - *before) / iterations;
    return turn;
  };
}

std::vector<Timing> run_rounds(std::span<const Turn> turns, std::uint32_t rounds,
                               const std::function<void(std::uint32_t round, std::size_t turn)>& progress) {
  std::vector<Timing> timings(turns.size());
  for (std::uint32_t round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < turns.size(); ++i) {
      if (timings[i].error) continue;
      if (progress) progress(round, i);
      const Result<TurnResult> turn = turns[i]();
      if (!turn) {
        timings[i].error = turn.error();
        continue;
      }
      timings[i].rounds.push_back(turn->iteration_ns);
      if (turn->joules) timings[i].joules.push_back(*turn->joules);
    }
  }
  return timings;
}

}  // namespace crucible::runtime
