// The lowering table: one entry per ATen op, by name and overload. Each file lower_*.cpp has the functions and the
// entries of one kind of op; a new op is its function, its entry and its test in tests/aten.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "frontends/aten/call/op_call.hpp"

namespace crucible::aten {

using LowerFunction = void (*)(OpCall& call);

/// How an entry sees complex numbers: itself, once for each of their parts (OpCall::by_parts), or by their magnitudes.
enum class Complexity : std::uint8_t { kWhole, kParts, kMagnitude };

struct Entry {
  std::string_view name;  // "aten::add.Tensor"
  LowerFunction lower;
  Complexity complexity = Complexity::kWhole;
};

std::span<const Entry> activation_entries();
std::span<const Entry> adaptive_pool_entries();
std::span<const Entry> alias_entries();  // views, which read nothing
std::span<const Entry> antialias_entries();
std::span<const Entry> attention_entries();
std::span<const Entry> average_pool_entries();
std::span<const Entry> bag_entries();
std::span<const Entry> batch_norm_entries();
std::span<const Entry> binary_entries();
std::span<const Entry> cell_entries();
std::span<const Entry> chebyshev_entries();
std::span<const Entry> complex_entries();      // in the place of others where numbers are complex
std::span<const Entry> complex_own_entries();  // ops of complex numbers alone
std::span<const Entry> complex_function_entries();  // as complex_entries()
std::span<const Entry> convolution_entries();
std::span<const Entry> creation_entries();
std::span<const Entry> ctc_entries();
std::span<const Entry> distance_entries();
std::span<const Entry> encoder_entries();
std::span<const Entry> factor_entries();
std::span<const Entry> fft_entries();
std::span<const Entry> foreach_entries();
std::span<const Entry> gamma_entries();
std::span<const Entry> grid_sample_entries();
std::span<const Entry> group_norm_entries();
std::span<const Entry> histogram_entries();
std::span<const Entry> igamma_entries();
std::span<const Entry> index_entries();
std::span<const Entry> indexing_entries();
std::span<const Entry> interpolate_entries();
std::span<const Entry> least_squares_entries();
std::span<const Entry> likelihood_entries();
std::span<const Entry> loss_entries();
std::span<const Entry> margin_entries();
std::span<const Entry> max_pool_entries();
std::span<const Entry> move_entries();
std::span<const Entry> nearest_entries();
std::span<const Entry> normalization_entries();
std::span<const Entry> optimizer_entries();
std::span<const Entry> parts_entries();
std::span<const Entry> pattern_entries();
std::span<const Entry> pointwise_entries();
std::span<const Entry> polynomial_entries();
std::span<const Entry> product_entries();
std::span<const Entry> recurrent_entries();
std::span<const Entry> reduction_entries();
std::span<const Entry> reflection_entries();
std::span<const Entry> scatter_entries();
std::span<const Entry> segment_entries();
std::span<const Entry> softmax_entries();
std::span<const Entry> sorting_entries();
std::span<const Entry> sparse_entries();      // in the place of others where a tensor is sparse
std::span<const Entry> sparse_own_entries();  // ops of sparse tensors alone
std::span<const Entry> special_entries();
std::span<const Entry> statistics_entries();
std::span<const Entry> unary_entries();
std::span<const Entry> unfold_entries();
std::span<const Entry> unique_entries();
std::span<const Entry> view_entries();
std::span<const Entry> view_copy_entries();

/// Ops of real numbers that may be done with each part of complex ones, and those that may be done with magnitudes.
std::span<const std::string_view> names_by_parts();
std::span<const std::string_view> names_by_magnitude();

/// All of the lists above.
std::vector<std::span<const Entry>> entry_lists();

/// What tensors an op has to do with: many are lowered for dense ones of real numbers alone.
enum class Operands { kReal, kComplex, kSparse };

/// The entry of an op, or null: its own, else that of its functional form (op_variants.hpp). Threads: any.
const Entry* find_entry(std::string_view full_name, Operands operands = Operands::kReal);

/// Every name in the table, sorted. Variants that find_entry derives are not among them.
std::vector<std::string_view> lowered_names();

}  // namespace crucible::aten
