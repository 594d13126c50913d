// The JSON form of ops and arguments, which `crucible trace ops --json` and `crucible trace export` share.
// docs/crtrace.md has the keys.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "core/trace/trace.hpp"

namespace crucible::cli {

/// A number as JSON; NaN and the infinities, which JSON lacks, as texts.
nlohmann::ordered_json number_json(double number);

/// A tensor has "tensor", "dtype", "sizes", "strides", "offset" and "storage" (null: has none).
nlohmann::ordered_json arg_json(const trace::Trace& trace, const trace::Arg& arg);

/// The op with index `index` in trace.ops, which belongs to iteration `iteration`.
nlohmann::ordered_json op_json(const trace::Trace& trace, std::size_t iteration, std::uint32_t index);

}  // namespace crucible::cli
