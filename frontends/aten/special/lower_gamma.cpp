// Lowering of what hangs on the gamma function beyond its logarithm: Hurwitz zeta, polygamma, multivariate log-gamma.
#include <cmath>
#include <limits>
#include <numbers>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// sum of (q + k)^-x over k = 0, 1, ... for x > 1 and q > 0: nine terms, the rest by Euler and Maclaurin.
/// Source: Cephes Math Library, zeta.c, as the framework has it.
Expression tail_sum(const Expression& x, const Expression& q) {
  constexpr double kBernoulli[] = {12.0,
                                   -720.0,
                                   30240.0,
                                   -1209600.0,
                                   47900160.0,
                                   -1.8924375803183791606e9,
                                   7.47242496e10,
                                   -2.950130727918164224e12,
                                   1.1646782814350067249e14,
                                   -4.5979787224074726105e15,
                                   1.8152105401943546773e17,
                                   -7.1661652561756670113e18};
  constexpr int kTerms = 9;
  const auto inverse_power = [&](const Expression& base) { return base.binary(OpKind::kPower, -x); };
  Expression sum = inverse_power(q);
  for (int k = 1; k <= kTerms; ++k) sum = sum + inverse_power(q + 1.0 * k);
  const Expression w = q + 1.0 * kTerms, last = inverse_power(w);
  sum = sum + last * w / (x - 1.0) - last * 0.5;
  // x (x + 1) ... (x + 2i) w^(-x - 2i - 1) / B[i]
  Expression term = last * x / w;
  for (int i = 0; i < 12; ++i) {
    sum = sum + term / kBernoulli[i];
    term = term * ((x + (2.0 * i + 1)) / w) * ((x + (2.0 * i + 2)) / w);
  }
  // Terms that overflow on the way belong to a sum that the first one has decided.
  return sum;
}

/// With poles at 0, -1, -2, ...; between them for whole x only, as the two sums on both sides of 0.
Expression zeta(const Expression& x, const Expression& q) {
  const Expression size = magnitude(q), fraction = size - size.unary(OpKind::kFloor);
  const Expression right = tail_sum(x, choose(q > 0, q, 1.0 - fraction));
  const Expression left = tail_sum(x, fraction) - tail_sum(x, size + 1.0);
  const Expression half = x * 0.5, is_even = half == half.unary(OpKind::kFloor);
  const Expression both = right + choose(is_even, left, -left);
  const Expression is_whole = x == x.unary(OpKind::kFloor), is_pole = (q <= 0) && (q == q.unary(OpKind::kFloor));
  const Expression finite = choose(q > 0, choose(q == kInfinity, kNan, right), choose(is_whole, both, kNan));
  const Expression limit =
      choose(q == 1, 1.0, choose(q < 1, kInfinity, kNan));  // of x to infinity, as the framework has it
  const Expression value = choose(is_pole, kInfinity, choose(x == kInfinity, limit, finite));
  return choose(x == 1, kInfinity, choose(x < 1, kNan, value));
}

/// Operands in the dtype that both are computed in.
Expression operand(OpCall& c, const char* name) {
  Emitter& e = c.emit();
  const Expression self = c.operand("self"), other = c.operand("other"), x = c.operand(name);
  DType dtype = promote({self, other});
  if (!is_floating(dtype)) dtype = DType::kF32;
  return {e, x.is_number() ? e.fill(x, {}, compute_dtype(dtype)) : e.cast(x, compute_dtype(dtype))};
}

void hurwitz_zeta(OpCall& c) { c.set(0, zeta(operand(c, "self"), operand(c, "other"))); }

/// The derivative of digamma: six terms, then the asymptotic series; below 1/2 by reflection.
Expression trigamma(const Expression& given) {
  const Expression sine = (given * std::numbers::pi).unary(OpKind::kSin), low = given < 0.5;
  Expression x = choose(low, 1.0 - given, given);
  Expression sum = choose(low, -(std::numbers::pi * std::numbers::pi) / (sine * sine), 0.0);
  for (int i = 0; i < 6; ++i) {
    sum = sum + 1.0 / (x * x);
    x = x + 1.0;
  }
  const Expression z = 1.0 / (x * x);
  sum = sum + (1.0 + 0.5 / x + z * (1.0 / 6 - z * (1.0 / 30 - z * (1.0 / 42)))) / x;
  return choose(low, -sum, sum);
}

/// Derivative number n of digamma.
void polygamma(OpCall& c) {
  const Expression x = c.floating("self");
  const std::int64_t n = c.integer("n");
  if (n == 0) return c.set(0, x.unary(OpKind::kDigamma));
  if (n == 1) return c.set(0, trigamma(x));
  const auto order = static_cast<double>(n);
  const Expression power(c.emit(), c.emit().fill(Term::number(order + 1), {}, x.dtype));
  c.set(0, zeta(power, x) * (n % 2 == 1 ? std::tgamma(order + 1) : -std::tgamma(order + 1)));
}

/// log of pi^(p (p - 1) / 4) times gamma(x) gamma(x - 1/2) ... gamma(x - (p - 1) / 2).
void multivariate_log_gamma(OpCall& c) {
  const Expression x = c.floating("self");
  const auto p = c.integer("p");
  if (p < 1 || p > 4096) return c.emit().fail("argument p is not from 1 to 4096");
  Expression sum = x.unary(OpKind::kLogGamma);
  for (std::int64_t k = 1; k < p; ++k) sum = sum + (x - 0.5 * static_cast<double>(k)).unary(OpKind::kLogGamma);
  c.set(0, sum + static_cast<double>(p * (p - 1)) / 4 * std::log(std::numbers::pi));
}

constexpr Entry kEntries[] = {
    {"aten::special_zeta", hurwitz_zeta},
    {"aten::special_zeta.other_scalar", hurwitz_zeta},
    {"aten::special_zeta.self_scalar", hurwitz_zeta},
    {"aten::polygamma", polygamma},
    {"aten::mvlgamma", multivariate_log_gamma},
};

}  // namespace

std::span<const Entry> gamma_entries() { return kEntries; }

}  // namespace crucible::aten
