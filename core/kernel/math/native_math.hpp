// The functions of math_prelude() as the build's own C compiler made them: what the interpreter of the kernel IR calls.
// The text is the one that kernels are compiled with, so that strict numerics have one source; write_native_math.cpp
// wraps it.
#pragma once

#include <string_view>

namespace crucible::kernel {

/// Reads its operands from `a` and `b` (null where there is one operand) and writes its result to `result`, each of the
/// function's own types, aligned. Pure; any thread.
using NativeFunction = void (*)(const void* a, const void* b, void* result);

/// The function called `name`, as "exp_f32", "ipow_i64", "order_key_f64" or "f16_from_f64" (a conversion); null when
/// there is none.
NativeFunction native_function(std::string_view name);

}  // namespace crucible::kernel
