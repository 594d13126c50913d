// Arg-reductions, scans and sorts of the reference interpreter: see reference_along.hpp.
#include "core/graph/reference_along.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace crucible::graph {
namespace {

using Order = std::vector<std::int64_t>;

bool is_nan(double x) { return std::isnan(x); }
bool is_nan(std::int64_t) { return false; }

/// True when `a` stands before `b` in descending order: NaN before everything, equal ones not before each other.
template <class T>
bool above(T a, T b) {
  return a > b || (is_nan(a) && !is_nan(b));
}

/// True when `a` stands before `b` in ascending order: NaN after everything.
template <class T>
bool below(T a, T b) {
  return a < b || (is_nan(b) && !is_nan(a));
}

template <class T>
std::int64_t place_of_extremum(const std::vector<T>& line, bool largest) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < line.size(); ++i) {
    const bool beats = largest ? line[i] > line[best] : line[i] < line[best];
    if (!is_nan(line[best]) && (beats || is_nan(line[i]))) best = i;
  }
  return static_cast<std::int64_t>(best);
}

/// Replaces each element by the extremum so far and returns where it stood.
template <class T>
Order running_extremum(std::vector<T>& line, bool largest) {
  Order places(line.size(), 0);
  for (std::size_t i = 1; i < line.size(); ++i) {
    const T best = line[i - 1];
    const bool takes = is_nan(line[i]) || (!is_nan(best) && (largest ? line[i] >= best : line[i] <= best));
    places[i] = takes ? static_cast<std::int64_t>(i) : places[i - 1];
    if (!takes) line[i] = best;
  }
  return places;
}

void running_total(std::vector<double>& line, bool product) {
  for (std::size_t i = 1; i < line.size(); ++i) line[i] = product ? line[i - 1] * line[i] : line[i - 1] + line[i];
}

/// Wraps in 64 bits.
void running_total(std::vector<std::int64_t>& line, bool product) {
  for (std::size_t i = 1; i < line.size(); ++i) {
    const auto so_far = static_cast<std::uint64_t>(line[i - 1]), x = static_cast<std::uint64_t>(line[i]);
    line[i] = static_cast<std::int64_t>(product ? so_far * x : so_far + x);
  }
}

template <class T>
Order sorted(std::vector<T>& line, bool ascending) {
  Order order(line.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) {
    const T x = line[static_cast<std::size_t>(a)], y = line[static_cast<std::size_t>(b)];
    return ascending ? below(x, y) : above(x, y);
  });
  std::vector<T> result;
  for (const std::int64_t place : order) result.push_back(line[static_cast<std::size_t>(place)]);
  line = std::move(result);
  return order;
}

/// What the op makes of one line; the line becomes the values.
template <class T>
Order run_line(OpKind kind, std::vector<T>& line) {
  switch (kind) {
    case OpKind::kArgMax:
    case OpKind::kArgMin:
      return {place_of_extremum(line, kind == OpKind::kArgMax)};
    case OpKind::kScanMax:
    case OpKind::kScanMin:
      return running_extremum(line, kind == OpKind::kScanMax);
    case OpKind::kScanSum:
    case OpKind::kScanProduct:
      running_total(line, kind == OpKind::kScanProduct);
      return {};
    default:
      return sorted(line, kind == OpKind::kSortAscending);
  }
}

}  // namespace

AlongResult reference_along(OpKind kind, const Numbers& x, const std::vector<std::int64_t>& sizes, std::int64_t dim) {
  std::size_t outer = 1, inner = 1;
  const auto length = static_cast<std::size_t>(sizes[static_cast<std::size_t>(dim)]);
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (static_cast<std::int64_t>(d) != dim) (static_cast<std::int64_t>(d) < dim ? outer : inner) *=
        static_cast<std::size_t>(sizes[d]);
  }
  const bool arg = kind == OpKind::kArgMax || kind == OpKind::kArgMin;
  AlongResult result{arg ? Numbers{} : x, Numbers::zeros(DType::kI64, arg ? outer * inner : x.size())};
  const auto run = [&](const auto& from, auto& to) {
    for (std::size_t o = 0; o < outer; ++o) {
      for (std::size_t i = 0; i < inner; ++i) {
        std::decay_t<decltype(from)> line(length);
        for (std::size_t k = 0; k < length; ++k) line[k] = from[(o * length + k) * inner + i];
        const Order places = run_line(kind, line);
        if (arg) {
          result.index.integer[o * inner + i] = places[0];
          continue;
        }
        for (std::size_t k = 0; k < length; ++k) {
          to[(o * length + k) * inner + i] = line[k];
          if (!places.empty()) result.index.integer[(o * length + k) * inner + i] = places[k];
        }
      }
    }
  };
  x.is_integer ? run(x.integer, result.values.integer) : run(x.real, result.values.real);
  return result;
}

}  // namespace crucible::graph
