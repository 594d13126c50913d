// Lowering of softmax with its gradients.
#include <limits>

#include "frontends/aten/algebra/formulas.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

void log_softmax(OpCall& c) {
  Emitter& e = c.emit();
  const auto dim = c.integer("dim");
  const Term x = e.cast(c.tensor("self"), compute_dtype(c.result(0).dtype));
  if (x.elements() == 0) return c.set(0, x);
  const Term shifted = e.binary(OpKind::kSubtract, x, e.max(x, {dim}));
  const Term total = e.sum(e.unary(OpKind::kExp, shifted), {dim});
  c.set(0, e.binary(OpKind::kSubtract, shifted, e.unary(OpKind::kLog, total)));
}

void log_softmax_backward(OpCall& c) {
  Emitter& e = c.emit();
  const auto dim = c.integer("dim");
  const Term g = widened(e, c.tensor("grad_output")), y = widened(e, c.tensor("output"));
  const Term part = multiply(e, e.unary(OpKind::kExp, y), e.sum(g, {dim}));
  c.set(0, e.binary(OpKind::kSubtract, g, part));
}

void softmax(OpCall& c) {
  Emitter& e = c.emit();
  const auto dim = c.integer("dim");
  const Term x = e.cast(c.tensor("self"), compute_dtype(c.result(0).dtype));
  if (x.elements() == 0) return c.set(0, x);
  const Term powers = e.unary(OpKind::kExp, e.binary(OpKind::kSubtract, x, e.max(x, {dim})));
  c.set(0, e.binary(OpKind::kDivide, powers, e.sum(powers, {dim})));
}

/// As softmax, but a line of -inf alone becomes zeros.
void safe_softmax(OpCall& c) {
  Emitter& e = c.emit();
  const Term x = widened(e, e.cast(c.tensor("self"), c.result(0).dtype));
  const std::int64_t dim = c.integer("dim");
  if (x.elements() == 0) return c.set(0, x);
  const Term top = e.max(x, {dim});
  const Term powers = e.unary(OpKind::kExp, e.binary(OpKind::kSubtract, x, top));
  const Term result = e.binary(OpKind::kDivide, powers, e.sum(powers, {dim}));
  const Term none = e.binary(OpKind::kEqual, top, Term::number(-std::numeric_limits<double>::infinity()));
  c.set(0, e.select(none, e.fill(Term::number(0), {}, x.dtype), result));
}

void softmax_backward(OpCall& c) {
  Emitter& e = c.emit();
  const auto dim = c.integer("dim");
  const Term g = widened(e, c.tensor("grad_output")), y = widened(e, c.tensor("output"));
  const Term inner = e.sum(multiply(e, g, y), {dim});
  c.set(0, multiply(e, y, e.binary(OpKind::kSubtract, g, inner)));
}

constexpr Entry kEntries[] = {
    {"aten::_log_softmax", log_softmax},
    {"aten::_log_softmax_backward_data", log_softmax_backward},
    {"aten::_softmax", softmax},
    {"aten::_safe_softmax", safe_softmax},
    {"aten::_softmax_backward_data", softmax_backward},
};

}  // namespace

std::span<const Entry> softmax_entries() { return kEntries; }

}  // namespace crucible::aten
