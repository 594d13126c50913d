// Lowering of connectionist temporal classification: the likelihood of a target sequence over all its alignments with a
// longer input, and its gradient. Forward and backward variables are kept for the target with blanks around each label;
// the recursion over time is written out step by step, all samples of the batch and all places of the target at once.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/indexing/index_plan.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// An argument of one number per sample, as numbers or as a tensor: [n, 1], i64.
Expression lengths(OpCall& c, const char* name, std::int64_t samples) {
  Emitter& e = c.emit();
  if (c.full_name().ends_with(".Tensor")) return {e, e.reshape(e.cast(c.tensor(name), DType::kI64), {samples, 1})};
  std::vector<Term> rows;
  for (const auto length : c.integers(name)) rows.push_back(e.fill(Term::integer(length), {1, 1}, DType::kI64));
  return {e, rows.empty() ? e.fill(Term::integer(0), {0, 1}, DType::kI64) : e.concat(rows, 0)};
}

/// What forward and backward share. T times, n samples, c classes, l = 2 s + 1 places of the target with blanks.
struct Problem {
  std::int64_t times, samples, classes, places;
  Expression scores;                        // [T, n, c]
  Expression input_lengths, label_lengths;  // [n, 1]
  Expression place;                         // of a label in the scores of all times: [T, n, l]
  Expression emitted;                       // the score of each label: [T, n, l]
  Expression counts;                        // [n, l]: the place belongs to the sample's target
  Expression skips;  // [n, l]: a label that differs from the one before, so that the blank may be missing
};

Problem problem_of(OpCall& c, std::int64_t places) {
  Emitter& e = c.emit();
  const Expression scores = c.wide("log_probs");
  const std::int64_t times = scores.size(0), samples = scores.size(1), classes = scores.size(2);
  const Expression inputs = lengths(c, "input_lengths", samples), labels = lengths(c, "target_lengths", samples);
  const Sizes plane{samples, places};
  const Expression sample(e, e.position(0, plane)), s(e, e.position(1, plane));
  const Expression targets = c.tensor("targets");
  Expression offset = sample * (targets.rank() == 2 ? targets.size(1) : 0);
  if (targets.rank() != 2 && samples > 0) {  // one target after the other
    graph::Attributes along;
    along.dims = {0};
    offset = Expression(e, e.emit(OpKind::kScanSum, {labels}, {samples, 1}, DType::kI64, along)) - labels;
  }
  const Expression half = s.binary(OpKind::kShiftRight, Term::integer(1)), is_label = s != half * 2;
  const Expression index = offset + half;
  const Expression named(e, e.cast(e.take(targets, index), DType::kI64));
  const Expression label = choose(is_label, named, c.integer("blank"));
  const Expression before(e, e.take(targets, index - 1));
  const Expression counts = s < labels * 2 + 1;
  const Expression skips = is_label && (half > 0) && (named != before) && counts;
  const Expression time(e, e.position(0, {times, samples, places}));
  const Expression place = (time * samples + sample) * classes + label;
  return {times, samples, classes, places, scores, inputs, labels, place, {e, e.take(scores, place)}, counts, skips};
}

/// Of all times, that of one: [n, l].
Expression at(const Expression& x, std::int64_t time) {
  Emitter& e = x.emitter();
  return {e, e.drop(narrow(x, 0, time, 1), {0})};
}

/// Place s gets what place s - by has (s + by where negative); -inf where there is none.
Expression shifted(const Expression& x, std::int64_t by) {
  Emitter& e = x.emitter();
  const std::int64_t places = x.size(1), gap = std::min(places, by < 0 ? -by : by);
  const Expression nothing = e.fill(Term::number(-kInfinity), {x.size(0), gap}, x.dtype);
  if (gap == places) return {e, nothing};
  if (by > 0) return {e, e.concat({nothing, narrow(x, 1, 0, places - gap)}, 1)};
  return {e, e.concat({narrow(x, 1, gap, places - gap), nothing}, 1)};
}

