// Lowering of activations and their gradients. Gradients at the kinks and at NaN are those of the framework's
// vectorised CPU kernels (its loop for the rest of a row takes some NaN for numbers).
#include <cmath>
#include <numbers>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

void relu(OpCall& c) { c.set(0, larger(c.wide("self"), 0)); }

void threshold_backward(OpCall& c) {
  const Expression self = c.tensor("self"), gradient = c.tensor("grad_output");
  const Expression off = self <= c.operand("threshold");
  c.set(0, choose(off, 0, gradient));
}

void sigmoid_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Expression g = c.wide("grad_output"), y = c.wide("output");
  const Expression rest = 1 - y;
  c.set(0, multiply(e, multiply(e, g, rest), y));
}

void tanh_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Expression g = c.wide("grad_output"), y = c.wide("output");
  c.set(0, multiply(e, g, 1 - multiply(e, y, y)));
}

constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
constexpr double kCubic = 0.044715;

/// tanh(sqrt(2 / pi) (x + 0.044715 x^3)).
Expression gelu_tanh(Emitter& e, const Term& x) {
  const Expression cube = multiply(e, multiply(e, x, x), x);
  const Expression inner = x + multiply(e, cube, Term::number(kCubic));
  return hyperbolic_tangent(multiply(e, inner, Term::number(kSqrtTwoOverPi)));
}

/// (1 + f) / 2.
Expression half_plus(Emitter& e, const Term& f) {
  return multiply(e, e.binary(OpKind::kAdd, f, Term::integer(1)), Term::number(0.5));
}

Term gelu_cdf(Emitter& e, const Term& x) {
  return half_plus(e, multiply(e, x, Term::number(std::numbers::sqrt2 / 2)).unary(OpKind::kErf));
}

bool wants_tanh(OpCall& c) { return c.text("approximate") == "tanh"; }

void gelu(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.wide("self");
  c.set(0, multiply(e, x, wants_tanh(c) ? half_plus(e, gelu_tanh(e, x)) : gelu_cdf(e, x)));
}

void gelu_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Expression g = c.wide("grad_output"), x = c.wide("self");
  const Expression square = multiply(e, x, x);
  Term slope;
  if (wants_tanh(c)) {
    const Expression t = gelu_tanh(e, x);
    const Expression outer = 1 - multiply(e, t, t);
    const Expression inner = multiply(e, square, Term::number(3 * kCubic)) + 1;
    const Expression right = multiply(e, multiply(e, multiply(e, x, outer), inner), Term::number(kSqrtTwoOverPi / 2));
    slope = half_plus(e, t) + right;
  } else {
    const double scale = 1 / std::sqrt(2 * std::numbers::pi);
    const Expression density = multiply(e, exp(multiply(e, square, Term::number(-0.5))), Term::number(scale));
    slope = gelu_cdf(e, x) + multiply(e, x, density);
  }
  c.set(0, multiply(e, g, slope));
}

void silu(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.wide("self");
  c.set(0, multiply(e, x, sigmoid(x)));
}

void silu_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Expression g = c.wide("grad_output"), x = c.wide("self");
  const Expression s = sigmoid(x);
  const Expression rest = 1 - s;
  const Expression slope = multiply(e, s, multiply(e, x, rest) + 1);
  c.set(0, multiply(e, g, slope));
}

void hardtanh(OpCall& c) { c.set(0, smaller(larger(c.wide("self"), c.operand("min_val")), c.operand("max_val"))); }

void hardtanh_backward(OpCall& c) {
  const Expression x = c.wide("self");
  c.set(0, choose((x > c.operand("min_val")) && (x < c.operand("max_val")), c.wide("grad_output"), 0));
}

void hardsigmoid(OpCall& c) { c.set(0, smaller(larger(c.wide("self") + 3, 0), 6) / 6.0); }

void hardsigmoid_backward(OpCall& c) {
  const Expression x = c.wide("self"), g = c.wide("grad_output");
  c.set(0, choose((x > -3) && (x < 3), g * static_cast<double>(1.0f / 6.0f), 0));
}

void hardswish(OpCall& c) {
  const Expression x = c.wide("self");
  c.set(0, x * smaller(larger(x + 3, 0), 6) / 6.0);
}

void hardswish_backward(OpCall& c) {
  const Expression x = c.wide("self"), g = c.wide("grad_output");
  c.set(0, choose(x <= -3, 0, choose(x >= 3, g, g * (x / 3.0 + 0.5))));
}

void leaky_relu(OpCall& c) {
  const Expression x = c.wide("self");
  c.set(0, choose(x > 0, x, x * c.operand("negative_slope")));
}

void leaky_relu_backward(OpCall& c) {
  const Expression x = c.wide("self"), g = c.wide("grad_output");
  c.set(0, choose(x > 0, g, g * c.operand("negative_slope")));
}

/// x scale above 0, alpha scale (e^(x input_scale) - 1) elsewhere.
Expression elu_of(const Expression& x, double alpha, double scale, double input_scale) {
  return choose(x <= 0, exp_minus_1(x * input_scale) * (alpha * scale), x * scale);
}

void elu(OpCall& c) { c.set(0, elu_of(c.wide("self"), c.real("alpha"), c.real("scale"), c.real("input_scale"))); }

void celu(OpCall& c) { c.set(0, elu_of(c.wide("self"), c.real("alpha"), 1, 1 / c.real("alpha"))); }

void elu_backward(OpCall& c) {
  const double negative = c.real("alpha") * c.real("scale"), positive = c.real("scale"), inner = c.real("input_scale");
  const Expression x = c.wide("self_or_result"), g = c.wide("grad_output");
  const Expression slope =
      c.boolean("is_result") ? g * inner * (x + negative) : g * (inner * negative) * exp(x * inner);
  c.set(0, choose(x > 0, g * positive, slope));
}

