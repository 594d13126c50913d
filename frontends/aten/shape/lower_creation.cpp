// Lowering of ops that make tensors from nothing: fills, ranges, triangles. What a random op drew is an input, made
// before this table is asked.
#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

template <int value>
void constant(OpCall& c) {
  c.set(0, Term::integer(value));
}

/// The content of an empty tensor is nobody's business; zeros, and dead code as soon as it is overwritten. Unless the
/// framework filled it without an op: then the recording has the bytes from when they were first read.
void empty(OpCall& c) {
  if (!c.enters(0)) c.set(0, Term::integer(0));
}

void full(OpCall& c) { c.set(0, c.operand("fill_value")); }
void fill_in_place(OpCall& c) { c.set(0, c.operand("value")); }
void scalar_tensor(OpCall& c) { c.set(0, c.operand("s")); }

/// start + step * index, all of them integers where the result is. The size is in the result; `end` only had to say it.
void arange(OpCall& c) {
  Emitter& e = c.emit();
  const DType dtype = compute_dtype(c.result(0).dtype);
  Term x = e.coordinate(0, c.result(0).sizes, dtype);
  const auto operand = [&](const char* name) {
    const Expression given = c.operand(name);
    return is_integral(dtype) && given.is_number() && is_floating(given.dtype) ? e.fill(given, {}, dtype) : given;
  };
  if (c.has("step")) {
    const Term step = operand("step");
    if (!is_fixed(step, 1)) x = e.cast(e.binary(OpKind::kMultiply, x, step), dtype);
  }
  if (c.has("start")) {
    const Term start = operand("start");
    if (!is_fixed(start, 0)) x = e.cast(e.binary(OpKind::kAdd, x, start), dtype);
  }
  c.operand("end");
  c.set(0, x);
}

/// The frequencies of a transform of n numbers at a distance of d: those of the second half are negative.
template <bool has_negative>
void frequencies(OpCall& c) {
  Emitter& e = c.emit();
  const std::int64_t n = c.integer("n");
  const Expression k = e.coordinate(0, c.result(0).sizes, compute_dtype(c.result(0).dtype));
  const Expression number = has_negative ? choose(k < (n + 1) / 2, k, k - n) : k;
  c.set(0, number * (1.0 / (static_cast<double>(n) * c.real("d"))));
}

/// Keeps x where column - row <= diagonal (lower) or >= diagonal (upper), else zero.
template <bool lower>
void triangle(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self");
  const Sizes plane(x.sizes().end() - 2, x.sizes().end());
  const Expression row = e.coordinate(0, plane, DType::kI64), column = e.coordinate(1, plane, DType::kI64);
  const Expression limit = row + Term::integer(c.integer("diagonal"));
  const Expression kept = e.binary(lower ? OpKind::kLessEqual : OpKind::kGreaterEqual, column, limit);
  c.set(0, choose(kept, x, 0));
}

constexpr Entry kEntries[] = {
    {"aten::zeros", constant<0>},
    {"aten::zeros_like", constant<0>},
    {"aten::new_zeros", constant<0>},
    {"aten::zero_", constant<0>},
    {"aten::_efficientzerotensor", constant<0>},
    {"aten::ones", constant<1>},
    {"aten::ones_like", constant<1>},
    {"aten::new_ones", constant<1>},
    {"aten::empty.memory_format", empty},
    {"aten::empty_like", empty},
    {"aten::empty_strided", empty},
    {"aten::new_empty", empty},
    {"aten::new_empty_strided", empty},
    {"aten::full", full},
    {"aten::full_like", full},
    {"aten::new_full", full},
    {"aten::fill_.Scalar", fill_in_place},
    {"aten::fill_.Tensor", fill_in_place},
    {"aten::fill.Scalar", fill_in_place},
    {"aten::fill.Tensor", fill_in_place},
    {"aten::scalar_tensor", scalar_tensor},
    {"aten::arange", arange},
    {"aten::arange.start", arange},
    {"aten::arange.start_step", arange},
    {"aten::range", arange},
    {"aten::range.step", arange},
    {"aten::fft_fftfreq", frequencies<true>},
    {"aten::fft_rfftfreq", frequencies<false>},
    {"aten::empty_permuted", empty},
    {"aten::tril", triangle<true>, Complexity::kParts},
    {"aten::tril_", triangle<true>},
    {"aten::triu", triangle<false>, Complexity::kParts},
    {"aten::triu_", triangle<false>},
};

}  // namespace

std::span<const Entry> creation_entries() { return kEntries; }

}  // namespace crucible::aten