/// log(exp a + exp b + exp c); -inf of nothing but that.
Expression log_of_sum(const Expression& a, const Expression& b, const Expression& c) {
  const Expression top = larger(larger(a, b), c), base = choose(top == -kInfinity, 0.0, top);
  return log(exp(a - base) + exp(b - base) + exp(c - base)) + base;
}

/// Logarithms of the probability to have come to each place: one [n, l] per time.
std::vector<Expression> forward_variables(const Problem& p) {
  Emitter& e = p.scores.emitter();
  std::vector<Expression> alpha;
  const Expression first(e, e.position(1, {p.samples, p.places}));
  alpha.push_back(choose((first <= 1) && p.counts, at(p.emitted, 0), -kInfinity));
  for (std::int64_t t = 1; t < p.times; ++t) {
    const Expression last = alpha.back();
    const Expression jumped = choose(p.skips, shifted(last, 2), -kInfinity);
    alpha.push_back(choose(p.counts, log_of_sum(last, shifted(last, 1), jumped) + at(p.emitted, t), -kInfinity));
  }
  return alpha;
}

bool fits(OpCall& c) {
  if (!c.emit().failure().empty()) return false;
  const Expression scores = c.tensor("log_probs");
  constexpr std::int64_t kMostTimes = 8192;  // each is written out
  if (scores.rank() == 3 && scores.size(0) > 0 && scores.size(0) <= kMostTimes) return true;
  c.emit().fail(
      fmt::format("the scores of ctc_loss need three dimensions, of which the first has 1 to {} elements", kMostTimes));
  return false;
}

struct Likelihood {
  Expression loss;  // [n, 1]
  Expression all;   // the forward variables: [n, T, l]
};

Likelihood likelihood_of(const Problem& p) {
  Emitter& e = p.scores.emitter();
  std::vector<Term> rows;
  for (const Expression& row : forward_variables(p)) rows.push_back(e.unsqueeze(row, 1));
  const Expression all(e, e.concat(rows, 1));
  const Expression sample(e, e.position(0, {p.samples, 1}));
  const Expression end = (sample * p.times + (p.input_lengths - 1)) * p.places + p.label_lengths * 2;
  const Expression blank(e, e.take(all, end));
  const Expression label = choose(p.label_lengths > 0, Term(e.take(all, end - 1)), -kInfinity);
  const Expression empty = choose(p.label_lengths == 0, 0.0, kInfinity);
  return {choose(p.input_lengths == 0, empty, -log_of_sum(blank, label, choose(label == label, -kInfinity, label))),
          all};
}

void ctc_loss(OpCall& c) {
  Emitter& e = c.emit();
  if (!fits(c)) return;
  if (c.has("zero_infinity")) c.boolean("zero_infinity");  // matters to the gradient only
  if (c.result(1).sizes.size() != 3) return e.fail("what ctc_loss keeps for its gradient has not three dimensions");
  const Likelihood found = likelihood_of(problem_of(c, c.result(1).sizes[2]));
  c.set(0, e.drop(found.loss, {1}));
  c.set(1, found.all);
}

/// Logarithms of the probability to go on from each place to the end: one [n, l] per time, the last one first.
std::vector<Expression> backward_variables(const Problem& p) {
  Emitter& e = p.scores.emitter();
  const Expression s(e, e.position(1, {p.samples, p.places}));
  const Expression ends = (s <= p.label_lengths * 2) && (s >= p.label_lengths * 2 - 1);
  const Expression number = choose(p.skips, 0.0, -kInfinity).cast(p.scores.dtype);
  const Expression may_jump = shifted(number, -2) == 0;
  std::vector<Expression> beta;
  for (std::int64_t t = p.times; t-- > 0;) {
    const Expression last = choose((p.input_lengths == t + 1) && ends, at(p.emitted, t), -kInfinity);
    if (beta.empty()) {
      beta.push_back(last);
      continue;
    }
    const Expression next = beta.back();
    const Expression jumped = choose(may_jump, shifted(next, -2), -kInfinity);
    const Expression going = log_of_sum(next, shifted(next, -1), jumped) + at(p.emitted, t);
    const Expression inside = (p.input_lengths > t + 1) && p.counts;
    beta.push_back(choose(inside, going, last));
  }
  return beta;
}

