// The windows of a pooling op: see pool_window.hpp.
#include "frontends/aten/pooling/pool_window.hpp"

#include <fmt/format.h>

namespace crucible::aten {

Sizes per_side(OpCall& c, std::string_view name, std::size_t sides, std::int64_t otherwise) {
  Sizes list = c.has(name) ? c.integers(name) : Sizes{};
  if (list.empty()) list = {otherwise};
  if (list.size() == 1) list.assign(sides, list.front());
  if (list.size() != sides) {
    c.emit().fail(fmt::format("argument {} has {} entries for {} sides", name, list.size(), sides));
    list.assign(sides, otherwise);
  }
  for (auto& entry : list) {
    if (entry >= otherwise || name == "padding" || name == "output_padding") continue;
    c.emit().fail(fmt::format("argument {} has the entry {}, needs {} or more", name, entry, otherwise));
    entry = otherwise;
  }
  return list;
}

std::vector<std::int64_t> last_dims(std::int64_t rank, std::size_t sides) {
  std::vector<std::int64_t> dims;
  for (std::size_t i = 0; i < sides; ++i) dims.push_back(rank - static_cast<std::int64_t>(sides - i));
  return dims;
}

std::vector<std::optional<double>> given_factors(OpCall& c, std::size_t sides) {
  static constexpr const char* kNames[] = {"scales_d", "scales_h", "scales_w"};
  std::vector<std::optional<double>> factors(sides);
  for (std::size_t i = 0; i < sides; ++i) {
    const char* name = sides == 1 ? "scales" : kNames[3 - sides + i];
    if (c.has(name)) factors[i] = c.real(name);
  }
  return factors;
}

std::size_t sides_by_name(OpCall& c) {
  const std::string& name = c.full_name();
  for (std::size_t sides = 1; sides <= 3; ++sides) {
    if (name.find(fmt::format("{}d", sides)) != std::string::npos) return sides;
  }
  c.emit().fail("the number of its sides is not in its name");
  return 1;
}

std::vector<Axis> pool_axes(OpCall& c, const Sizes& input, const Sizes& output) {
  const std::size_t sides = sides_by_name(c);
  if (input.size() < sides || input.size() != output.size()) {
    c.emit().fail(fmt::format("pools over {} sides of a tensor with {} dimensions", sides, input.size()));
    return {};
  }
  const Sizes kernel = per_side(c, "kernel_size", sides, 1), padding = per_side(c, "padding", sides, 0);
  const Sizes dilation = per_side(c, "dilation", sides, 1);
  Sizes stride = per_side(c, "stride", sides, 0);
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < sides; ++i) {
    if (stride[i] == 0) stride[i] = kernel[i];
    const std::size_t d = input.size() - sides + i;
    constexpr std::int64_t kMostWindows = std::int64_t{1} << 26;  // along one side: their sizes are computed one by one
    if (output[d] > kMostWindows) {
      c.emit().fail(fmt::format("{} windows along one side, the limit is {}", output[d], kMostWindows));
      return {};
    }
    axes.push_back({input[d], output[d], kernel[i], stride[i], padding[i], dilation[i]});
  }
  return axes;
}

}  // namespace crucible::aten
