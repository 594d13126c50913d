// Lowering of dropout and its gradient: arithmetic on the mask that the recorded op drew.
#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

/// Only the mask is random, and it was recorded: what is left is arithmetic.
void native_dropout_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Expression g = c.wide("grad_output");
  const Expression kept = choose(c.tensor("mask"), g, 0);
  c.set(0, multiply(e, kept, c.operand("scale")));
}

void native_dropout(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.wide("input");
  const double p = c.real("p");
  const bool train = !c.has("train") || c.boolean("train");
  if (!train || p == 0) {
    c.set(0, x);
    return c.set(1, Term::integer(1));
  }
  const Expression mask = c.drawn(1);
  c.set(1, mask);
  const Expression kept = choose(mask, x, 0);
  c.set(0, p == 1 ? e.fill(Term::integer(0), x.sizes(), x.dtype) : multiply(e, kept, Term::number(1 / (1 - p))));
}

constexpr Entry kEntries[] = {
    {"aten::native_dropout", native_dropout},
    {"aten::native_dropout_backward", native_dropout_backward},
};

}  // namespace

std::span<const Entry> dropout_entries() { return kEntries; }

}  // namespace crucible::aten
