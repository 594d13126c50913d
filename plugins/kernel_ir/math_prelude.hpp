// The mathematics that kernels call, as C text: types and functions, self-contained (no #include). It belongs to the
// kernel IR as its numbers of functions do: a host computes with it what a kernel has to give (core/kernel/math), a
// plugin compiles it with what it prints. So that both have the same bits in strict numerics, each tells which text it
// has.
#pragma once

#include <string_view>

namespace crucible::kernel {

/// The whole text.
std::string_view math_prelude();
/// What stands in it behind the head, which is for compilers of C alone: types, vectors, CRUCIBLE_FN.
std::string_view math_prelude_body();
/// Another one for another text.
std::string_view math_identity();

/// The parts that have a file of their own. float64 stands behind the float32 part, whose conversions it uses.
std::string_view math_prelude_f64();
/// The functions of functions.hpp; they call those of math_prelude_f64().
std::string_view math_functions();

}  // namespace crucible::kernel
