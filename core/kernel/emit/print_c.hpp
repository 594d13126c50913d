// The kernel IR as C for clang (GNU C11 with its loop pragmas): the text that the CPU plugin compiles. Functions and
// types that it names are those of math_prelude(). It only prints: what is fast is decided where the IR is built.
#pragma once

#include <string>
#include <string_view>

#include "core/kernel/ir/kernel_ir.hpp"

namespace crucible::kernel {

/// The C function `name` for a verified kernel. Deterministic: equal kernels have equal texts.
std::string print_c(const KernelIr& kernel, std::string_view name);

}  // namespace crucible::kernel
