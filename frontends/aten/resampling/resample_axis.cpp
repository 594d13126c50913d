// Sources along one side of a resampled image: see resample_axis.hpp.
#include "frontends/aten/resampling/resample_axis.hpp"

#include <algorithm>
#include <cmath>

namespace crucible::aten {

float nearest_scale(std::int64_t input, std::int64_t output, std::optional<double> factor) {
  if (factor && *factor > 0) return static_cast<float>(1.0 / *factor);
  return static_cast<float>(input) / static_cast<float>(output);
}

std::vector<std::int64_t> nearest_sources(std::int64_t input, std::int64_t output, std::optional<double> factor,
                                          bool exact) {
  std::vector<std::int64_t> sources;
  const float scale = nearest_scale(input, output, factor);
  for (std::int64_t o = 0; o < output; ++o) {
    if (exact) {
      const double place = (static_cast<double>(o) + 0.5) * static_cast<double>(scale);
      sources.push_back(std::min(static_cast<std::int64_t>(std::floor(static_cast<float>(place))), input - 1));
    } else if (output == input) {  // the framework keeps two cases in which the given factor does not count
      sources.push_back(o);
    } else if (output == 2 * input) {
      sources.push_back(o / 2);
    } else {
      sources.push_back(std::min(static_cast<std::int64_t>(std::floor(static_cast<float>(o) * scale)), input - 1));
    }
  }
  return sources;
}

std::optional<std::int64_t> repetition(const std::vector<std::int64_t>& sources, std::int64_t input) {
  const auto output = static_cast<std::int64_t>(sources.size());
  if (input == 0 || output % input != 0) return std::nullopt;
  const std::int64_t times = output / input;
  for (std::int64_t o = 0; o < output; ++o) {
    if (sources[static_cast<std::size_t>(o)] != o / times) return std::nullopt;
  }
  return times;
}

std::optional<Stepping> stepping(const std::vector<std::int64_t>& sources) {
  if (sources.empty()) return std::nullopt;
  const Stepping result{sources[0], sources.size() > 1 ? sources[1] - sources[0] : 1};
  if (result.step < 1) return std::nullopt;
  for (std::size_t o = 1; o < sources.size(); ++o) {
    if (sources[o] - sources[o - 1] != result.step) return std::nullopt;
  }
  return result;
}

}  // namespace crucible::aten
