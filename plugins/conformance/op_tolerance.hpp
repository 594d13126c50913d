// How far one op's result may be from the exact one, in either numerics mode: the one source of the kit's comparison
// and of docs/numerics.md's table. What chains of ops may add up to is the comparison's business.
#pragma once

#include <string>

#include "core/base/dtype.hpp"
#include "core/graph/program.hpp"

namespace crucible::conformance {

/// In units in the last place of `dtype`; 0: correctly rounded, so nothing. Sums have sum_tolerance() besides.
double allowed_ulp(graph::OpKind kind, DType dtype);

/// Of a sum of `terms` numbers of at most `magnitude` each, in any order, in f32 (f64 where `dtype` is): how far,
/// absolutely. The rounding to f16 or bf16 at the end is a unit more.
double sum_tolerance(double terms, double magnitude, DType dtype);

/// The table as Markdown, a row per set of kinds with the same bounds, made from the kit's programs: what is promised
/// is what is compared.
std::string tolerance_table();

}  // namespace crucible::conformance
