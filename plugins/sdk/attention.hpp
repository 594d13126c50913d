// An attention of the ABI as vendors' libraries take it: o = softmax(scale * q k^T [+ causal mask]) v, alone, with what
// its gradient needs, or its gradient. Reading and
// checking the views is the same for all of them; calling the library is the plugin's.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "plugins/abi/crucible_plugin.h"

namespace crucible::sdk {

/// A tensor [batch, heads, rows, width]. Units: elements.
struct AttentionTensor {
  std::int64_t offset = 0;
  std::array<std::int64_t, 4> sizes = {},
                              strides = {};  // at least 1; a dimension of size 1 has the stride of a dense one
};

/// Places in Attention::tensors. `kLogSums`: of each row, the logarithm of its exponentials' sum.
enum AttentionPlace : std::size_t { kQ, kK, kV, kO, kLogSums, kDO, kDQ, kDK, kDV, kMostAttentionTensors };

enum class AttentionPart : std::uint8_t { kAlone, kForward, kBackward };

struct Attention {
  std::uint32_t dtype = 0;  // DType of all but kLogSums, which is f32
  AttentionPart part = AttentionPart::kAlone;
  double scale = 1;
  bool is_causal = false;                                           // query i sees keys 0 to i
  std::array<AttentionTensor, kMostAttentionTensors> tensors = {};  // of the description's buffers, in their order

  /// How many tensors there are.
  std::size_t count() const {
    return part == AttentionPart::kAlone ? kLogSums : part == AttentionPart::kForward ? kDO : kMostAttentionTensors;
  }
  bool is_result(std::size_t tensor) const {
    return part == AttentionPart::kBackward ? tensor >= kDQ : tensor == kO || tensor == kLogSums;
  }
  std::uint64_t element_bytes(std::size_t tensor) const { return dtype == 8 || tensor == kLogSums ? 4 : 2; }
  /// Everything that a library's choice depends on but addresses, as text.
  std::string shape() const;
};

/// Whether it is for read_attention(). Errors: INVALID_ARGUMENT for a description that is too short.
bool is_attention(const crucible_library_desc* theirs);

/// What a description comes to. Threads: any. Errors: UNSUPPORTED with the reason: only f32, f16 and bf16, sizes that
/// fit, rows of a head without gaps (a last stride of 1), sizes and strides of at most 31 bits, a mask that is known.
Attention read_attention(const crucible_library_desc* theirs);

/// The largest power of two, at most 16, that the first element's address is a multiple of, when the buffer begins at
/// `address`. `tensor`: of Attention::tensors. Units: bytes.
std::uint64_t attention_alignment(const Attention& attention, std::size_t tensor, std::uint64_t address);

/// Bytes from a buffer's beginning to the end of the tensor's last element: what the buffer must have.
std::uint64_t attention_extent_bytes(const Attention& attention, std::size_t tensor);

}  // namespace crucible::sdk
