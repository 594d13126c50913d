// One axis of a sliding window: which input index an output index and a tap meet, and which outputs stay inside. Shared
// by the emitters of pooling and convolutions; index arithmetic only.
#pragma once

#include <utility>

#include "core/kernel/ir/ir_builder.hpp"

namespace crucible::kernel {

struct WindowAxis {
  std::int64_t stride = 1, padding = 0, dilation = 1, taps = 1, input = 1, output = 1;

  /// output * stride - padding + tap * dilation; may lie outside the input.
  ExprId input_index(IrBuilder& b, ExprId out, ExprId tap) const;
  ExprId is_inside(IrBuilder& b, ExprId in) const;
  /// `in`, known to lie inside the input.
  ExprId inside(IrBuilder& b, ExprId in) const { return b.assume(in, 0, input > 0 ? input - 1 : 0); }
  /// The outputs [first, last) whose input index at `tap` lies inside the input, bound in the innermost block.
  std::pair<ExprId, ExprId> output_range(IrBuilder& b, ExprId tap) const;
};

/// Taps, of one dimension of a filter of `size`, that meet the rows (or columns) of x whose number has the rest `phase`
/// by the stride: every `step`-th from `first`. Row phase + stride * i is met by the output shift + i - back * t
/// through tap t of these.
struct PhaseTaps {
  std::int64_t first = 0, step = 1, count = 0, shift = 0, back = 0;
};
/// Whether the gradient of x is done in such phases: with strides that divide its height and width.
bool has_phases(const std::int64_t (&stride)[2], std::int64_t height, std::int64_t width);
PhaseTaps taps_of_phase(std::int64_t stride, std::int64_t dilation, std::int64_t padding, std::int64_t size,
                        std::int64_t phase);

}  // namespace crucible::kernel
