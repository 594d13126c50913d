// Attention by a vendor's library: which ops are exactly  o = softmax(scale * q k^T [+ causal mask]) v , so that one
// call does them. The form is proven from the ops alone; docs/kernels.md has its rules. What is none, or is not
// claimed, becomes kernels (attention.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "core/graph/queries.hpp"
#include "core/kernel/fuse/fusion.hpp"
#include "core/kernel/schedule.hpp"

namespace crucible::kernel {

/// Why two products around a softmax are no call of a library.
enum class NotCalled : std::uint8_t {
  kNoAttention,  // they are no softmax over keys between two products: nothing to explain
  kMask,         // scores are masked, and not provably by the causal mask
  kChanged,      // probabilities are changed before the product: a dropout
  kWanted,       // something besides the result is wanted elsewhere
  kTypes,        // q, k, v and the result differ in dtype
  kLayout,       // they do not lie as [batch, heads, rows, width] by strides, or heads share keys
  kDeclined,     // the library does not take it, or none was asked
};
/// "its mask is not shown to be the causal one": for people; "" for kNoAttention.
std::string_view words(NotCalled why);

/// An attention as one call.
struct LibraryAttention {
  std::vector<graph::OpId> ops;       // that it does, ascending
  graph::OpId last = graph::kNone;    // of these, the one that makes the result
  graph::ValueId operands[3] = {graph::kNone, graph::kNone, graph::kNone};  // q, k, v
  LibraryCall call;
};

/// What a product turned out to be, as the product of probabilities and values.
struct FoundAttention {
  NotCalled why = NotCalled::kNoAttention;      // where `attention` is empty
  std::optional<LibraryAttention> attention{};
};

/// Recognises attentions in one program, which must outlive it.
class AttentionForms {
 public:
  explicit AttentionForms(const graph::Program& program);
  /// `product`: a kMatMul; others are no attention.
  FoundAttention at(graph::OpId product) const;

 private:
  const graph::Program& program_;
  const graph::IdLists readers_;
  std::vector<bool> kept_;  // per value: the user sees it
};

/// Takes what the library claims out of its units, into one unit each, which names its place in the answer
/// (Unit::library_attention). Units stay in an order that respects definitions before uses; all products must stand
/// alone.
std::vector<LibraryAttention> claim_attentions(const graph::Program& program, std::vector<Unit>& units,
                                               const std::function<bool(const LibraryCall&)>& claims);

}  // namespace crucible::kernel
