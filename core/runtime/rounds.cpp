#include "core/runtime/rounds.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/hash.hpp"

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

Result<std::string> result_sha256(const Session& session, const graph::Program& program, const std::vector<IterationResult>& results) {
  Sha256 hash;
  for (const IterationResult& result : results) hash.update(std::as_bytes(std::span(result.losses)));
  for (const graph::State& state : program.states) {
    CRUCIBLE_TRY(const std::vector<std::byte> bytes, session.state_bytes(state));
    hash.update(bytes);
  }
  return hash.finish().hex();
}

double Timing::quantile(double q) const { return quantile_of(rounds, q); }

double median_ratio(const Timing& a, const Timing& b) {
  std::vector<double> ratios;
  for (std::size_t round = 0; round < std::min(a.rounds.size(), b.rounds.size()); ++round) {
    ratios.push_back(b.rounds[round] > 0 ? a.rounds[round] / b.rounds[round] : 0);
  }
  return quantile_of(std::move(ratios), 0.5);
}

Result<std::vector<Timing>> run_rounds(std::span<Session* const> sessions, std::uint32_t iterations, std::uint32_t rounds,
                                       const std::function<void(std::uint32_t round, std::size_t session)>& progress) {
  std::vector<Timing> timings(sessions.size());
  for (std::uint32_t round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < sessions.size(); ++i) {
      if (progress) progress(round, i);
      CRUCIBLE_TRY_VOID(sessions[i]->reset());
      std::vector<double> times;
      for (std::uint32_t iteration = 0; iteration < iterations; ++iteration) {
        CRUCIBLE_TRY(const IterationResult result, sessions[i]->run(iteration));
        times.push_back(static_cast<double>(result.time_ns));
      }
      timings[i].rounds.push_back(quantile_of(std::move(times), 0.5));
    }
  }
  return timings;
}

}  // namespace crucible::runtime