/// exp(score) less the share of alignments that are at the class then: [T, n, c].
Expression slope_of(const Problem& p, const Expression& all, const Expression& loss) {
  Emitter& e = p.scores.emitter();
  const auto beta = backward_variables(p);
  std::vector<Term> shares;
  for (std::int64_t t = 0; t < p.times; ++t) {
    const Expression alpha(e, e.drop(narrow(all, 1, t, 1), {1}));
    const Expression both = alpha + beta[static_cast<std::size_t>(p.times - 1 - t)];
    const Expression present = (p.input_lengths > t) && p.counts && (both > -kInfinity);
    shares.push_back(e.unsqueeze(choose(present, exp(both + loss - at(p.emitted, t)), 0.0), 0));
  }
  const Expression zeros = e.fill(Term::integer(0), p.scores.sizes(), p.scores.dtype);
  const Expression share(e, e.put(OpKind::kPutAdd, zeros, p.place, e.concat(shares, 0)));
  return exp(p.scores) - share;
}

/// `slope` where a sample's loss is a number and its input has not ended, 0 behind its end, else `impossible`.
Expression within_lengths(const Problem& p, const Expression& loss, double impossible, const Expression& slope) {
  Emitter& e = p.scores.emitter();
  const Expression time(e, e.position(0, p.scores.sizes()));
  const auto per_sample = [&](const Expression& x) { return Expression(e, e.unsqueeze(x, 0)); };
  const Expression held = choose(per_sample(loss) == kInfinity, impossible, slope);
  return choose(time < per_sample(p.input_lengths), held, 0.0);
}

void ctc_loss_backward(OpCall& c) {
  Emitter& e = c.emit();
  if (!fits(c)) return;
  const Expression all = c.wide("log_alpha");
  const Problem p = problem_of(c, all.size(2));
  const Expression loss(e, e.reshape(c.wide("neg_log_likelihood"), {p.samples, 1}));
  const Expression g(e, e.reshape(c.wide("grad"), {1, p.samples, 1}));
  const double impossible = c.boolean("zero_infinity") ? 0.0 : std::numeric_limits<double>::quiet_NaN();
  c.set(0, within_lengths(p, loss, impossible, slope_of(p, all, loss) * g));
}

/// Libraries of devices give the loss and its gradient at once. Of a target that no alignment has, both are 0: by that
/// the framework knows such samples (`zero_infinity`).
void ctc_loss_with_gradient(OpCall& c) {
  Emitter& e = c.emit();
  if (!fits(c)) return;
  c.boolean("zero_infinity");  // matters to what follows
  c.boolean("deterministic");
  const Expression targets = c.tensor("targets");
  std::int64_t longest = targets.size(-1);
  if (!c.full_name().ends_with(".Tensor")) {
    const std::vector<std::int64_t> labels = c.integers("target_lengths");
    longest = labels.empty() ? 0 : std::min(longest, *std::ranges::max_element(labels));
  }
  const Problem p = problem_of(c, 2 * std::max<std::int64_t>(longest, 0) + 1);
  const Likelihood found = likelihood_of(p);
  c.set(0, e.drop(choose(found.loss == kInfinity, 0.0, found.loss), {1}));
  c.set(1, within_lengths(p, found.loss, 0.0, slope_of(p, found.all, found.loss)));
}

constexpr Entry kEntries[] = {
    {"aten::_ctc_loss", ctc_loss},
    {"aten::_ctc_loss.Tensor", ctc_loss},
    {"aten::_cudnn_ctc_loss", ctc_loss_with_gradient},
    {"aten::_cudnn_ctc_loss.Tensor", ctc_loss_with_gradient},
    {"aten::miopen_ctc_loss", ctc_loss_with_gradient},
    {"aten::miopen_ctc_loss.Tensor", ctc_loss_with_gradient},
    {"aten::_ctc_loss_backward", ctc_loss_backward},
    {"aten::_ctc_loss_backward.Tensor", ctc_loss_backward},
};

}  // namespace

std::span<const Entry> ctc_entries() { return kEntries; }

}  // namespace crucible::aten
