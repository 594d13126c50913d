// Several sessions of one program timed side by side: in turns, so that a change of the machine's speed meets all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/runtime/session.hpp"

namespace crucible::runtime {

/// Lower-case SHA-256 of the bits of all losses and of the states as they are now: two replays with the same one gave the same bits.
/// Errors: those of reading states.
Result<std::string> result_sha256(const Session& session, const graph::Program& program, const std::vector<IterationResult>& results);

/// Nanoseconds of an iteration: of each round the median over its iterations.
struct Timing {
  std::vector<double> rounds;
  double median() const { return quantile(0.5); }
  /// Linear between the rounds, 0 the fastest, 1 the slowest; 0 without rounds.
  double quantile(double q) const;
};

/// The quotient of two medians says little where the machine's speed changes between rounds: this is the median of the quotients
/// within each round, a over b. 0 without rounds; both have equally many.
double median_ratio(const Timing& a, const Timing& b);

/// One after the other, `rounds` times: each is reset and runs its first `iterations` iterations. Sessions have run before, so that nothing is
/// compiled or touched for the first time. One Timing per session. Errors: those of running, naming nobody: the first error ends all.
Result<std::vector<Timing>> run_rounds(std::span<Session* const> sessions, std::uint32_t iterations, std::uint32_t rounds,
                                       const std::function<void(std::uint32_t round, std::size_t session)>& progress = nullptr);

}  // namespace crucible::runtime
