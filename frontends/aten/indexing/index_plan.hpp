// Tensors as indices: how a list of them names elements of a tensor, and where a mask is true.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "frontends/aten/algebra/emitter.hpp"

namespace crucible::aten {

/// x[indices]: for each dimension of x an index, all broadcasting to `sizes`, those of the result.
struct IndexPlan {
  std::vector<Term> terms;
  Sizes sizes;
  std::vector<Term> mask_counts = {};  // how many elements of each mask are true: i64 without dimensions
  std::int64_t mask_dim = 0;           // the dimension of `sizes` that the elements of masks stand along
};

/// True for what counts as a mask among indices: bool and u8.
bool is_mask(const Term& index);

/// How many elements of `mask` are true up to each one, itself included: i64 of the mask's sizes.
Expression running_count(Emitter& e, const Term& mask);

/// How many there are: i64 without dimensions.
Expression true_count(Emitter& e, const Term& mask);

/// Where the true elements of `mask` are, in row-major order: one i64 tensor of `count` elements per dimension. `count`
/// is what the recording says; more are left out, fewer are followed by `filler`.
std::vector<Term> true_coordinates(Emitter& e, const Term& mask, std::int64_t count, std::int64_t filler = 0);

/// The framework's rules for x[indices]: masks stand for the coordinates of their true elements, indices broadcast with
/// each other, and their dimensions stand where the first one is if all are neighbours, else in front. `mask_count`
/// says how many elements the masks hold; given the place of their dimension in the result and the result's rank.
/// `may_lie_outside`: the caller looks only at elements whose indices lie inside.
IndexPlan plan_index(Emitter& e, const Term& x, const std::vector<std::optional<Term>>& indices,
                     const std::function<std::int64_t(std::size_t dimension, std::size_t rank)>& mask_count,
                     bool may_lie_outside = false);

/// Elements [start, start + length) along `dim`, which must be inside; a view.
Term narrow(const Term& x, std::int64_t dim, std::int64_t start, std::int64_t length, std::int64_t step = 1);

/// A copy of `base` in which the elements of `region`, a view of a row-major tensor of base's sizes, are `source`'s.
Term updated(Emitter& e, const Term& base, const graph::View& region, const Term& source);

/// The view of the diagonal that leads from dimension `first` to `second`, which becomes the last dimension.
graph::View diagonal_view(graph::View view, std::int64_t offset, std::int64_t first, std::int64_t second);

}  // namespace crucible::aten
