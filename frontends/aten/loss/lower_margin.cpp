// Lowering of losses that want the score of a class to lead the others by a margin, and of the gradient of randomized
// ReLU outside training.
#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;


/// [rows, classes], whatever the number of dimensions.
Expression rows_of(OpCall& c, std::string_view name, const Term& scores) {
  Emitter& e = c.emit();
  const std::int64_t classes = scores.rank() == 0 ? 1 : scores.size(-1);
  const std::int64_t rows = scores.rank() < 2 ? 1 : scores.size(0);
  const Expression x = c.tensor(name);
  return {e, e.reshape(is_floating(x.dtype) ? widened(e, x) : x, {rows, classes})};
}

Term summed(const Expression& x, std::vector<std::int64_t> dims) {
  Emitter& e = x.emitter();
  return e.drop(e.sum(x, dims), dims);
}

/// The gradient of the loss of each row, as [rows, 1].
Expression gradient_of_rows(OpCall& c, std::int64_t rows) {
  Emitter& e = c.emit();
  const auto reduction = c.integer("reduction");
  Expression g(e, e.reshape(c.wide("grad_output"), {reduction == kReduceNone ? rows : 1, 1}));
  if (reduction == kReduceMean && rows > 0) g = g * (1.0 / static_cast<double>(rows));
  return {e, e.expand(g, {rows, 1})};
}

/// What multi-margin loss is made from: scores [n, c], the target of each row [n, 1], how far each other score is
/// inside the margin, the weight of the target's class.
struct MultiMargin {
  Expression scores, target, excess, is_target, weight;
  double classes;
};

MultiMargin multi_margin(OpCall& c) {
  Emitter& e = c.emit();
  const Expression given = c.tensor("self");
  const Expression x = rows_of(c, "self", given);
  const Sizes sizes = x.sizes();
  const Expression named = c.tensor("target");
  e.expect_in(named, 0, sizes[1] - 1);
  const Expression target(e, e.held_in(e.reshape(named, {sizes[0], 1}), 0, std::max<std::int64_t>(sizes[1], 1) - 1));
  const Expression row(e, e.position(0, sizes)), column(e, e.position(1, sizes));
  const Expression own(e, e.take(x, row * sizes[1] + target));
  const double margin = c.has("margin") ? c.real("margin") : 1.0;
  Expression weight(e, e.fill(Term::number(1), {1, 1}, x.dtype));
  if (c.has("weight")) weight = {e, e.take(c.wide("weight"), target)};
  return {x, target, margin - own + x, column == target, weight, static_cast<double>(sizes[1])};
}

void multi_margin_loss(OpCall& c) {
  const MultiMargin m = multi_margin(c);
  const double p = c.has("p") ? c.real("p") : 1.0;
  const Expression inside = larger(m.excess, 0), power = p == 1 ? inside : inside * inside;
  const Expression each = choose(m.is_target, 0.0, power * m.weight) / m.classes;
  Emitter& e = c.emit();
  const Expression losses(e, summed(each, {1}));
  const Expression loss = reduced_loss(e, losses, c.integer("reduction"));
  c.set(0, e.reshape(loss, c.result(0).sizes));
}

void multi_margin_loss_backward(OpCall& c) {
  Emitter& e = c.emit();
  const MultiMargin m = multi_margin(c);
  const Expression g = gradient_of_rows(c, m.scores.size(0));
  const Expression slope = c.real("p") == 1 ? g / m.classes : g * m.excess * (2.0 / m.classes);
  const Expression others = choose((m.excess > 0) && !m.is_target, slope * m.weight, 0.0);
  const Expression own = -Expression(e, e.sum(others, {1}));
  c.set(0, e.reshape(choose(m.is_target, own, others), c.result(0).sizes));
}

