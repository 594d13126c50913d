// Several that do the same work timed side by side: in turns, so that a change of the machine's speed meets all of
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/base/result.hpp"
#include "runtime/run/session.hpp"

namespace crucible::runtime {

/// One turn of somebody that is timed.
struct TurnResult {
  double iteration_ns = 0;          // the median over the turn's iterations
  std::optional<double> joules = {};  // of an iteration, where something counts energy
};

/// Everything that may take turns: a session of ours, a process of somebody else's. Errors end its turns, not the
/// others'.
using Turn = std::function<Result<TurnResult>()>;

/// What was measured, in the order of the rounds.
struct Timing {
  std::vector<double> rounds = {};  // nanoseconds of an iteration: of each round the median over its iterations
  std::vector<double> joules = {};  // of an iteration, of the rounds in which energy was counted
  std::optional<Error> error = {};  // why there are no more rounds
  double median() const { return quantile(0.5); }
  /// Linear between the rounds, 0 the fastest, 1 the slowest; 0 without rounds.
  double quantile(double q) const;
  /// The median over the rounds; nothing where no round has a figure.
  std::optional<double> median_joules() const;
};

double median_of(std::vector<double> numbers);  // 0 of none

/// The quotient of two medians says little where the machine's speed changes between rounds: this is the median of the
/// quotients within each round, a over b. 0 without rounds; only rounds that both have count.
double median_ratio(const Timing& a, const Timing& b);

/// A turn of a session that has run before, so that nothing is compiled or touched for the first time: it is reset and
/// runs its first `iterations` iterations. `joules` is read before the first and after the last one; null or without an
/// answer: nothing is counted. The session must live as long as the turn.
Turn turn_of(Session& session, std::uint32_t iterations, std::function<std::optional<double>()> joules = nullptr);

/// One after the other, `rounds` times. Somebody whose turn fails takes no more of them, and its Timing says why. One
/// Timing per turn.
std::vector<Timing> run_rounds(std::span<const Turn> turns, std::uint32_t rounds,
                               const std::function<void(std::uint32_t round, std::size_t turn)>& progress = nullptr);

}  // namespace crucible::runtime
