// Programs that are an attention, for plugins whose library takes one: products around a softmax as recordings have
// them.
#pragma once

#include "plugins/conformance/ops_programs.hpp"

namespace crucible::conformance {

/// Of f16 and bf16 where the device has them, and of f32; with and without the causal mask, queries, keys and values
/// apart and packed.
std::vector<OpsProgram> attention_programs(const DtypeChoice& dtypes);

/// The same with their gradients, of results and operands alike.
std::vector<OpsProgram> trained_attention_programs(const DtypeChoice& dtypes);

}  // namespace crucible::conformance
