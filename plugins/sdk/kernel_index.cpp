// Steps, divisors and spans of index expressions: see kernel_index.hpp.
#include "plugins/sdk/kernel_index.hpp"

#include <algorithm>
#include <limits>

namespace crucible::sdk {
namespace {

// Definitions that are looked through, one in the other: index expressions have a few.
constexpr int kDepth = 48;
constexpr std::int64_t kLargestDivisor = 16;

std::int64_t power_of_two_in(std::int64_t value) {
  if (value == 0) return kLargestDivisor;
  return std::min(value & -value, kLargestDivisor);
}

std::optional<Span32> in_32_bits(std::int64_t low, std::int64_t high) {
  if (low <= std::numeric_limits<std::int32_t>::min() || high > std::numeric_limits<std::int32_t>::max()) return {};
  return Span32{low, high};
}

}  // namespace

Indices::Indices(const Kernel& kernel)
    : kernel_(kernel),
      definitions_(kernel.variables.size(), kNoId),
      loops_(kernel.variables.size(), nullptr),
      narrow_(kernel.exprs.size()) {
  visit(kernel.body);
  for (std::size_t id = 0; id < kernel.exprs.size(); ++id) narrow_[id] = compute_narrow(kernel.exprs[id]);
}

void Indices::visit(const std::vector<Stmt>& body) {
  for (const Stmt& stmt : body) {
    if (stmt.kind == StmtKind::kLet && !kernel_.variables[stmt.id].is_mutable) definitions_[stmt.id] = stmt.a;
    if (stmt.kind == StmtKind::kFor || stmt.kind == StmtKind::kGrid) loops_[stmt.id] = &stmt;
    visit(stmt.body);
  }
}

std::optional<std::int64_t> Indices::constant(std::uint32_t id) const {
  const Expr& e = kernel_.exprs[id];
  return e.operation == Op::kInteger ? std::optional(e.integer) : std::nullopt;
}

std::optional<std::int64_t> Indices::turns(const Stmt& loop) const {
  if (loop.kind != StmtKind::kFor || constant(loop.a) != 0) return {};
  const auto end = constant(loop.b);
  return end && *end > 0 ? end : std::nullopt;
}

void Indices::note_inner(const std::vector<Stmt>& body, std::vector<bool>& inner) {
  for (const Stmt& stmt : body) {
    if (stmt.kind == StmtKind::kLet || stmt.kind == StmtKind::kSet || stmt.kind == StmtKind::kFor)
      inner[stmt.id] = true;
    note_inner(stmt.body, inner);
  }
}

std::vector<bool> Indices::inner_of(const Stmt& loop) const {
  std::vector<bool> inner(kernel_.variables.size());
  inner[loop.id] = true;
  note_inner(loop.body, inner);
  return inner;
}

std::optional<std::int64_t> Indices::step(std::uint32_t id, const Stmt& loop, std::int64_t width) const {
  return step(id, Group{inner_of(loop), loop.id, width}, kDepth);
}
std::int64_t Indices::divisor(std::uint32_t id, const Stmt& loop, std::int64_t width) const {
  return divisor(id, Group{inner_of(loop), loop.id, width}, kDepth);
}
bool Indices::is_known_before(std::uint32_t id, const Stmt& loop) const {
  return is_known_before(id, Group{inner_of(loop), loop.id, 1}, kDepth);
}
bool Indices::is_natural(std::uint32_t id) const { return is_natural(id, kDepth); }

std::optional<std::int64_t> Indices::step(std::uint32_t id, const Group& group, int depth) const {
  if (depth == 0) return {};
  const Expr& e = kernel_.exprs[id];
  const auto of = [&](std::uint32_t in) { return step(in, group, depth - 1); };
  switch (e.operation) {
    case Op::kVariable:
      if (e.id == group.variable) return 1;
      if (!group.inner[e.id]) return 0;
      return definitions_[e.id] == kNoId ? std::nullopt : of(definitions_[e.id]);
    case Op::kAssume:
      return of(e.in[0]);
    case Op::kAdd:
    case Op::kSubtract: {
      const auto a = of(e.in[0]), b = of(e.in[1]);
      if (e.type != Type::kI64 || !a || !b) break;
      return e.operation == Op::kAdd ? *a + *b : *a - *b;
    }
    case Op::kMultiply: {
      const auto a = of(e.in[0]), b = of(e.in[1]), x = constant(e.in[0]), y = constant(e.in[1]);
      constexpr std::int64_t kMost = std::int64_t{1} << 31;
      const auto is_small = [](const auto& n) { return n && *n > -kMost && *n < kMost; };
      if (e.type == Type::kI64 && is_small(a) && is_small(y)) return *a * *y;
      if (e.type == Type::kI64 && is_small(b) && is_small(x)) return *b * *x;
      break;
    }
    case Op::kDivide:
    case Op::kRemainder: {
      // A group lies between two multiples of what it is divided by.
      const auto a = of(e.in[0]), by = constant(e.in[1]);
      const bool stays = e.type == Type::kI64 && a == 1 && by && *by > 0 && *by % group.width == 0 &&
                         divisor(e.in[0], group, depth - 1) >= std::min(group.width, kLargestDivisor) &&
                         group.width <= kLargestDivisor && is_natural(e.in[0], depth - 1);
      if (stays) return e.operation == Op::kDivide ? 0 : 1;
      break;
    }
    default:
      break;
  }
  const bool is_alike = std::ranges::all_of(e.in, [&](std::uint32_t in) { return in == kNoId || of(in) == 0; });
  return is_alike ? std::optional<std::int64_t>(0) : std::nullopt;
}

std::int64_t Indices::divisor(std::uint32_t id, const Group& group, int depth) const {
  if (depth == 0) return 1;
  const Expr& e = kernel_.exprs[id];
  if (e.type != Type::kI64) return 1;
  const auto of = [&](std::uint32_t in) { return divisor(in, group, depth - 1); };
  switch (e.operation) {
    case Op::kInteger:
      return power_of_two_in(e.integer);
    case Op::kVariable:
      if (e.id == group.variable) return std::min(group.width, kLargestDivisor);
      return definitions_[e.id] == kNoId ? 1 : of(definitions_[e.id]);
    case Op::kAssume:
      return of(e.in[0]);
    case Op::kAdd:
    case Op::kSubtract:
    case Op::kRemainder:
    case Op::kMaximum:
    case Op::kMinimum:
      return std::min(of(e.in[0]), of(e.in[1]));
    case Op::kSelect:
      return std::min(of(e.in[1]), of(e.in[2]));
    case Op::kMultiply:
      return std::min(of(e.in[0]) * of(e.in[1]), kLargestDivisor);
    default:
      return 1;
  }
}

bool Indices::is_known_before(std::uint32_t id, const Group& group, int depth) const {
  if (depth == 0) return false;
  const Expr& e = kernel_.exprs[id];
  if (e.operation == Op::kLoad || e.operation == Op::kElement) return false;
  if (e.operation == Op::kVariable && group.inner[e.id] && e.id != group.variable)
    return definitions_[e.id] != kNoId && is_known_before(definitions_[e.id], group, depth - 1);
  return std::ranges::all_of(e.in,
                             [&](std::uint32_t in) { return in == kNoId || is_known_before(in, group, depth - 1); });
}

bool Indices::is_natural(std::uint32_t id, int depth) const {
  if (depth == 0) return false;
  const Expr& e = kernel_.exprs[id];
  const auto both = [&] { return is_natural(e.in[0], depth - 1) && is_natural(e.in[1], depth - 1); };
  switch (e.operation) {
    case Op::kInteger:
      return e.integer >= 0;
    case Op::kVariable: {
      const Stmt* const loop = loops_[e.id];
      if (loop != nullptr) return loop->kind == StmtKind::kGrid || is_natural(loop->a, depth - 1);
      return definitions_[e.id] != kNoId && is_natural(definitions_[e.id], depth - 1);
    }
    case Op::kAssume:
      return e.integer >= 0;
    case Op::kAdd:
    case Op::kMultiply:
    case Op::kDivide:
    case Op::kRemainder:
    case Op::kMinimum:
      return e.type == Type::kI64 && both();
    default:
      return false;
  }
}

std::optional<Span32> Indices::narrow_variable(std::uint32_t id) const {
  if (kernel_.variables[id].type != Type::kI64) return {};
  if (const Stmt* const loop = loops_[id]; loop != nullptr) {
    if (loop->kind == StmtKind::kGrid) return {};
    const auto from = constant(loop->a), to = constant(loop->b);
    // Its text counts on to the end, and by as much as a group beyond it.
    constexpr std::int64_t kBeyond = 1 << 20;
    if (!from || !to || !in_32_bits(*from - kBeyond, *to + kBeyond)) return {};
    return in_32_bits(*from, std::max(*from, *to));
  }
  return definitions_[id] == kNoId ? std::nullopt : narrow_[definitions_[id]];
}

std::optional<Span32> Indices::compute_narrow(const Expr& e) const {
  if (e.type != Type::kI64) return {};
  if (e.operation == Op::kInteger) return in_32_bits(e.integer, e.integer);
  if (e.operation == Op::kVariable) return narrow_variable(e.id);
  if (e.operation == Op::kAssume) return narrow_[e.in[0]];
  if (e.operation < Op::kAdd || e.operation > Op::kRemainder) return {};
  const auto a = narrow_[e.in[0]], b = narrow_[e.in[1]];
  if (!a || !b) return {};
  switch (e.operation) {
    case Op::kAdd:
      return in_32_bits(a->low + b->low, a->high + b->high);
    case Op::kSubtract:
      return in_32_bits(a->low - b->high, a->high - b->low);
    case Op::kMultiply: {
      const auto [low, high] = std::minmax({a->low * b->low, a->low * b->high, a->high * b->low, a->high * b->high});
      return in_32_bits(low, high);
    }
    case Op::kDivide:
      return a->low >= 0 && b->low == b->high && b->low > 0 ? in_32_bits(a->low / b->low, a->high / b->low)
                                                            : std::nullopt;
    default:
      return a->low >= 0 && b->low == b->high && b->low > 0 ? in_32_bits(0, b->low - 1) : std::nullopt;
  }
}

}  // namespace crucible::sdk
