// The variants of a recording for people and as JSON: `crucible graph FILE --variants`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/graph/branches.hpp"
#include "core/graph/variants.hpp"

namespace crucible::cli {

/// A table with a line for each variant, the order in which they ran, and the branches at which they part as a tree.
/// What is longer than a person reads is cut, and says that --json lists all.
std::string variants_text(const graph::Variants& variants, const graph::Branches& branches);

/// An SVG document: the branches from left to right, what decides in each box, variants at the right. What stands
/// behind a box shows where the mouse rests. Deterministic.
std::string variants_svg(const graph::Variants& variants, const graph::Branches& branches);

/// Keys: `count`, `seams`, `states_given`, `variants` (`variant`, `iterations`, `ops`, `values`, `first_iteration`,
/// `difference`), `branches` (`op`, `op_name`, `site`, `guard`, `words`, `alike_after`, `ways` of `when`, `variants`,
/// `iterations` and `next`, the number of another branch or null), `turns` (`iteration`, `variant`, `seam`,
/// `states_given`).
nlohmann::ordered_json variants_document(const graph::Variants& variants, const graph::Branches& branches);

/// What is asked at a branch: "op 33, train.py:14: the size of what aten::addmm takes as mat1".
std::string branch_words(const graph::Branch& branch);

}  // namespace crucible::cli
