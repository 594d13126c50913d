// Lowering of group norm and its gradient: statistics per sample and group of channels.
#include <algorithm>

#include "frontends/aten/algebra/algebra.hpp"
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
  const Expression given = c.wide("input");
  const Expression x = e.reshape(given, grouping.full);
  const Expression mean = e.mean(x, {2, 3});
  const Expression centered = x - mean;
  const Expression variance = e.mean(multiply(e, centered, centered), {2, 3});
  const Expression scale = (variance + Term::number(c.real("eps"))).unary(OpKind::kReciprocalSqrt);
  Term y = multiply(e, centered, scale);
  if (c.has("weight")) y = multiply(e, y, e.reshape(c.wide("weight"), grouping.per_channel));
  if (c.has("bias")) {
    y = y + e.reshape(c.wide("bias"), grouping.per_channel);
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
  const Expression given = c.wide("input");
  const Expression x = e.reshape(given, grouping.full), g = e.reshape(c.wide("grad_out"), grouping.full);
  const Expression mean = e.reshape(c.wide("mean"), grouping.per_group);
  const Expression scale = e.reshape(c.wide("rstd"), grouping.per_group);
  const Expression h = multiply(e, x - mean, scale);
  if (c.wants(0)) {
    const Expression w =
        c.has("weight") ? multiply(e, g, e.reshape(c.wide("weight"), grouping.per_channel)) : g;
    const Expression left = w - e.mean(w, {2, 3});
    const Expression right = multiply(e, h, e.mean(multiply(e, w, h), {2, 3}));
    c.set(0, e.reshape(multiply(e, left - right, scale), given.sizes()));
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
