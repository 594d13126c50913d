// Factorizations of matrices for the reference interpreter: textbook algorithms in double precision, other ones than
// those of the generated kernels where the result is unique.
#pragma once

#include <cstdint>
#include <vector>

#include "core/graph/program.hpp"
#include "core/graph/reference_contract.hpp"

namespace crucible::graph {

/// Dense row-major results, batches one after the other. The whole numbers of kLu are `pivots`; its second entry of
/// `reals` is empty.
struct FactorResult {
  std::vector<Reals> reals;
  std::vector<std::int64_t> pivots;
};

/// `first` and `second` are the op's operands, dense and row-major; `second` is empty where the kind has one.
FactorResult reference_factor(const Op& op, const Reals& first, const Reals& second);

/// `lists` lists of `rows` numbers from as many of `steps` exchanges; one outside of the rows does nothing.
std::vector<std::int64_t> reference_permutation(const std::vector<std::int64_t>& pivots, std::int64_t lists,
                                                std::int64_t steps, std::int64_t rows);

}  // namespace crucible::graph
