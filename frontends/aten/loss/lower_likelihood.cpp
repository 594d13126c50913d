// Lowering of the negative log-likelihood of classes, for rows and for images, with class weights and gradients.
#include <algorithm>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

/// Scores as [samples, classes, places] (places: the pixels of an image, else 1) and what belongs to each target, as
/// [samples, 1, places].
struct Problem {
  Term scores, target, counted;
  Term weight;  // of each target's class; the number 1 without weights
};

Problem problem_of(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self");
  const std::int64_t samples = x.rank() == 1 ? 1 : x.size(0), classes = x.rank() == 1 ? x.size(0) : x.size(1);
  const Expression target = c.tensor("target");
  const std::int64_t places = samples == 0 ? 0 : target.elements() / samples;
  Problem p;
  p.scores = e.reshape(x, {samples, classes, places});
  const Expression ids = e.reshape(target, {samples, 1, places});
  p.counted = e.binary(OpKind::kNotEqual, ids, Term::integer(c.integer("ignore_index")));
  const std::int64_t ignored = c.integer("ignore_index");
  e.expect_in(target, 0, classes - 1, ignored);
  p.target = e.held_in(e.select(p.counted, ids, Term::integer(0)), 0, std::max<std::int64_t>(classes, 1) - 1);
  p.weight = Term::number(1);
  if (c.has("weight")) {
    const Expression weight = c.wide("weight");
    const Expression table = e.reshape(weight, {weight.elements(), 1});
    p.weight = e.reshape(e.gather_rows(table, p.target), p.target.sizes());
  }
  return p;
}

/// Element (i, target[i, j], j) of the scores, from a table with one column.
Expression picked(Emitter& e, const Problem& p) {
  const std::int64_t classes = p.scores.size(1), places = p.scores.size(2);
  const Expression row(e, e.coordinate(0, p.target.sizes(), DType::kI64)), t(e, p.target);
  const Expression ids = (row * classes + t) * places + e.coordinate(2, p.target.sizes(), DType::kI64);
  const Expression table = e.reshape(p.scores, {p.scores.elements(), 1});
  return e.reshape(e.gather_rows(table, ids), p.target.sizes());
}

Expression weighed(const Expression& x, const Term& weight) { return is_fixed(weight, 1) ? x : x * weight; }

void nll_loss_forward(OpCall& c) {
  Emitter& e = c.emit();
  const auto reduction = c.integer("reduction");
  const Problem p = problem_of(c);
  const Expression counted(e, p.counted), score(e, widened(e, picked(e, p)));
  const Expression losses = choose(counted, weighed(-score, p.weight), 0);
  if (reduction == kReduceNone) {
    c.set(0, e.reshape(losses, c.result(0).sizes));
    c.set(1, Term::number(0));
    return;
  }
  const Expression weights = choose(counted, p.weight, 0.0).cast(losses.dtype);
  Term total = e.sum(losses, {0, 1, 2});
  const Expression count = e.sum(e.expand(weights, losses.sizes()), {0, 1, 2});
  if (reduction == kReduceMean) total = total / count;
  c.set(0, e.drop(total, {0, 1, 2}));
  c.set(1, e.drop(count, {0, 1, 2}));
}

void nll_loss_backward(OpCall& c) {
  Emitter& e = c.emit();
  const auto reduction = c.integer("reduction");
  const Problem p = problem_of(c);
  Expression g = c.wide("grad_output");
  g = {e, e.reshape(g, reduction == kReduceNone ? p.target.sizes() : Sizes{1, 1, 1})};
  if (reduction == kReduceMean) g = g / e.reshape(c.wide("total_weight"), {1, 1, 1});
  const Expression value = choose(Expression(e, p.counted), weighed(-g, p.weight), 0);
  const Expression hit = Expression(e, e.coordinate(1, p.scores.sizes(), DType::kI64)) == p.target;
  c.set(0, e.reshape(choose(hit, value, 0), c.result(0).sizes));
}

constexpr Entry kEntries[] = {
    {"aten::nll_loss_forward", nll_loss_forward},
    {"aten::nll_loss_backward", nll_loss_backward},
    {"aten::nll_loss2d_forward", nll_loss_forward},
    {"aten::nll_loss2d_backward", nll_loss_backward},
};

}  // namespace

std::span<const Entry> likelihood_entries() { return kEntries; }

}  // namespace crucible::aten