void prelu(OpCall& c) {
  const Expression x = c.wide("self");
  c.set(0, choose(x > 0, x, c.wide("weight") * x));
}

void prelu_backward(OpCall& c) {
  const Expression x = c.wide("self"), g = c.wide("grad_output");
  c.set(0, choose(x > 0, g, c.wide("weight") * g));
  c.set(1, choose(x > 0, 0, x * g));
}

void hardshrink(OpCall& c) {
  const Expression x = c.wide("self");
  const double edge = c.real("lambd");
  c.set(0, choose((x >= -edge) && (x <= edge), 0, x));
}

void hardshrink_backward(OpCall& c) {
  const Expression x = c.wide("self");
  const double edge = c.real("lambd");
  c.set(0, choose((x < -edge) || (x > edge), c.wide(c.has("grad_out") ? "grad_out" : "grad_output"), 0));
}

void softshrink(OpCall& c) {
  const Expression x = c.wide("self");
  const double edge = c.real("lambd");
  c.set(0, choose(x > edge, x - edge, choose(x < -edge, x + edge, x * 0)));
}

void threshold(OpCall& c) {
  const Expression x = c.wide("self");
  c.set(0, choose(x <= c.operand("threshold"), c.operand("value"), x));
}

void softplus(OpCall& c) {
  const Expression x = c.wide("self"), scaled = x * c.real("beta");
  c.set(0, choose(scaled > c.real("threshold"), x, log_plus_1(exp(scaled)) / c.real("beta")));
}

void softplus_backward(OpCall& c) {
  const Expression scaled = c.wide("self") * c.real("beta"), g = c.wide("grad_output"), z = exp(scaled);
  c.set(0, choose(scaled > c.real("threshold"), g, g * z / (z + 1)));
}

void mish(OpCall& c) {
  const Expression x = c.wide("self");
  c.set(0, x * hyperbolic_tangent(log_plus_1(exp(x))));
}

void mish_backward(OpCall& c) {
  const Expression x = c.wide("self"), t = hyperbolic_tangent(log_plus_1(exp(x)));
  c.set(0, c.wide("grad_output") * (t + x * sigmoid(x) * (1 - t * t)));
}

/// min(0, x) - log(1 + e^-|x|); the second result is e^-|x|, for the gradient.
void log_sigmoid_forward(OpCall& c) {
  const Expression x = c.wide("self"), buffer = exp(-magnitude(x));
  c.set(0, smaller(x, 0) - log_plus_1(buffer));
  c.set(1, buffer);
}

void log_sigmoid_backward(OpCall& c) {
  const Expression x = c.wide("self"), buffer = exp(-magnitude(x)), part = buffer / (buffer + 1);
  c.set(0, c.wide("grad_output") * choose(x < 0, 1 - part, part));
}

/// The halves of a tensor along a dimension.
std::pair<Expression, Expression> halves(OpCall& c) {
  const Expression x = c.wide("self");
  const auto dim = static_cast<std::size_t>(wrap_dim(c.integer("dim"), x.rank()));
  Term first = x;
  if (dim >= x.sizes().size()) {
    c.emit().fail("argument dim names a dimension that self has not");
    return {x, x};
  }
  auto& view = first.operand.view;
  view.sizes[dim] /= 2;
  Term second = first;
  second.operand.view.offset += view.strides[dim] * view.sizes[dim];
  return {Expression(c.emit(), first), Expression(c.emit(), second)};
}

void glu(OpCall& c) {
  const auto [a, b] = halves(c);
  c.set(0, a * sigmoid(b));
}

void glu_backward(OpCall& c) {
  const auto [a, b] = halves(c);
  const Expression g = c.wide("grad_output"), s = sigmoid(b);
  c.set(0, c.emit().concat({s * g, (1 - s) * s * g * a}, c.integer("dim")));
}

constexpr Entry kEntries[] = {
    {"aten::relu", relu},
    {"aten::threshold_backward", threshold_backward},
    {"aten::sigmoid_backward", sigmoid_backward},
    {"aten::tanh_backward", tanh_backward},
    {"aten::gelu", gelu},
    {"aten::gelu_backward", gelu_backward},
    {"aten::silu", silu},
    {"aten::silu_backward", silu_backward},
    {"aten::hardtanh", hardtanh},
    {"aten::hardtanh_backward", hardtanh_backward},
    {"aten::hardsigmoid", hardsigmoid},
    {"aten::hardsigmoid_backward", hardsigmoid_backward},
    {"aten::hardswish", hardswish},
    {"aten::hardswish_backward", hardswish_backward},
    {"aten::leaky_relu", leaky_relu},
    {"aten::leaky_relu_backward", leaky_relu_backward},
    {"aten::elu", elu},
    {"aten::celu", celu},
    {"aten::elu_backward", elu_backward},
    {"aten::_prelu_kernel", prelu},
    {"aten::_prelu_kernel_backward", prelu_backward},
    {"aten::hardshrink", hardshrink},
    {"aten::hardshrink_backward", hardshrink_backward},
    {"aten::softshrink", softshrink},
    {"aten::softshrink_backward", hardshrink_backward},
    {"aten::threshold", threshold},
    {"aten::softplus", softplus},
    {"aten::softplus_backward", softplus_backward},
    {"aten::mish", mish},
    {"aten::mish_backward", mish_backward},
    {"aten::log_sigmoid_forward", log_sigmoid_forward},
    {"aten::log_sigmoid_backward", log_sigmoid_backward},
    {"aten::glu", glu},
    {"aten::glu_backward", glu_backward},
};

}  // namespace

std::span<const Entry> activation_entries() { return kEntries; }

}  // namespace crucible::aten
