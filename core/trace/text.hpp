// Ops, arguments and tensors of a recording as text for people. Exact in every number; nothing parses it back.
// `compounds` are those of the recording: Compounds(trace), made once for all of its texts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/trace/compounds.hpp"
#include "core/trace/trace.hpp"

namespace crucible::trace {

/// "f32[4, 128]@17": type, sizes and storage; "{1, 4}" after the sizes when not row-major, "+8" after the storage when
/// it does not start at its beginning. A compound tensor names its kind and parts instead of a storage:
/// "f32[3, 4]@sparse_coo(indices=i64[2, 3]@5, values=f32[3]@6)". "?" for an id that does not exist.
std::string tensor_text(const Compounds& compounds, TensorId id);

/// "0.1", "true", "[1, 2]", "f32[4]@3", "none": doubles so that reading them gives the same number, with a point.
std::string arg_text(const Compounds& compounds, const Arg& arg);

/// "aten::add.Tensor(self=f32[4]@0, other=f32[4]@1, alpha=1) -> f32[4]@2".
std::string op_text(const Compounds& compounds, const Op& op);

/// {"self", "other", "alpha"} of "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"; empty when
/// the text is not a schema.
std::vector<std::string> argument_names(std::string_view schema_text);

/// The shortest text that reads back as `number`, with a point or an exponent: "1.0", "-0.0", "1e-08", "nan".
std::string double_text(double number);

}  // namespace crucible::trace
