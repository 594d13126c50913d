// Attention as the emulated cuDNN knows it, alone, in training and its gradient: which graphs of operations are one,
// which of them its engines take, and the computation. Every other graph of several operations is refused, as the real
// one refuses what none of its patterns has.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/emulators/core/product.hpp"
#include "tests/emulators/nvidia/cudnn_descriptors.hpp"

namespace crucible::emulator {

struct AttentionOperand {
  char* data = nullptr;
  std::array<std::int64_t, 4> sizes = {}, strides = {};  // [batch, heads, rows, width], in elements
  std::int64_t id = 0, alignment = 0;
};

enum class AttentionPart : std::uint8_t { kAlone, kForward, kBackward };

struct AttentionGraph {
  ElementType type = ElementType::kF16;  // of all but `log_sums`; sums are of f32
  AttentionPart part = AttentionPart::kAlone;
  AttentionOperand q, k, v, o;
  AttentionOperand log_sums;  // of the two of training: [batch, heads, rows, 1], f32
  AttentionOperand gradient, q_gradient, k_gradient, v_gradient;  // kBackward: of o and of the operands
  bool is_causal = false;
  /// Of the numbers that are given by value; the second where it is causal, the third of a gradient.
  std::int64_t scale_id = 0, hidden_id = 0, factor_id = 0;
  float scale = 0, hidden = 0, factor = 0;

  /// Whether an engine takes it: f16 or bf16, heads of at most 128 and a multiple of 8, whose rows lie at multiples of
  /// 16 bytes.
  bool is_supported() const;
  /// "attention_bf16_causal_2x4x32x16_32": the name that rules of faults match; q, and how many keys. Of the two of
  /// training it begins with attention_forward and attention_backward.
  std::string name() const;
  /// Multiplications and additions of its products.
  std::uint64_t operations() const;
  std::uint64_t memory_bytes() const;
  /// All that it has, `log_sums` first where it has them.
  std::vector<AttentionOperand*> operands();
  /// The first of its results.
  char* result() const { return part == AttentionPart::kBackward ? q_gradient.data : o.data; }
};

/// Nothing for what is no attention, or whose parts do not live any more.
std::optional<AttentionGraph> describe_attention(const std::vector<const CudnnDescriptor*>& operations);

/// The results are overwritten. Sums go from the end, so that they differ in their last bits from those of a generated
/// kernel.
void attend(const AttentionGraph& attention);
void attend_backward(const AttentionGraph& attention);

}  // namespace crucible::emulator
