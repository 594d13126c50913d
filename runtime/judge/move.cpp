// The moves of a state: see move.hpp.
#include "runtime/judge/move.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "runtime/judge/compare.hpp"
#include "runtime/judge/elements.hpp"
#include "runtime/run/session.hpp"

namespace crucible::runtime {
namespace {

/// Of so few elements a standard error says little, nor of so few kinds of them: equal ones are rounded alike.
constexpr std::size_t kFew = 16;

/// `body` with the recorded move of each element, what it is off by, and what storing it rounds and where it begins and
/// ends.
template <class Body>
void for_each_move(DType dtype, std::span<const std::byte> before, std::span<const std::byte> actual,
                   std::span<const std::byte> expected, double rounding, const std::vector<bool>& is_left_out,
                   const Body& body) {
  const std::size_t size = size_bytes(dtype);
  with_numbers(dtype, [&](const auto& number) {
    for (std::size_t i = 0; i < expected.size() / size; ++i) {
      if (i < is_left_out.size() && is_left_out[i]) continue;
      const double start = before.empty() ? 0 : number(&before[i * size]), end = number(&expected[i * size]),
                   other = number(&actual[i * size]);
      const double move = end - start, off = other - end;
      if (!std::isfinite(move) || !std::isfinite(off)) continue;
      body(move, off, rounding * std::max({std::fabs(start), std::fabs(end), std::fabs(other)}), std::pair(start, end));
    }
  });
}

}  // namespace

void Move::widen(const Move& other) {
  for (const auto part : {&Move::middle, &Move::factor}) {
    if (std::isfinite(other.*part)) this->*part = std::max(this->*part, other.*part);
  }
}

Move move_between(DType dtype, std::span<const std::byte> before, std::span<const std::byte> actual,
                  std::span<const std::byte> expected, std::uint32_t iterations, const std::vector<bool>& is_left_out) {
  constexpr double kRoundings = 2;  // of an iteration: decay of weights and the step, each stored
  constexpr double kStandardErrors = 5;
  Move found;
  if (!is_floating(dtype) || actual.size() != expected.size() || (!before.empty() && before.size() != expected.size()))
    return found;
  const auto each = [&](const auto& body) {
    for_each_move(dtype, before, actual, expected, kRoundings * iterations * unit_of(dtype), is_left_out, body);
  };
  double moves = 0, products = 0, roundings = 0, blurs = 0;
  std::size_t count = 0;
  Middle middle(expected.size() / size_bytes(dtype));
  std::set<std::pair<double, double>> places;  // where moves begin and end, kFew of them at most
  each([&](double move, double off, double rounding, const std::pair<double, double>& place) {
    const double beyond = std::max(0.0, std::fabs(off) - rounding);
    moves += move * move, products += move * off, roundings += rounding * rounding;
    blurs += move * move * rounding * rounding;
    if (places.size() < kFew) places.insert(place);
    middle.add(beyond == 0 ? 0 : beyond / std::max(std::fabs(move), std::numeric_limits<double>::min()));
    ++count;
  });
  if (count == 0) return found;
  found.middle = middle.take();
  if (!(moves > 0)) return found;
  const double factor = products / moves;
  double rests = 0;
  each([&](double move, double off, double, const auto&) {
    const double rest = (off - factor * move) * move;
    rests += rest * rest;
  });
  found.factor = std::fabs(factor);
  found.noise = kStandardErrors * std::sqrt(rests) / moves;
  if (places.size() < kFew) found.noise += std::sqrt(roundings / moves);
  // Where what is rounded may make the factor anything, as that of a bias whose gradient cancels, it is none.
  if (const double blur = std::sqrt(blurs) / moves; blur > 1) found.noise += blur;
  return found;
}

bool is_same_move(const Move& move, const MoveTolerance& tolerance, const Move& spread) {
  return move.middle <= std::max(tolerance.middle, kSpreads * spread.middle) &&
         move.factor <= std::max(tolerance.factor + move.noise, kSpreads * spread.factor);
}

}  // namespace crucible::runtime
