// Reads and writes along single dimensions at computed indices: what resampling, adaptive pools and paddings share.
// Indices are i64 tensors; what they are is arithmetic on coordinates, so that kernels compute them where they are
// used.
#pragma once

#include <optional>

#include "frontends/aten/call/op_call.hpp"

namespace crucible::aten {

/// `index` has one dimension: element o of the result along `dim` is x's element index[o] there.
Expression take_along(Emitter& e, const Term& x, std::int64_t dim, const Term& index);

/// The transposed map: elements of g along `dim` added to zeros of `size` elements at index[o].
Expression add_along(Emitter& e, const Term& g, std::int64_t dim, const Term& index, std::int64_t size);

/// A tensor of one dimension as one of `rank`, along dimension `dim`.
Expression laid_along(Emitter& e, const Term& x, std::int64_t dim, std::int64_t rank);

/// x / number rounded down, for i64 tensors from 0 to 2^52.
Term floor_quotient(Emitter& e, const Term& x, std::int64_t number);

/// Windows at computed places along one dimension.
struct WindowIndex {
  Term index;                  // [windows, most elements of any]: inside the input, whatever `counted` says
  std::optional<Term> counted;  // where the windows are of different lengths: true for elements that belong to theirs
};

/// The windows of adaptive pooling: output o reads floor(o input / output) to ceil((o + 1) input / output).
WindowIndex adaptive_windows(Emitter& e, std::int64_t input, std::int64_t output);
/// How many elements each of them has: a number where all have the same, else [output] in `dtype`.
Term adaptive_counts(Emitter& e, std::int64_t input, std::int64_t output, DType dtype);

/// Elements of x in windows along dims[i]; like windows() of windows.hpp, one dimension per window side at the end.
struct Gathered {
  Term elements;                // [lead..., windows..., window sides...]
  std::optional<Term> counted;  // broadcasts to it
  Term place;                   // i64: where each stood in the row-major order of the dims
};
Gathered gather_windows(Emitter& e, const Term& x, const std::vector<std::int64_t>& dims,
                        const std::vector<WindowIndex>& windows);

/// The largest element of each window and where it stood: the first one; NaN wins, the last one.
struct WindowMaximum {
  Term values, place;
};
WindowMaximum window_maximum(Emitter& e, const Gathered& g, std::size_t sides);

}  // namespace crucible::aten
