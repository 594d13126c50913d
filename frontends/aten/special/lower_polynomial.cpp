// Lowering of Hermite, Laguerre and Legendre polynomials by their recurrences, step by step as the framework takes
// them. An order that is data is answered by the step that reaches it: of higher orders than there are steps nothing is
// known, they give NaN.
#include <limits>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

enum class Kind { kHermiteH, kHermiteHe, kLaguerre, kLegendre };

bool is_hermite(Kind kind) { return kind == Kind::kHermiteH || kind == Kind::kHermiteHe; }

/// The highest order. The framework's own limit for Hermite polynomials, which overflow soon after; for the others what
/// a program can hold where each order may occur, more where the order is a number.
std::int64_t highest_order(Kind kind, DType dtype, bool is_number) {
  if (is_hermite(kind)) return dtype == DType::kF64 ? 512 : 128;
  return is_number ? 4096 : 128;
}

/// The polynomial of order 1.
Expression first(Kind kind, const Expression& x) {
  if (kind == Kind::kHermiteH) return x + x;
  return kind == Kind::kLaguerre ? 1.0 - x : x;
}

/// Order k + 1 from order k and the one before it.
Expression next(Kind kind, const Expression& x, const Expression& here, const Expression& before, std::int64_t order) {
  const auto k = static_cast<double>(order);
  switch (kind) {
    case Kind::kHermiteH:
      return (x + x) * here - before * (2 * k);
    case Kind::kHermiteHe:
      return x * here - before * k;
    case Kind::kLaguerre:
      return ((1.0 - x + 2 * k) * here - before * k) / (k + 1);
    case Kind::kLegendre:
      return (x * (2 * k + 1) * here - before * k) / (k + 1);
  }
  return here;
}

/// Where the value is known without steps, which would round.
Expression at_edges(Kind kind, const Expression& x, const Expression& n, const Expression& value) {
  if (kind == Kind::kLaguerre) return choose(x == 0, 1.0, value);
  if (kind != Kind::kLegendre) return value;
  const Expression half = n * 0.5, is_even = half == half.unary(OpKind::kFloor);
  return choose(magnitude(x) == 1, choose((x > 0) || is_even, 1.0, -1.0), value);
}

template <Kind kind>
void polynomial(OpCall& c) {
  Emitter& e = c.emit();
  const Expression given_x = c.operand("x"), given_n = c.operand("n");
  DType dtype = promote({given_x, given_n});
  dtype = is_floating(dtype) ? compute_dtype(dtype) : DType::kF32;
  const auto wide = [&](const Term& x) {
    return Expression(e, x.is_number() ? e.fill(x, {}, dtype) : e.cast(x, dtype));
  };
  const Expression x = wide(given_x), n = wide(given_n).unary(OpKind::kTruncate);

  const bool is_number = given_n.is_number() && given_n.operand.scalar.slot == graph::kNone;
  std::int64_t steps = highest_order(kind, dtype, is_number);
  if (is_number) {
    const double order = e.number_values(given_n)[0].real();
    if (!is_hermite(kind) && order >= static_cast<double>(steps + 1)) return e.fail("argument n is larger than 4096");
    steps = order >= static_cast<double>(steps) ? steps : order >= 0 ? static_cast<std::int64_t>(order) : 0;
  }
  Expression before(e, e.fill(Term::number(1), {}, dtype)), here = first(kind, x);
  Expression value = choose(n == 0, 1.0, choose(n == 1, here, kNan));
  for (std::int64_t k = 1; k < steps; ++k) {
    const Expression after = next(kind, x, here, before, k);
    before = here;
    here = after;
    value = choose(n == static_cast<double>(k + 1), here, value);
  }
  // What is no order counts as a negative one.
  c.set(0, choose((n >= 0) && (n < std::numeric_limits<double>::infinity()), at_edges(kind, x, n, value), 0.0));
}

#define CRUCIBLE_POLYNOMIAL(name, kind)                                                               \
  {"aten::special_" name, polynomial<kind>}, {"aten::special_" name ".n_scalar", polynomial<kind>}, { \
    "aten::special_" name ".x_scalar", polynomial<kind>                                               \
  }

constexpr Entry kEntries[] = {
    CRUCIBLE_POLYNOMIAL("hermite_polynomial_h", Kind::kHermiteH),
    CRUCIBLE_POLYNOMIAL("hermite_polynomial_he", Kind::kHermiteHe),
    CRUCIBLE_POLYNOMIAL("laguerre_polynomial_l", Kind::kLaguerre),
    CRUCIBLE_POLYNOMIAL("legendre_polynomial_p", Kind::kLegendre),
};
#undef CRUCIBLE_POLYNOMIAL

}  // namespace

std::span<const Entry> polynomial_entries() { return kEntries; }

}  // namespace crucible::aten
