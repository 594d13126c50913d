// Lowering of softmax and of losses, with their gradients.
#include <limits>
#include <numeric>

#include "frontends/aten/formulas.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

void log_softmax(OpCall& c) {
  Emitter& e = c.emit();
  const auto dim = c.integer("dim");
  const Term x = e.cast(c.tensor("self"), compute_dtype(c.result(0).dtype));
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

constexpr std::int64_t kReduceNone = 0, kReduceMean = 1;

/// Which samples count, as [n, 1].
struct Targets {
  Term ids, counted;
};

Targets targets_of(OpCall& c) {
  Emitter& e = c.emit();
  const Term ids = e.reshape(c.tensor("target"), {c.tensor("target").elements(), 1});
  return {ids, e.binary(OpKind::kNotEqual, ids, Term::integer(c.integer("ignore_index")))};
}

/// Class scores as [n, classes].
Term rows_of(OpCall& c) {
  const Term x = c.tensor("self");
  return x.rank() == 1 ? c.emit().unsqueeze(x, 0) : x;
}

bool refuse_weight(OpCall& c) {
  if (c.has("weight")) c.emit().fail("class weights are not supported");
  return c.has("weight");
}

void nll_loss_forward(OpCall& c) {
  Emitter& e = c.emit();
  if (refuse_weight(c)) return;
  const auto reduction = c.integer("reduction");
  const Term x = rows_of(c);
  const Targets t = targets_of(c);
  // Element (i, target[i]) is row i * classes + target[i] of the scores as a table with one column.
  const Term first = multiply(e, e.coordinate(0, t.ids.sizes(), DType::kI64), Term::integer(x.size(1)));
  const Term ids = e.binary(OpKind::kAdd, first, e.select(t.counted, t.ids, Term::integer(0)));
  const Term picked = e.gather_rows(e.reshape(x, {x.elements(), 1}), e.reshape(ids, {ids.elements()}));
  const Term losses = e.select(t.counted, e.unary(OpKind::kNegate, widened(e, picked)), Term::number(0));
  const Term count = e.sum(e.cast(t.counted, losses.dtype), {0, 1});
  if (reduction == kReduceNone) {
    c.set(0, e.reshape(losses, c.result(0).sizes));
    c.set(1, Term::number(0));
    return;
  }
  Term total = e.sum(losses, {0, 1});
  if (reduction == kReduceMean) total = e.binary(OpKind::kDivide, total, count);
  c.set(0, e.drop(total, {0, 1}));
  c.set(1, e.drop(count, {0, 1}));
}

void nll_loss_backward(OpCall& c) {
  Emitter& e = c.emit();
  if (refuse_weight(c)) return;
  const auto reduction = c.integer("reduction");
  const Sizes sizes = rows_of(c).sizes();
  const Targets t = targets_of(c);
  Term g = widened(e, c.tensor("grad_output"));
  g = reduction == kReduceNone ? e.reshape(g, {g.elements(), 1}) : e.expand(g, {1, 1});
  if (reduction == kReduceMean) {
    g = e.binary(OpKind::kDivide, g, e.expand(widened(e, c.tensor("total_weight")), {1, 1}));
  }
  const Term value = e.select(t.counted, e.unary(OpKind::kNegate, g), Term::number(0));  // [n, 1]
  const Term hit = e.binary(OpKind::kEqual, e.coordinate(1, sizes, DType::kI64), t.ids);
  c.set(0, e.reshape(e.select(hit, value, Term::number(0)), c.result(0).sizes));
}

/// A sample's losses as the reduction wants them.
Term reduced(Emitter& e, const Term& losses, std::int64_t reduction) {
  if (reduction == kReduceNone) return losses;
  std::vector<std::int64_t> dims(static_cast<std::size_t>(losses.rank()));
  std::iota(dims.begin(), dims.end(), 0);
  return e.drop(reduction == kReduceMean ? e.mean(losses, dims) : e.sum(losses, dims), dims);
}

void mse_loss(OpCall& c) {
  Emitter& e = c.emit();
  const Term d = e.binary(OpKind::kSubtract, widened(e, c.tensor("self")), widened(e, c.tensor("target")));
  c.set(0, reduced(e, multiply(e, d, d), c.integer("reduction")));
}

void mse_loss_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Term d = e.binary(OpKind::kSubtract, widened(e, c.tensor("self")), widened(e, c.tensor("target")));
  const bool mean = c.integer("reduction") == kReduceMean;
  const double factor = mean ? 2.0 / static_cast<double>(d.elements()) : 2.0;
  c.set(0, multiply(e, multiply(e, d, Term::number(factor)), widened(e, c.tensor("grad_output"))));
}

constexpr Entry kEntries[] = {
    {"aten::_log_softmax", log_softmax},
    {"aten::_log_softmax_backward_data", log_softmax_backward},
    {"aten::_softmax", softmax},
    {"aten::_safe_softmax", safe_softmax},
    {"aten::_softmax_backward_data", softmax_backward},
    {"aten::nll_loss_forward", nll_loss_forward},
    {"aten::nll_loss_backward", nll_loss_backward},
    {"aten::mse_loss", mse_loss},
    {"aten::mse_loss_backward", mse_loss_backward},
};

}  // namespace

std::span<const Entry> loss_entries() { return kEntries; }

}  // namespace crucible::aten
