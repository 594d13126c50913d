// Lowering of losses between a prediction and a target of the same sizes, with their gradients.
#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {


Expression difference(OpCall& c) { return c.wide("self") - c.wide("target"); }

/// Times the weight of each element, where there is one.
Expression weighted(OpCall& c, const Expression& x) { return c.has("weight") ? x * c.wide("weight") : x; }

void give_reduced(OpCall& c, const Expression& losses) {
  c.set(0, reduced_loss(c.emit(), losses, c.integer("reduction")));
}

/// What the gradient of each element is multiplied with for the reduction.
double share(OpCall& c, const Expression& x) {
  return c.integer("reduction") == kReduceMean ? 1.0 / static_cast<double>(x.elements()) : 1.0;
}

void mse_loss(OpCall& c) {
  const Expression d = difference(c);
  give_reduced(c, d * d);
}

void mse_loss_backward(OpCall& c) {
  const Expression d = difference(c);
  c.set(0, d * (2.0 * share(c, d)) * c.wide("grad_output"));
}

void smooth_l1_loss(OpCall& c) {
  const Expression z = magnitude(difference(c));
  const double beta = c.real("beta");
  give_reduced(c, beta == 0 ? z : choose(z < beta, z * z * 0.5 / beta, z - 0.5 * beta));
}

void smooth_l1_loss_backward(OpCall& c) {
  const Expression d = difference(c), g = c.wide("grad_output") * share(c, d);
  const double beta = c.real("beta");
  c.set(0, choose(d <= -beta, -g, choose(d >= beta, g, g * d / beta)));
}

void huber_loss(OpCall& c) {
  const Expression z = magnitude(difference(c));
  const double delta = c.real("delta");
  give_reduced(c, choose(z <= delta, z * z * 0.5, (z - 0.5 * delta) * delta));
}

void huber_loss_backward(OpCall& c) {
  const Expression d = difference(c), g = c.wide("grad_output") * share(c, d);
  const double delta = c.real("delta");
  c.set(0, choose(d <= -delta, -g * delta, choose(d >= delta, g * delta, g * d)));
}

/// Logarithms are held above -100, so that a certain prediction that is wrong costs a finite number.
void binary_cross_entropy(OpCall& c) {
  const Expression x = c.wide("self"), t = c.wide("target");
  const Expression no = larger(log_plus_1(-x), -100), yes = larger(log(x), -100);
  give_reduced(c, weighted(c, (t - 1) * no - t * yes));
}

void binary_cross_entropy_backward(OpCall& c) {
  const Expression x = c.wide("self"), t = c.wide("target");
  const Expression g = c.wide("grad_output") * (x - t) / larger((1 - x) * x, 1e-12);
  c.set(0, weighted(c, g) * share(c, x));
}

void binary_cross_entropy_with_logits(OpCall& c) {
  const Expression x = c.wide("self"), t = c.wide("target");
  Expression log_sigmoid = smaller(x, 0) - log_plus_1(exp(-magnitude(x)));
  if (c.has("pos_weight")) log_sigmoid = log_sigmoid * ((c.wide("pos_weight") - 1) * t + 1);
  give_reduced(c, weighted(c, (1 - t) * x - log_sigmoid));
}

void soft_margin_loss(OpCall& c) { give_reduced(c, log_plus_1(exp(-c.wide("self") * c.wide("target")))); }

void soft_margin_loss_backward(OpCall& c) {
  const Expression t = c.wide("target"), z = exp(-t * c.wide("self"));
  c.set(0, -t * z / (z + 1) * share(c, t) * c.wide("grad_output"));
}

constexpr Entry kEntries[] = {
    {"aten::mse_loss", mse_loss},
    {"aten::mse_loss_backward", mse_loss_backward},
    {"aten::smooth_l1_loss", smooth_l1_loss},
    {"aten::smooth_l1_loss_backward", smooth_l1_loss_backward},
    {"aten::huber_loss", huber_loss},
    {"aten::huber_loss_backward", huber_loss_backward},
    {"aten::binary_cross_entropy", binary_cross_entropy},
    {"aten::binary_cross_entropy_backward", binary_cross_entropy_backward},
    {"aten::binary_cross_entropy_with_logits", binary_cross_entropy_with_logits},
    {"aten::soft_margin_loss", soft_margin_loss},
    {"aten::soft_margin_loss_backward", soft_margin_loss_backward},
};

}  // namespace

std::span<const Entry> loss_entries() { return kEntries; }

}  // namespace crucible::aten
