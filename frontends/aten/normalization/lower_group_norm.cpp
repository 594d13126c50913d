// Lowering of group norm and its gradient: statistics per sample and group of channels.
#include <algorithm>

#include "frontends/aten/algebra/formulas.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

/// How [n, channels, ...] is seen: [n, groups, channels of a group, points].
struct Grouping {
  Sizes full, per_group, per_channel;
  explicit Grouping(OpCall& c) {
    const std::int64_t n = c.integer("N"), channels = c.integer("C"), points = c.integer("HxW"),
                       groups = c.integer("group");
    full = {n, groups, channels / std::max<std::int64_t>(1, groups), points};
    per_group = {n, groups, 1, 1};
    per_channel = {1, full[1], full[2], 1};
  }
  std::int64_t channels() const { return full[1] * full[2]; }
};

void native_group_norm(OpCall& c) {
  Emitter& e = c.emit();
  const Grouping grouping(c);
  const Term given = widened(e, c.tensor("input"));
  const Term x = e.reshape(given, grouping.full);
  const Term mean = e.mean(x, {2, 3});
  const Term centered = e.binary(OpKind::kSubtract, x, mean);
  const Term variance = e.mean(multiply(e, centered, centered), {2, 3});
  const Term scale = e.unary(OpKind::kReciprocalSqrt,
                             e.binary(OpKind::kAdd, variance, Term::number(c.real("eps"))));
  Term y = multiply(e, centered, scale);
  if (c.has("weight")) y = multiply(e, y, e.reshape(widened(e, c.tensor("weight")), grouping.per_channel));
  if (c.has("bias")) {
    y = e.binary(OpKind::kAdd, y, e.reshape(widened(e, c.tensor("bias")), grouping.per_channel));
  }
  c.set(0, e.reshape(y, given.sizes()));
  c.set(1, e.drop(mean, {2, 3}));
  c.set(2, e.drop(scale, {2, 3}));
}

/// With g the gradient times the weight, h the normalised input and m the mean over a group:
/// scale * (g - m(g) - h * m(g * h)).
void native_group_norm_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Grouping grouping(c);
  const Term given = widened(e, c.tensor("input"));
  const Term x = e.reshape(given, grouping.full), g = e.reshape(widened(e, c.tensor("grad_out")), grouping.full);
  const Term mean = e.reshape(widened(e, c.tensor("mean")), grouping.per_group);
  const Term scale = e.reshape(widened(e, c.tensor("rstd")), grouping.per_group);
  const Term h = multiply(e, e.binary(OpKind::kSubtract, x, mean), scale);
  if (c.wants(0)) {
    const Term w =
        c.has("weight") ? multiply(e, g, e.reshape(widened(e, c.tensor("weight")), grouping.per_channel)) : g;
    const Term left = e.binary(OpKind::kSubtract, w, e.mean(w, {2, 3}));
    const Term right = multiply(e, h, e.mean(multiply(e, w, h), {2, 3}));
    c.set(0, e.reshape(multiply(e, e.binary(OpKind::kSubtract, left, right), scale), given.sizes()));
  }
  if (c.wants(1)) c.set(1, e.reshape(e.sum(multiply(e, g, h), {0, 3}), {grouping.channels()}));
  if (c.wants(2)) c.set(2, e.reshape(e.sum(g, {0, 3}), {grouping.channels()}));
}

constexpr Entry kEntries[] = {
    {"aten::native_group_norm", native_group_norm},
    {"aten::native_group_norm_backward", native_group_norm_backward},
};

}  // namespace

std::span<const Entry> group_norm_entries() { return kEntries; }

}  // namespace crucible::aten
