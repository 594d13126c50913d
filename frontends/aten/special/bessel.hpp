// Bessel functions that lowerings outside of the tables of special functions use.
#pragma once

#include "frontends/aten/algebra/emitter.hpp"

namespace crucible::aten {

/// The modified Bessel function of the first kind and order 0; `x` is f32 or f64.
Expression bessel_i0(const Expression& x);

}  // namespace crucible::aten
