// Takes and puts of the reference interpreter: see reference_indexed.hpp.
#include "core/graph/reference_indexed.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace crucible::graph {
namespace {

bool is_inside(std::int64_t index, std::size_t size) { return index >= 0 && static_cast<std::uint64_t>(index) < size; }

double joined(OpKind kind, double old, double source) {
  switch (kind) {
    case OpKind::kPutAdd:
      return old + source;
    case OpKind::kPutMultiply:
      return old * source;
    case OpKind::kPutSet:
      return source;
    default:
      if (std::isnan(old) || std::isnan(source)) return std::numeric_limits<double>::quiet_NaN();
      return kind == OpKind::kPutMax ? std::max(old, source) : std::min(old, source);
  }
}

/// Arithmetic wraps in 64 bits; storing keeps the low bits of narrower types.
std::int64_t joined(OpKind kind, std::int64_t old, std::int64_t source) {
  const auto x = static_cast<std::uint64_t>(old), y = static_cast<std::uint64_t>(source);
  switch (kind) {
    case OpKind::kPutAdd:
      return static_cast<std::int64_t>(x + y);
    case OpKind::kPutMultiply:
      return static_cast<std::int64_t>(x * y);
    case OpKind::kPutSet:
      return source;
    default:
      return kind == OpKind::kPutMax ? std::max(old, source) : std::min(old, source);
  }
}

}  // namespace

Numbers reference_take(const Numbers& x, const Numbers& index) {
  Numbers result{x.is_integer, {}, {}};
  if (x.is_integer) {
    result.integer.assign(index.size(), 0);
  } else {
    result.real.assign(index.size(), 0);
  }
  for (std::size_t i = 0; i < index.size(); ++i) {
    if (!is_inside(index.integer[i], x.size())) continue;
    const auto from = static_cast<std::size_t>(index.integer[i]);
    if (x.is_integer) {
      result.integer[i] = x.integer[from];
    } else {
      result.real[i] = x.real[from];
    }
  }
  return result;
}

Numbers reference_put(OpKind kind, DType dtype, Numbers base, const Numbers& index, const Numbers& source) {
  for (std::size_t i = 0; i < index.size(); ++i) {
    if (!is_inside(index.integer[i], base.size())) continue;
    const auto to = static_cast<std::size_t>(index.integer[i]);
    if (base.is_integer) {
      base.integer[to] = joined(kind, base.integer[to], source.integer[i]);
    } else {
      base.real[to] = round_to(dtype, joined(kind, base.real[to], source.real[i]));
    }
  }
  return base;
}

}  // namespace crucible::graph
