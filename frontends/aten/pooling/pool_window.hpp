// The windows of a pooling op, as its arguments give them.
#pragma once

#include <optional>
#include <string_view>

#include "frontends/aten/call/op_call.hpp"
#include "frontends/aten/shape/windows.hpp"

namespace crucible::aten {

/// The list argument `name` with one entry per side: a single entry stands for all, a missing or empty list for
/// `otherwise`. Any other length fails.
Sizes per_side(OpCall& c, std::string_view name, std::size_t sides, std::int64_t otherwise);

/// The last `sides` dimensions of a tensor with `rank`.
std::vector<std::int64_t> last_dims(std::int64_t rank, std::size_t sides);

/// Windows over the last dimensions by the arguments kernel_size, stride (missing: the kernel's), padding and dilation;
/// as many sides as the name of the op says ("..2d..."). Sizes are those of the tensor and of its pooled result.
std::vector<Axis> pool_axes(OpCall& c, const Sizes& input, const Sizes& output);

/// How many sides an op has by its name: "aten::avg_pool2d_backward" 2; nothing of the kind fails.
std::size_t sides_by_name(OpCall& c);

/// The scale factors that the user of a resampling op gave, one per side: arguments scales, or scales_d, scales_h,
/// scales_w.
std::vector<std::optional<double>> given_factors(OpCall& c, std::size_t sides);

}  // namespace crucible::aten
