// Attention as the emulated cuDNN knows it: which graphs of operations are one, which of them its engines take, and the
// computation. Every other graph of several operations is refused, as the real one refuses what none of its patterns
// has.
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

struct AttentionGraph {
  ElementType type = ElementType::kF16;  // of all four; sums are of f32
  AttentionOperand q, k, v, o;
  bool is_causal = false;
  std::int64_t scale_id = 0, hidden_id = 0;  // of the numbers that are given by value; the second where it is causal
  float scale = 0, hidden = 0;

  /// Whether an engine takes it: f16 or bf16, heads of at most 128 and a multiple of 8, whose rows lie at multiples of
  /// 16 bytes.
  bool is_supported() const;
  /// "attention_bf16_causal_2x4x32x16_32": the name that rules of faults match; q, and how many keys.
  std::string name() const;
  /// Multiplications and additions of its two products.
  std::uint64_t operations() const;
  std::uint64_t memory_bytes() const;
};

/// Nothing for what is no attention, or whose parts do not live any more.
std::optional<AttentionGraph> describe_attention(const std::vector<const CudnnDescriptor*>& operations);

/// The result is overwritten. Sums go from the end, so that it differs in its last bits from one of a generated kernel.
void attend(const AttentionGraph& attention);

}  // namespace crucible::emulator