/// Targets of a row end at the first negative one: [n, c], true for those before it.
Expression counted_targets(const Expression& target) {
  Emitter& e = target.emitter();
  const Expression ended = (target < 0).cast(DType::kI64);
  const Sizes& sizes = target.sizes();
  if (target.elements() == 0) return target >= 0;
  graph::Attributes along;
  along.dims = {1};
  return Expression(e, e.emit(OpKind::kScanSum, {ended}, sizes, DType::kI64, along)) == 0;
}

/// How far class j is inside the margin of target k of a row, as [n, k, j]; 0 where it does not count.
struct MultiLabel {
  Expression place;   // [n, k]: the class of target k, outside where it does not count
  Expression excess;  // [n, k, j]
};

MultiLabel multi_label(OpCall& c, const Expression& x, const Expression& target, const Expression& is_target) {
  Emitter& e = c.emit();
  const Sizes& sizes = x.sizes();
  const Expression row(e, e.position(0, sizes));
  const Expression place = choose(counted_targets(target), row * sizes[1] + target, -1);
  const Expression own(e, e.unsqueeze(e.take(x, place), 2)), counts(e, e.unsqueeze(place >= 0, 2));
  const Expression others(e, e.unsqueeze(is_target == 0, 1));
  const Expression gap = 1.0 - own + Expression(e, e.unsqueeze(x, 1));
  return {place, choose(counts && others, larger(gap, 0), 0.0)};
}

void multilabel_margin_loss(OpCall& c) {
  Emitter& e = c.emit();
  const Expression given = c.tensor("self");
  const Expression x = rows_of(c, "self", given), target = rows_of(c, "target", given);
  const Sizes& sizes = x.sizes();
  const Expression row(e, e.position(0, sizes));
  const Expression place = choose(counted_targets(target), row * sizes[1] + target, -1);
  const Expression zeros = e.fill(Term::integer(0), sizes, x.dtype);
  const Expression is_target(e, e.put(OpKind::kPutSet, zeros, place, Term::integer(1)));
  const MultiLabel m = multi_label(c, x, target, is_target);
  const Expression losses = Expression(e, summed(m.excess, {1, 2})) / static_cast<double>(sizes[1]);
  c.set(0, e.reshape(reduced_loss(e, losses, c.integer("reduction")), c.result(0).sizes));
  c.set(1, e.reshape(is_target, c.result(1).sizes));
}

void multilabel_margin_loss_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Expression given = c.tensor("self");
  const Expression x = rows_of(c, "self", given), target = rows_of(c, "target", given);
  const MultiLabel m = multi_label(c, x, target, rows_of(c, "is_target", given));
  const Expression g = gradient_of_rows(c, x.size(0)) / static_cast<double>(x.size(1));
  const Expression inside = (m.excess > 0).cast(x.dtype);
  const Expression others = Expression(e, summed(inside, {1})) * g;
  const Expression own = -Expression(e, summed(inside, {2})) * g;
  c.set(0, e.reshape(e.put(OpKind::kPutAdd, others, m.place, own), c.result(0).sizes));
}

/// With the mean slope. In training forward writes its drawn slopes into an argument, which the recording does not
/// keep.
void rrelu_with_noise_backward(OpCall& c) {
  const Expression g = c.wide("grad_output"), x = c.wide("self");
  const double lower = c.real("lower"), upper = c.real("upper");
  c.boolean("self_is_result");
  if (c.boolean("training")) return c.emit().fail("rrelu in training is not supported: its slopes are not recorded");
  c.set(0, choose(x > 0, g, g * ((lower + upper) / 2)));
}

constexpr Entry kEntries[] = {
    {"aten::multi_margin_loss", multi_margin_loss},
    {"aten::multi_margin_loss_backward", multi_margin_loss_backward},
    {"aten::multilabel_margin_loss_forward", multilabel_margin_loss},
    {"aten::multilabel_margin_loss_backward", multilabel_margin_loss_backward},
    {"aten::rrelu_with_noise_backward", rrelu_with_noise_backward},
};

}  // namespace

std::span<const Entry> margin_entries() { return kEntries; }

}  // namespace crucible::aten
