// Lowering of softmax with its gradients.
#include <limits>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

void log_softmax(OpCall& c) {
  Emitter& e = c.emit();
  const auto dim = c.integer("dim");
  const Expression x = e.cast(c.tensor("self"), compute_dtype(c.result(0).dtype));
  if (x.elements() == 0) return c.set(0, x);
  const Expression shifted = x - e.max(x, {dim});
  const Expression total = e.sum(exp(shifted), {dim});
  c.set(0, shifted - log(total));
}

void log_softmax_backward(OpCall& c) {
  Emitter& e = c.emit();
  const auto dim = c.integer("dim");
  const Expression g = c.wide("grad_output"), y = c.wide("output");
  const Expression part = multiply(e, exp(y), e.sum(g, {dim}));
  c.set(0, g - part);
}

void softmax(OpCall& c) {
  Emitter& e = c.emit();
  const auto dim = c.integer("dim");
  const Expression x = e.cast(c.tensor("self"), compute_dtype(c.result(0).dtype));
  if (x.elements() == 0) return c.set(0, x);
  const Expression powers = exp(x - e.max(x, {dim}));
  c.set(0, powers / e.sum(powers, {dim}));
}

/// As softmax, but a line of -inf alone becomes zeros.
void safe_softmax(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = widened(e, e.cast(c.tensor("self"), c.result(0).dtype));
  const std::int64_t dim = c.integer("dim");
  if (x.elements() == 0) return c.set(0, x);
  const Expression top = e.max(x, {dim});
  const Expression powers = exp(x - top);
  const Expression result = powers / e.sum(powers, {dim});
  const Expression none = top == -std::numeric_limits<double>::infinity();
  c.set(0, choose(none, e.fill(Term::number(0), {}, x.dtype), result));
}

void softmax_backward(OpCall& c) {
  Emitter& e = c.emit();
  const auto dim = c.integer("dim");
  const Expression g = c.wide("grad_output"), y = c.wide("output");
  const Expression inner = e.sum(multiply(e, g, y), {dim});
  c.set(0, multiply(e, y, g - inner));
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
