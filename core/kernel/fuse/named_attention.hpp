// Attention by a vendor's library: o = softmax(scale * q k^T [+ causal mask]) v as one call, and in training, where
// trained_attention.hpp has stated it so, one for each direction. Which values are an attention the program says by
// name (graph/meaning.hpp); here it is asked for, and the ops that it does in their place are found. What is not asked
// for, or declined, is its ops, which become kernels as all others do (attention.hpp).
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

/// Why an attention is no call of a library.
enum class NotCalled : std::uint8_t {
  kNoAttention,  // nothing is named so: nothing to explain
  kMask,         // it has a mask besides the causal one
  kWanted,       // something besides the result is wanted elsewhere
  kTypes,        // q, k, v and the result differ in dtype
  kLayout,       // heads share keys, or sizes do not fit otherwise
  kDeclined,     // the library does not take it, or none was asked
};
/// "it has a mask besides the causal one": for people; "" for kNoAttention.
std::string_view words(NotCalled why);

/// An attention as one call.
struct LibraryAttention {
  std::vector<graph::OpId> ops;  // that it does, ascending
  // q, k, v, and of a gradient o, l, do; o, for training l, or dq, dk, dv: the call's buffers, in their order
  std::vector<graph::ValueId> operands, results;
  LibraryCall call;
};

/// One attention of a program.
struct NamedAttention {
  std::vector<graph::OpId> body;            // what its result depends on behind q, k and v, ascending
  NotCalled why = NotCalled::kNoAttention;  // where `attention` is empty
  std::optional<LibraryAttention> attention{};
};

/// All that a program names, in its order.
std::vector<NamedAttention> named_attentions(const graph::Program& program);

/// Takes what the library claims out of its units, into one unit each, which names its place in the answer
/// (Unit::library_attention). Units stay in an order that respects definitions before uses; all products must stand
/// alone.
std::vector<LibraryAttention> claim_attentions(const graph::Program& program, std::vector<Unit>& units,
                                               const std::function<bool(const LibraryCall&)>& claims);

}  // namespace crucible::kernel
