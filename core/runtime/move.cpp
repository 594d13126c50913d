// The moves of a state: see move.hpp.
#include "core/runtime/move.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "core/runtime/compare.hpp"
#include "core/runtime/session.hpp"

namespace crucible::runtime {
namespace {

/// Of so few elements a standard error says little, nor of so few kinds of them: equal ones are rounded alike.
constexpr std::size_t kFew = 16;

/// Sums over the elements: of squares of the moves and of what they are off by, and of their products.
struct Sums {
  double moves = 0, products = 0, rounding = 0;
  std::vector<double> move, off, shares;     // by element
  std::set<std::pair<double, double>> places;  // where they begin and end, kFew of them at most
};

Sums sums_of(DType dtype, std::span<const std::byte> before, std::span<const std::byte> actual, std::span<const std::byte> expected, double rounding,
             const std::vector<bool>& is_left_out) {
  const std::size_t size = size_bytes(dtype);
  const auto at = [&](std::span<const std::byte> bytes, std::size_t i) { return bytes.empty() ? 0 : element_as_double(dtype, bytes.subspan(i * size, size)); };
  Sums sums;
  for (std::size_t i = 0; i < expected.size() / size; ++i) {
    if (i < is_left_out.size() && is_left_out[i]) continue;
    const double start = at(before, i), end = at(expected, i), other = at(actual, i), move = end - start, off = other - end;
    if (!std::isfinite(move) || !std::isfinite(off)) continue;
    const double stored = rounding * std::max({std::fabs(start), std::fabs(end), std::fabs(other)});
    const double beyond = std::max(0.0, std::fabs(off) - stored);
    sums.moves += move * move, sums.products += move * off, sums.rounding += stored * stored;
    if (sums.places.size() < kFew) sums.places.emplace(start, end);
    sums.move.push_back(move), sums.off.push_back(off);
    sums.shares.push_back(beyond == 0 ? 0 : beyond / std::max(std::fabs(move), std::numeric_limits<double>::min()));
  }
  return sums;
}

}  // namespace

void Move::widen(const Move& other) {
  for (const auto part : {&Move::middle, &Move::factor}) {
    if (std::isfinite(other.*part)) this->*part = std::max(this->*part, other.*part);
  }
}

Move move_between(DType dtype, std::span<const std::byte> before, std::span<const std::byte> actual, std::span<const std::byte> expected,
                  std::uint32_t iterations, const std::vector<bool>& is_left_out) {
  constexpr double kRoundings = 2;  // of an iteration: decay of weights and the step, each stored
  constexpr double kStandardErrors = 5;
  Move found;
  if (!is_floating(dtype) || actual.size() != expected.size() || (!before.empty() && before.size() != expected.size())) return found;
  Sums sums = sums_of(dtype, before, actual, expected, kRoundings * iterations * unit_of(dtype), is_left_out);
  if (sums.shares.empty()) return found;
  const auto middle = sums.shares.begin() + static_cast<std::ptrdiff_t>(sums.shares.size() / 2);
  std::ranges::nth_element(sums.shares, middle);
  found.middle = *middle;
  if (!(sums.moves > 0)) return found;
  const double factor = sums.products / sums.moves;
  double rests = 0;
  for (std::size_t i = 0; i < sums.move.size(); ++i) {
    const double rest = (sums.off[i] - factor * sums.move[i]) * sums.move[i];
    rests += rest * rest;
  }
  found.factor = std::fabs(factor);
  found.noise = kStandardErrors * std::sqrt(rests) / sums.moves;
  if (sums.places.size() < kFew) found.noise += std::sqrt(sums.rounding / sums.moves);
  return found;
}

bool is_same_move(const Move& move, const MoveTolerance& tolerance, const Move& spread) {
  return move.middle <= std::max(tolerance.middle, kSpreads * spread.middle) &&
         move.factor <= std::max(tolerance.factor + move.noise, kSpreads * spread.factor);
}

}  // namespace crucible::runtime
