// A matrix product of the ABI as BLAS libraries take it: column-major operands, one stride from product to product.
// Reading, checking and folding the views is the same for all of them; calling the library is the plugin's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plugins/abi/crucible_plugin.h"

namespace crucible::sdk {

/// A column-major matrix: `pitch` elements from one column to the next.
struct GemmOperand {
  bool transposed = false;        // the product is of its transpose
  std::int64_t pitch = 0;
  std::int64_t batch_stride = 0;  // elements from one product of a batch to the next; 0: all use the same
};

/// d = alpha op(x) op(y), d of m rows and n columns, for `batch` products by strides, once per place. BLAS is
/// column-major and views are mostly row-major: then d is the transposed result, and x is the description's second
/// operand.
struct Gemm {
  std::uint32_t dtype = 0;  // DType of all three
  bool keeps_f32 = false;   // of f16 and bf16: d is f32
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  GemmOperand x, y, d;
  bool is_swapped = false;  // x is view 1, y is view 0
  double alpha = 1;
  struct Place {
    std::int64_t x = 0, y = 0, d = 0;  // offsets in elements
  };
  std::vector<Place> places;  // one call of the library for each
  /// CRUCIBLE_EPILOGUE_*; with one, the description's fourth buffer has a number for each of the m rows, from there on.
  std::uint32_t epilogue = CRUCIBLE_EPILOGUE_NONE;
  std::int64_t bias = 0;

  bool has_epilogue() const { return epilogue != CRUCIBLE_EPILOGUE_NONE; }
  /// The description's buffers, which the scratch comes after.
  std::uint32_t buffers() const { return has_epilogue() ? 4 : 3; }
  /// Of the description's buffers.
  int x_view() const { return is_swapped ? 1 : 0; }
  int y_view() const { return is_swapped ? 0 : 1; }
  std::uint64_t element_bytes() const;           // of x and y
  std::uint64_t element_bytes(int view) const;   // of the description's view, or of the bias: 3
  /// Everything that a library's choice of an algorithm depends on but addresses, as text: "f32 n t 64x48x32 pitches 64
  /// 32 64 batch 1".
  std::string shape() const;
};

/// What a description comes to. A plugin whose library has no epilogues says so, and what has one is declined. At most
/// 1024 places; sizes, pitches and batches fit into 31 bits. Threads: any. Errors: INVALID_ARGUMENT for a description
/// that is too short; UNSUPPORTED with the reason for what is no product that BLAS has.
enum class Epilogues : std::uint8_t { kDeclined, kTaken };
Gemm read_gemm(const crucible_library_desc* theirs, Epilogues epilogues = Epilogues::kDeclined);

/// The largest power of two, at most 256, that every address of an operand is a multiple of, when its buffer begins at
/// `address`. `view` is 0, 1 or 2 as in the description, 3 for the bias. Units: bytes.
std::uint64_t gemm_alignment(const Gemm& gemm, int view, std::uint64_t address);

/// Bytes from a buffer's beginning to the end of the last element of view 0, 1, 2 or, for the bias, 3: what the buffer
/// must have.
std::uint64_t gemm_extent_bytes(const Gemm& gemm, int view);

}  // namespace crucible::sdk
