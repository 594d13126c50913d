// Lowering of window functions of signals. All but Kaiser's are made by the framework in several steps, each of which
// rounds its factor and its result to the window's dtype; in f16 and bf16 that is what the window is made of, so these
// round where it does.
#include <fmt/format.h>

#include <numbers>
#include <optional>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/special/bessel.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

/// A window that is to be made.
struct Window {
  Emitter& e;
  DType dtype;
  std::int64_t length;
  double last;  // the place where the window ends; that of a periodic one is behind the last element

  Expression rounded(const Expression& x) const { return widened(e, e.cast(x, dtype)); }
  Expression number(double value) const { return rounded({e, e.fill(Term::number(value), {}, compute_dtype(dtype))}); }
  Expression places() const { return rounded(e.coordinate(0, {length}, compute_dtype(dtype))); }
  Expression times(const Expression& x, double factor) const { return rounded(x * number(factor)); }
  Expression plus(const Expression& x, double summand) const { return rounded(x + number(summand)); }
  Expression cosine(const Expression& x) const { return rounded(x.unary(OpKind::kCos)); }
};

/// Nothing where the window is made already: those of no and of one element follow no formula.
std::optional<Window> window_of(OpCall& c) {
  Emitter& e = c.emit();
  const std::int64_t length = c.integer("window_length");
  if (c.result(0).sizes != Sizes{length}) e.fail(fmt::format("a window of length {} has other sizes", length));
  const bool is_periodic = !c.has("periodic") || c.boolean("periodic");
  if (!e.failure().empty()) return std::nullopt;
  if (length > 1)
    return Window{e, c.result(0).dtype, length, static_cast<double>(is_periodic ? length : length - 1)};
  c.set(0, Term::integer(1));
  return std::nullopt;
}

void cosine_window(OpCall& c, double alpha, double beta) {
  const auto w = window_of(c);
  if (!w) return;
  const Expression wave = w->cosine(w->times(w->places(), std::numbers::pi * 2.0 / w->last));
  c.set(0, w->plus(w->times(wave, -beta), alpha));
}

void hann(OpCall& c) { cosine_window(c, 0.5, 0.5); }

void hamming(OpCall& c) {
  const double alpha = c.has("alpha") ? c.real("alpha") : 0.54;
  cosine_window(c, alpha, c.has("beta") ? c.real("beta") : 0.46);
}

void blackman(OpCall& c) {
  const auto w = window_of(c);
  if (!w) return;
  const Expression angle = w->times(w->places(), std::numbers::pi / w->last);
  const Expression fast = w->times(w->cosine(w->times(angle, 4)), 0.08),
                   slow = w->times(w->cosine(w->times(angle, 2)), 0.5);
  c.set(0, w->plus(w->rounded(fast - slow), 0.42));
}

/// A line up to the middle and one down.
void bartlett(OpCall& c) {
  const auto w = window_of(c);
  if (!w) return;
  const Expression line = w->times(w->places(), 2.0 / w->last);
  const Expression place = c.emit().coordinate(0, {w->length}, DType::kI64);
  const auto middle = static_cast<std::int64_t>(w->last / 2);
  c.set(0, choose(place <= middle, line, w->plus(-line, 2)));
}

/// One kernel of the framework, which rounds its numbers and its result alone.
void kaiser(OpCall& c) {
  const double beta = c.has("beta") ? c.real("beta") : 12.0;
  const auto w = window_of(c);
  if (!w) return;
  const Expression middle = w->number(w->last / 2), steepness = w->number(beta);
  const Expression x = (w->places() - middle) / middle;
  c.set(0, bessel_i0(steepness * square_root(1.0 - x * x)) / bessel_i0(steepness));
}

constexpr Entry kEntries[] = {
    {"aten::hann_window", hann},
    {"aten::hann_window.periodic", hann},
    {"aten::hamming_window", hamming},
    {"aten::hamming_window.periodic", hamming},
    {"aten::hamming_window.periodic_alpha", hamming},
    {"aten::hamming_window.periodic_alpha_beta", hamming},
    {"aten::blackman_window", blackman},
    {"aten::blackman_window.periodic", blackman},
    {"aten::bartlett_window", bartlett},
    {"aten::bartlett_window.periodic", bartlett},
    {"aten::kaiser_window", kaiser},
    {"aten::kaiser_window.periodic", kaiser},
    {"aten::kaiser_window.beta", kaiser},
};

}  // namespace

std::span<const Entry> window_function_entries() { return kEntries; }

}  // namespace crucible::aten
