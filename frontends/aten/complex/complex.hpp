// Complex numbers in lowering functions: two real terms. In a program there are none: memory of complex numbers is
// memory of real ones, real and imaginary parts in turn, and a tensor of them has one more dimension, of size 2, at the
// end.
#pragma once

#include "frontends/aten/call/op_call.hpp"

namespace crucible::aten {

bool is_complex(DType dtype);
/// f32 for c64, f64 for c128.
DType component_of(DType complex);
/// The tensor as one of its components: one more dimension at the end.
trace::Tensor as_pairs(const trace::Tensor& tensor);
/// Whether an argument or a result of the op is a tensor of complex numbers.
bool touches_complex(const trace::Trace& trace, const trace::Op& op);

/// Both parts have the same sizes, or one of them is a number.
struct Complex {
  Term real, imaginary;
  const Sizes& sizes() const { return real.is_number() ? imaginary.sizes() : real.sizes(); }
};

Complex add(Emitter& e, const Complex& a, const Complex& b);
Complex subtract(Emitter& e, const Complex& a, const Complex& b);
Complex multiply(Emitter& e, const Complex& a, const Complex& b);
Complex divide(Emitter& e, const Complex& a, const Complex& b);
Complex conjugate(Emitter& e, const Complex& x);
/// From length and angle.
Complex polar(Emitter& e, const Term& length, const Term& turn);
/// The largest of both parts times a square root: no overflow where the result has none.
Term magnitude(Emitter& e, const Complex& x);

}  // namespace crucible::aten
