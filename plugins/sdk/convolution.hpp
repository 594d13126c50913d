// A two-dimensional convolution of the ABI, or one of its gradients, as vendors' libraries take it: its tensors by
// role, with strides as they come. Reading and checking the views is the same for all of them; calling the library is
// the plugin's.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "plugins/abi/crucible_plugin.h"

namespace crucible::sdk {

/// A tensor of four dimensions, [n, c, h, w] or [o, c / groups, kh, kw]. Units: elements.
struct ConvolutionTensor {
  int view = 0;  // which of the description's buffers it lies in
  std::int64_t offset = 0;
  std::array<std::int64_t, 4> sizes = {},
                              strides = {};  // at least 1; a dimension of size 1 has the stride of a dense one
};

struct Convolution {
  std::uint32_t kind =
      CRUCIBLE_LIB_CONV2D;  // or CRUCIBLE_LIB_CONV2D_BACKWARD_INPUT, _BACKWARD_WEIGHT: which tensor is the result
  std::uint32_t dtype = 0;                   // DType of all three
  bool keeps_f32 = false;                    // of f16 and bf16: the result is f32
  ConvolutionTensor x, weight, y;
  std::array<std::int64_t, 2> stride = {}, padding = {},
                              dilation = {};  // of height and width; a dilation of 1 has no gaps
  std::int64_t groups = 1;

  /// Of the description's three buffers.
  const ConvolutionTensor& tensor(int view) const { return x.view == view ? x : weight.view == view ? weight : y; }
  std::uint32_t dtype_of(int view) const { return view == 2 && keeps_f32 ? 8 : dtype; }
  std::uint64_t element_bytes(int view) const { return dtype_of(view) == 8 ? 4 : 2; }
  /// Everything that a library's choice depends on but addresses, as text.
  std::string shape() const;
};

/// Whether it is for read_convolution(), not read_gemm(). Errors: INVALID_ARGUMENT for a description that is too short.
bool is_convolution(const crucible_library_desc* theirs);

/// What a description comes to. Threads: any. Errors: UNSUPPORTED with the reason: only f32, f16 and bf16, tensors that
/// do not overlap themselves, sizes and strides of at most 31 bits.
Convolution read_convolution(const crucible_library_desc* theirs);

/// The largest power of two, at most 16, that the first element's address is a multiple of, when the buffer begins at
/// `address`. Units: bytes.
std::uint64_t convolution_alignment(const Convolution& convolution, int view, std::uint64_t address);

/// Bytes from a buffer's beginning to the end of the view's last element: what the buffer must have.
std::uint64_t convolution_extent_bytes(const Convolution& convolution, int view);

/// How a tensor of four dimensions lies without gaps: its dimensions in their order, or the second innermost ([n, h, w,
/// c]).
enum class DenseLayout { kNone, kChannelsFirst, kChannelsLast };

/// The layout that all three tensors have; the first of the two where they have both, because dimensions of size 1
/// leave it open.
DenseLayout dense_layout(const Convolution& convolution);

/// The strides of a dense tensor, also of its dimensions of size 1.
std::array<std::int64_t, 4> dense_strides(const std::array<std::int64_t, 4>& sizes, DenseLayout layout);

}  // namespace crucible::sdk
