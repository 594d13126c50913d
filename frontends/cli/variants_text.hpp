// The variants of a recording for people and as JSON: `crucible graph FILE --variants`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/graph/variants.hpp"

namespace crucible::cli {

/// A table with a line for each variant, what tells it from another one in words, and the order in which they ran.
std::string variants_text(const graph::Variants& variants);

/// Keys: `count`, `seams`, `states_given`, `variants` (`variant`, `iterations`, `ops`, `values`, `first_iteration`,
/// `difference`), `turns` (`iteration`, `variant`, `seam`, `states_given`).
nlohmann::ordered_json variants_document(const graph::Variants& variants);

}  // namespace crucible::cli
