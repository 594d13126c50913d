// Reads and writes along single dimensions: see axis_index.hpp.
#include "frontends/aten/indexing/axis_index.hpp"

#include <algorithm>
#include <numeric>
#include <limits>

#include "frontends/aten/algebra/algebra.hpp"

namespace crucible::aten {

using graph::OpKind;

namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

Expression with(Emitter& e, OpKind kind, const Term& x, std::int64_t number) {
  return e.binary(kind, x, Term::integer(number));
}

/// floor((o input + extra) / output) for every o, [output].
Term scaled_index(Emitter& e, std::int64_t shift, std::int64_t input, std::int64_t extra, std::int64_t output) {
  Term o = e.coordinate(0, {output}, DType::kI64);
  if (shift != 0) o = with(e, OpKind::kAdd, o, shift);
  return floor_quotient(e, with(e, OpKind::kAdd, with(e, OpKind::kMultiply, o, input), extra), output);
}

std::vector<Term> positions(Emitter& e, const Sizes& sizes) {
  std::vector<Term> result;
  for (std::size_t d = 0; d < sizes.size(); ++d) result.push_back(e.position(static_cast<std::int64_t>(d), sizes));
  return result;
}

}  // namespace

Expression laid_along(Emitter& e, const Term& x, std::int64_t dim, std::int64_t rank) {
  Sizes sizes(at(rank), 1);
  sizes[at(dim)] = x.elements();
  return e.reshape(x, sizes);
}

Expression take_along(Emitter& e, const Term& x, std::int64_t dim, const Term& index) {
  Sizes sizes = x.sizes();
  sizes[at(dim)] = index.elements();
  auto indices = positions(e, sizes);
  indices[at(dim)] = laid_along(e, index, dim, x.rank());
  return e.take_at(x, indices);
}

Expression add_along(Emitter& e, const Term& g, std::int64_t dim, const Term& index, std::int64_t size) {
  Sizes sizes = g.sizes();
  auto indices = positions(e, sizes);
  indices[at(dim)] = laid_along(e, index, dim, g.rank());
  sizes[at(dim)] = size;
  return e.put(OpKind::kPutAdd, e.fill(Term::number(0), sizes, g.dtype), e.linear_index(sizes, indices), g);
}

Term floor_quotient(Emitter& e, const Term& x, std::int64_t number) {
  if (number == 1) return x;
  const Term divisor = Term::number(static_cast<double>(number));
  const Expression quotient = e.cast(x, DType::kF64) / divisor;
  return e.cast(quotient.unary(OpKind::kFloor), DType::kI64);
}

Term adaptive_counts(Emitter& e, std::int64_t input, std::int64_t output, DType dtype) {
  if (output == 0) return Term::number(1);
  if (input % output == 0) return Term::number(static_cast<double>(input / output));
  const Term begin = scaled_index(e, 0, input, 0, output), end = scaled_index(e, 1, input, output - 1, output);
  return e.cast(e.binary(OpKind::kSubtract, end, begin), dtype);
}

WindowIndex adaptive_windows(Emitter& e, std::int64_t input, std::int64_t output) {
  // With input / output = a / b in lowest terms, o a takes every remainder s by b, and the window has ceil((s + a) / b)
  // elements.
  const std::int64_t common = std::max<std::int64_t>(1, std::gcd(input, output)), a = input / common,
                     b = output / common;
  const std::int64_t shortest = b == 0 ? 1 : (a + b - 1) / b;
  const std::int64_t longest = b == 0 ? 1 : std::max<std::int64_t>(1, (a + 2 * b - 2) / b);
  const bool all_equal = shortest == longest;
  const Expression begin = e.reshape(scaled_index(e, 0, input, 0, output), {output, 1});
  const Expression index = begin + e.position(1, {output, longest});
  if (all_equal) return {index, std::nullopt};
  const Expression end = e.reshape(scaled_index(e, 1, input, output - 1, output), {output, 1});
  return {with(e, OpKind::kMinimum, index, input - 1), index < end};
}

Gathered gather_windows(Emitter& e, const Term& x, const std::vector<std::int64_t>& dims,
                        const std::vector<WindowIndex>& windows) {
  const auto sides = static_cast<std::int64_t>(dims.size());
  Sizes sizes = x.sizes();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    sizes[at(dims[i])] = windows[i].index.size(-2);
    sizes.push_back(windows[i].index.size(-1));
  }
  const auto rank = static_cast<std::int64_t>(sizes.size());
  std::vector<Term> indices;
  for (std::int64_t d = 0; d < x.rank(); ++d) indices.push_back(e.position(d, sizes));
  Gathered result;
  std::vector<Term> places;
  Sizes plane;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    // [windows, elements], perhaps behind the leading dimensions of x, as a tensor of the result's rank.
    const auto spread_out = [&](const Term& term) {
      Sizes shape(at(rank), 1);
      for (std::int64_t d = 0; d + 2 < term.rank(); ++d) shape[at(d)] = term.size(d);
      shape[at(dims[i])] = term.size(-2);
      shape[at(rank - sides + static_cast<std::int64_t>(i))] = term.size(-1);
      return e.reshape(term, shape);
    };
    indices[at(dims[i])] = spread_out(windows[i].index);
    places.push_back(indices[at(dims[i])]);
    plane.push_back(x.size(dims[i]));
    if (!windows[i].counted) continue;
    const Term counted = spread_out(*windows[i].counted);
    result.counted = result.counted ? e.binary(OpKind::kLogicalAnd, *result.counted, counted) : counted;
  }
  result.elements = e.take_at(x, indices);
  result.place = e.linear_index(plane, places);
  return result;
}

WindowMaximum window_maximum(Emitter& e, const Gathered& g, std::size_t sides) {
  std::vector<std::int64_t> taps;
  for (std::size_t i = 0; i < sides; ++i) taps.push_back(g.elements.rank() - static_cast<std::int64_t>(sides - i));
  const bool floating = is_floating(g.elements.dtype);
  Term seen = g.elements;
  if (g.counted) {
    const auto bits = 8 * static_cast<int>(size_bytes(seen.dtype));
    const bool is_unsigned = seen.dtype == DType::kU8;
    const std::int64_t lowest = is_unsigned ? 0 : static_cast<std::int64_t>(~std::uint64_t{0} << (bits - 1));
    const Term least = floating ? Term::number(-std::numeric_limits<double>::infinity()) : Term::integer(lowest);
    seen = e.select(*g.counted, seen, least);
  }
  const Expression top = e.max(seen, taps);
  Term hit = seen == top;
  if (floating) hit = hit || e.unary(OpKind::kIsNan, seen);
  if (g.counted) hit = e.binary(OpKind::kLogicalAnd, hit, *g.counted);
  // The first hit is the largest of the negated places.
  constexpr std::int64_t kFar = std::int64_t{1} << 62;
  const Expression first = -e.max(e.select(hit, e.unary(OpKind::kNegate, g.place), Term::integer(-kFar)), taps);
  if (!floating) return {e.drop(top, taps), e.drop(first, taps)};
  const Expression nan = e.unary(OpKind::kIsNan, seen);
  const Expression last = e.max(choose(nan, g.place, -1), taps);
  const Expression place = choose(is_nan(top), last, first);
  return {e.drop(top, taps), e.drop(place, taps)};
}

}  // namespace crucible::aten
