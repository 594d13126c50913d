// Terms with operators, so that lowering functions can state formulas as they are written on paper.
#pragma once

#include <concepts>

#include "frontends/aten/algebra/formulas.hpp"

namespace crucible::aten {

/// Numbers in C++ (double, int) stand beside an Expression as numbers of the program: floating ones raise integers to
/// f32, whole ones keep the dtype.
template <class T>
concept Number = std::integral<T> || std::floating_point<T>;

inline const Term& as_term(const Term& x) { return x; }
template <Number T>
Term as_term(T value) {
  if constexpr (std::integral<T>) {
    return Term::integer(value);
  } else {
    return Term::number(value);
  }
}

template <class T>
concept Operand = Number<T> || std::same_as<T, Term> || std::same_as<T, Expression>;

template <class A, class B>
Emitter& emitter_of(const A& a, const B& b) {
  if constexpr (std::same_as<A, Expression>) {
    return a.emitter();
  } else {
    return b.emitter();
  }
}

#define CRUCIBLE_FORMULA(op, kind)                                                                          \
  template <Operand A, Operand B>                                                                           \
  requires(std::same_as<A, Expression> || std::same_as<B, Expression>) Expression operator op(const A& a,   \
                                                                                              const B& b) { \
    Emitter& e = emitter_of(a, b);                                                                          \
    return {e, e.binary(graph::OpKind::kind, as_term(a), as_term(b))};                                      \
  }
CRUCIBLE_FORMULA(+, kAdd)
CRUCIBLE_FORMULA(-, kSubtract)
CRUCIBLE_FORMULA(*, kMultiply)
CRUCIBLE_FORMULA(/, kDivide)
CRUCIBLE_FORMULA(<, kLess)
CRUCIBLE_FORMULA(<=, kLessEqual)
CRUCIBLE_FORMULA(>, kGreater)
CRUCIBLE_FORMULA(>=, kGreaterEqual)
CRUCIBLE_FORMULA(==, kEqual)
CRUCIBLE_FORMULA(!=, kNotEqual)
CRUCIBLE_FORMULA(&&, kLogicalAnd)
CRUCIBLE_FORMULA(||, kLogicalOr)
#undef CRUCIBLE_FORMULA

inline Expression operator-(const Expression& x) { return x.unary(graph::OpKind::kNegate); }
inline Expression operator!(const Expression& x) { return x.unary(graph::OpKind::kLogicalNot); }

template <Operand A, Operand B>
Expression choose(const Expression& condition, const A& a, const B& b) {
  Emitter& e = condition.emitter();
  return {e, e.select(condition, as_term(a), as_term(b))};
}
template <Operand B>
Expression larger(const Expression& a, const B& b) {
  return a.binary(graph::OpKind::kMaximum, as_term(b));
}
template <Operand B>
Expression smaller(const Expression& a, const B& b) {
  return a.binary(graph::OpKind::kMinimum, as_term(b));
}
inline Expression magnitude(const Expression& x) { return x.unary(graph::OpKind::kAbsolute); }
inline Expression exp(const Expression& x) { return x.unary(graph::OpKind::kExp); }
inline Expression log(const Expression& x) { return x.unary(graph::OpKind::kLog); }
inline Expression exp_minus_1(const Expression& x) { return x.unary(graph::OpKind::kExpm1); }
inline Expression log_plus_1(const Expression& x) { return x.unary(graph::OpKind::kLog1p); }
inline Expression square_root(const Expression& x) { return x.unary(graph::OpKind::kSqrt); }
inline Expression hyperbolic_tangent(const Expression& x) { return x.unary(graph::OpKind::kTanh); }
inline Expression sigmoid(const Expression& x) { return x.unary(graph::OpKind::kSigmoid); }
inline Expression is_nan(const Expression& x) { return x.unary(graph::OpKind::kIsNan); }

}  // namespace crucible::aten
