// Bounds: op_tolerance.hpp for one op, and of a whole program's largest number for many.
#include "plugins/conformance/ops_compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plugins/conformance/op_tolerance.hpp"

namespace crucible::conformance {
namespace {

struct FloatFormat {
  int digits, min_exponent;
};

FloatFormat format_of(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return {11, -14};
    case DType::kBF16:
      return {8, -126};
    case DType::kF32:
      return {24, -126};
    default:
      return {53, -1022};
  }
}

bool is_near(double got, double want, double bound) {
  return got == want || (std::isnan(got) && std::isnan(want)) || std::fabs(got - want) <= bound;
}

bool same_number(double got, double want) {
  return (std::isnan(got) && std::isnan(want)) || (got == want && std::signbit(got) == std::signbit(want));
}

}  // namespace

double spacing(DType dtype, double value) {
  const FloatFormat format = format_of(dtype);
  const int exponent =
      value == 0 || !std::isfinite(value) ? format.min_exponent : std::max(std::ilogb(value), format.min_exponent);
  return std::ldexp(1, exponent - format.digits + 1);
}

std::string difference(const OpsProgram& program, graph::ValueId v, const graph::Bytes& got, const graph::Bytes& want,
                       const graph::Bytes& flushed) {
  const graph::Value& value = program.program.values[v];
  const auto view = graph::View::contiguous({value.elements});
  const auto a = graph::load(got, value.dtype, view), b = graph::load(want, value.dtype, view),
             c = graph::load(flushed, value.dtype, view);
  double largest =
      b.size() == 1 ? 1.0 : 1e-3;  // of a chain of ops; a single element is mostly a sum of others that cancel
  if (program.is_random) {
    for (std::size_t i = 0; i < b.size(); ++i) {
      if (std::isfinite(b.as_real(i))) largest = std::max(largest, std::fabs(b.as_real(i)));
    }
  }
  const double chain = value.dtype == DType::kF64    ? 1e-9
                       : value.dtype == DType::kF16  ? 1e-2
                       : value.dtype == DType::kBF16 ? 5e-2
                                                     : 2e-5;
  const double smallest_normal = std::ldexp(1, format_of(value.dtype).min_exponent);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a.is_integer) {
      if (a.integer[i] == b.integer[i] || a.integer[i] == c.integer[i]) continue;
      return fmt::format("element {} of {} is {} instead of {}", i, a.size(), a.integer[i], b.integer[i]);
    }
    const double x = a.real[i], y = b.real[i], z = c.real[i];
    if (program.same_bits) {
      if (same_number(x, y)) continue;
      return fmt::format("element {} of {} is {:a} instead of {:a}, which is only to be moved", i, a.size(), x, y);
    }
    double bound = program.is_random ? chain * largest
                                     : sum_tolerance(program.terms, program.magnitude, value.dtype) +
                                           allowed_ulp(program.kind, value.dtype) * spacing(value.dtype, y);
    if (program.terms > 0 && (value.dtype == DType::kF16 || value.dtype == DType::kBF16))
      bound += spacing(value.dtype, y);
    if (is_near(x, y, bound) || is_near(x, z, bound)) continue;
    if (x == 0 && std::fabs(y) < smallest_normal) continue;  // a subnormal result may be flushed
    return fmt::format("element {} of {} is {:.17g} ({:a}) instead of {:.17g} ({:a}): {:.3g} away, {:.3g} are allowed",
                       i, a.size(), x, x, y, y, std::fabs(x - y), bound);
  }
  return "";
}

}  // namespace crucible::conformance
