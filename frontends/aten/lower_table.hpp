// The lowering table: one entry per ATen op, by name and overload. Each lower_*.cpp of a family's folder has the
// functions and the entries of one kind of op; a new op is its function, its entry and its test in tests/aten.
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
  /// What find_entry() gives where numbers are complex. kWhole: what complex/ has of that name, which is often nothing;
  /// tables of views and transforms, which serve both, have nothing else.
  Complexity complexity = Complexity::kWhole;
};

/// The one list of tables, by folder; NAME stands for `std::span<const Entry> NAME_entries()`, at the end of a
/// lower_*.cpp.
#define CRUCIBLE_ATEN_TABLES(TABLE)                                                                                   \
  TABLE(attention) TABLE(encoder)                                                                                     \
  TABLE(complex_own) TABLE(fft)                                                                                       \
  TABLE(convolution) TABLE(distance) TABLE(factor) TABLE(least_squares) TABLE(product)                                \
  TABLE(bag) TABLE(index) TABLE(indexing) TABLE(scatter)                                                              \
  TABLE(ctc) TABLE(likelihood) TABLE(loss) TABLE(margin)                                                              \
  TABLE(batch_norm) TABLE(group_norm) TABLE(normalization) TABLE(softmax)                                             \
  TABLE(optimizer)                                                                                                    \
  TABLE(activation) TABLE(binary) TABLE(dropout) TABLE(foreach) TABLE(parts) TABLE(pointwise) TABLE(unary)            \
  TABLE(adaptive_pool) TABLE(average_pool) TABLE(max_pool)                                                            \
  TABLE(fake_quantize)                                                                                                \
  TABLE(cell) TABLE(packed) TABLE(recurrent)                                                                          \
  TABLE(histogram) TABLE(reduction) TABLE(segment) TABLE(sorting) TABLE(statistics) TABLE(unique)                     \
  TABLE(antialias) TABLE(grid_sample) TABLE(interpolate) TABLE(nearest)                                               \
  TABLE(alias) TABLE(creation) TABLE(move) TABLE(pattern) TABLE(reflection) TABLE(unfold) TABLE(view) TABLE(view_copy)\
  TABLE(sparse_own) TABLE(sparse_product_own)                                                                         \
  TABLE(chebyshev) TABLE(gamma) TABLE(igamma) TABLE(polynomial) TABLE(special) TABLE(window_function)                 \
  TABLE(boxes)

/// What stands in the place of others where numbers are complex, or where a tensor is sparse.
#define CRUCIBLE_ATEN_TABLES_INSTEAD(TABLE) TABLE(complex) TABLE(complex_function) TABLE(sparse) TABLE(sparse_product)

#define CRUCIBLE_ATEN_DECLARE(NAME) std::span<const Entry> NAME##_entries();
CRUCIBLE_ATEN_TABLES(CRUCIBLE_ATEN_DECLARE)
CRUCIBLE_ATEN_TABLES_INSTEAD(CRUCIBLE_ATEN_DECLARE)
#undef CRUCIBLE_ATEN_DECLARE

/// What tensors an op has to do with: many are lowered for dense ones of real numbers alone.
enum class Operands { kReal, kComplex, kSparse };

/// The entry of an op, or null: its own, else that of its functional form (op_variants.hpp). Its `complexity` is what
/// these operands want. Threads: any.
const Entry* find_entry(std::string_view full_name, Operands operands = Operands::kReal);

/// Every name in the table, sorted. Variants that find_entry derives are not among them.
std::vector<std::string_view> lowered_names();

}  // namespace crucible::aten
