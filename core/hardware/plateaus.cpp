// Segmentation by dynamic programming over the logarithms of the bandwidths. A dozen or two of points: plain loops do.
#include "core/hardware/plateaus.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace crucible::hardware {
namespace {

struct Cut {
  double error = std::numeric_limits<double>::infinity();
  std::size_t from = 0;
};

/// Squared deviation of logs [begin, end) from their mean.
double error_of(std::span<const double> logs, std::size_t begin, std::size_t end) {
  double sum = 0, squares = 0;
  for (std::size_t i = begin; i < end; ++i) sum += logs[i], squares += logs[i] * logs[i];
  return std::max(0.0, squares - sum * sum / static_cast<double>(end - begin));
}

Plateau plateau_of(std::span<const CurvePoint> curve, std::size_t begin, std::size_t end) {
  std::vector<double> rates;
  for (std::size_t i = begin; i < end; ++i) rates.push_back(curve[i].bytes_per_second);
  std::ranges::sort(rates, std::greater());
  return {begin, end, rates[(rates.size() - 1) / 3]};
}

}  // namespace

std::vector<Plateau> find_plateaus(std::span<const CurvePoint> curve, std::size_t most, double gain) {
  const std::size_t count = curve.size();
  if (count == 0 || most == 0) return {};
  std::vector<double> logs;
  for (const CurvePoint& point : curve) logs.push_back(std::log(std::max(point.bytes_per_second, 1.0)));
  most = std::min(most, count);
  // best[k][end]: the points before `end` in k + 1 plateaus.
  std::vector<std::vector<Cut>> best(most, std::vector<Cut>(count + 1));
  for (std::size_t end = 1; end <= count; ++end) best[0][end] = {error_of(logs, 0, end), 0};
  for (std::size_t k = 1; k < most; ++k) {
    for (std::size_t end = k + 1; end <= count; ++end) {
      for (std::size_t from = k; from < end; ++from) {
        const double error = best[k - 1][from].error + error_of(logs, from, end);
        if (error < best[k][end].error) best[k][end] = {error, from};
      }
    }
  }
  std::size_t chosen = 0;
  for (std::size_t k = 1; k < most; ++k) {
    if (best[k][count].error + gain * static_cast<double>(k) <
        best[chosen][count].error + gain * static_cast<double>(chosen))
      chosen = k;
  }
  std::vector<Plateau> plateaus;
  for (std::size_t end = count, k = chosen + 1; k-- > 0;) {
    const std::size_t from = best[k][end].from;
    plateaus.push_back(plateau_of(curve, from, end));
    end = from;
  }
  std::ranges::reverse(plateaus);
  // A level that is not slower than the one before it is noise: the two are one.
  for (std::size_t i = 1; i < plateaus.size();) {
    if (plateaus[i].bytes_per_second < plateaus[i - 1].bytes_per_second) {
      ++i;
      continue;
    }
    plateaus[i - 1] = plateau_of(curve, plateaus[i - 1].begin, plateaus[i].end);
    plateaus.erase(plateaus.begin() + static_cast<std::ptrdiff_t>(i));
    i = std::max<std::size_t>(i - 1, 1);
  }
  return plateaus;
}

}  // namespace crucible::hardware
