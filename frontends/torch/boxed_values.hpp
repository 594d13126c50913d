// Arguments and results that stand as IValues beside a schema, written as the records that typed kernels write. For the
// boxed kernel (boxed_kernel.cpp) and the observers (record_function.cpp).
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include "frontends/torch/op_scope.hpp"

namespace crucible::recorder {

/// Writes the arguments of an op: `values` are as many as the schema has arguments.
void encode_arguments(OpScope& scope, const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> values);

/// Writes its results, and what it drew. To be called when after_run() said so.
void encode_results(OpScope& scope, const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> values);

}  // namespace crucible::recorder
