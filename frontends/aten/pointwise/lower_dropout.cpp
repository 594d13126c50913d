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

/// Dropout of devices: `p` is the share that is kept, the mask a byte for each element.
void fused_dropout(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.wide("self"), mask = c.drawn(1);
  const double kept = c.real("p");
  c.set(1, mask);
  c.set(0, multiply(e, choose(mask != 0, x, 0), Term::number(kept == 0 ? 0 : 1 / kept)));
}

/// Its gradient.
void masked_scale(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.wide("self");
  c.set(0, multiply(e, multiply(e, x, Expression(e, c.tensor("mask")).cast(x.dtype)), c.operand("scale")));
}

constexpr Entry kEntries[] = {
    {"aten::_fused_dropout", fused_dropout},
    {"aten::_masked_scale", masked_scale},
    {"aten::native_dropout", native_dropout},
    {"aten::native_dropout_backward", native_dropout_backward},
};

}  // namespace

std::span<const Entry> dropout_entries() { return kEntries; }

}  // namespace crucible::aten
