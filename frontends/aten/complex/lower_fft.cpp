// Lowering of discrete Fourier transforms, as products with tables of cosines and sines: exact in their meaning, n^2 in
// time.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/complex/complex.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

constexpr std::int64_t kLongest = 8192;  // the table of a longer one is 256 MiB and more

/// Cosine and sine of 2 pi j k / n for j < rows, k < columns. From j k mod n, so that no angle is large.
struct Table {
  Expression cosine, sine;
};

Table table(Emitter& e, std::int64_t rows, std::int64_t columns, std::int64_t n, DType dtype) {
  const Expression j(e, e.position(0, {rows, columns})), k(e, e.position(1, {rows, columns}));
  const Expression turns =
      (j * k).binary(OpKind::kRemainder, Term::integer(n)).cast(DType::kF64) / static_cast<double>(n);
  const Expression angle = turns * (2 * std::numbers::pi);
  return {angle.unary(OpKind::kCos).cast(dtype), angle.unary(OpKind::kSin).cast(dtype)};
}

/// `work` on the matrix whose rows are the lines of x along `dim`.
Complex along(Emitter& e, const Complex& x, std::int64_t dim, const std::function<Complex(const Complex&)>& work) {
  std::vector<std::int64_t> order, back;
  const auto rank = static_cast<std::int64_t>(x.sizes().size());
  for (std::int64_t d = 0; d < rank; ++d) {
    if (d != dim) order.push_back(d);
  }
  order.push_back(dim);
  back.resize(order.size());
  for (std::size_t d = 0; d < order.size(); ++d)
    back[static_cast<std::size_t>(order[d])] = static_cast<std::int64_t>(d);
  Sizes sizes;
  for (const auto d : order) sizes.push_back(x.sizes()[static_cast<std::size_t>(d)]);
  const std::int64_t length = sizes.back(), rows = length == 0 ? 0 : x.real.elements() / length;
  const auto matrix = [&](const Term& part) {
    return part.is_number() ? part : e.reshape(e.permute(part, order), {rows, length});
  };
  const Complex done = work({matrix(x.real), matrix(x.imaginary)});
  sizes.back() = done.sizes().size() == 2 ? done.sizes()[1] : 0;
  const auto tensor = [&](const Term& part) {
    return part.is_number() ? part : e.permute(e.reshape(part, sizes), back);
  };
  return {tensor(done.real), tensor(done.imaginary)};
}

/// Row by row, sum over j of x[j] exp(sign 2 pi i j k / n) for k < columns.
Complex transformed(Emitter& e, const Complex& x, std::int64_t columns, double sign) {
  const std::int64_t n = x.sizes()[1];
  const Table t = table(e, n, columns, n, x.real.dtype);
  const Term sine = sign > 0 ? t.sine : (-t.sine);
  const Term cosine = t.cosine;
  if (x.imaginary.is_number()) return {e.matmul(x.real, cosine), e.matmul(x.real, sine)};
  return {e.binary(OpKind::kSubtract, e.matmul(x.real, cosine), e.matmul(x.imaginary, sine)),
          e.binary(OpKind::kAdd, e.matmul(x.imaginary, cosine), e.matmul(x.real, sine))};
}

struct Request {
  Sizes dims;
  double scale = 1;
};

/// The dimensions, from 0, and the factor of the whole transform; fails where a length is not one that is done here.
Request request_of(OpCall& c, const Sizes& sizes, std::int64_t last) {
  Request r;
  double elements = 1;
  r.dims = c.integers("dim");
  for (std::size_t i = 0; i < r.dims.size(); ++i) {
    std::int64_t& dim = r.dims[i];
    dim = wrap_dim(dim, static_cast<std::int64_t>(sizes.size()));
    if (dim < 0 || dim >= static_cast<std::int64_t>(sizes.size())) {
      c.emit().fail("argument dim names a dimension that self has not");
      return {};
    }
    const std::int64_t n = i + 1 == r.dims.size() && last > 0 ? last : sizes[static_cast<std::size_t>(dim)];
    if (n < 1 || n > kLongest) {
      c.emit().fail(fmt::format("a Fourier transform of {} elements: from 1 to {} are supported", n, kLongest));
      return {};
    }
    elements *= static_cast<double>(n);
  }
  const auto mode = c.integer("normalization");  // none, by the root of n, by n
  r.scale = mode == 1 ? 1 / std::sqrt(elements) : mode == 2 ? 1 / elements : 1;
  return r;
}

Complex scaled(Emitter& e, const Complex& x, double scale) {
  if (scale == 1) return x;
  return {e.binary(OpKind::kMultiply, x.real, Term::number(scale)),
          e.binary(OpKind::kMultiply, x.imaginary, Term::number(scale))};
}

/// Over all of `dims` but the last `left_out`.
Complex transformed_over(Emitter& e, Complex x, const Sizes& dims, std::size_t left_out, double sign) {
  for (std::size_t i = 0; i + left_out < dims.size(); ++i) {
    x = along(e, x, dims[i], [&](const Complex& lines) { return transformed(e, lines, lines.sizes()[1], sign); });
  }
  return x;
}

void complex_to_complex(OpCall& c) {
  Emitter& e = c.emit();
  const Complex x = c.complex("self");
  const Request r = request_of(c, x.sizes(), 0);
  const double sign = c.boolean("forward") ? -1 : 1;
  if (!e.failure().empty()) return;
  c.set_complex(0, scaled(e, transformed_over(e, x, r.dims, 0, sign), r.scale));
}

void real_to_complex(OpCall& c) {
  Emitter& e = c.emit();
  const Term x = c.tensor("self");
  const Request r = request_of(c, x.sizes(), 0);
  const bool one_sided = c.boolean("onesided");
  if (!e.failure().empty() || r.dims.empty()) return e.fail("a Fourier transform of no dimension");
  const Complex half = along(e, {x, Term::number(0)}, r.dims.back(), [&](const Complex& lines) {
    const std::int64_t n = lines.sizes()[1];
    return transformed(e, lines, one_sided ? n / 2 + 1 : n, -1);
  });
  c.set_complex(0, scaled(e, transformed_over(e, half, r.dims, 1, -1), r.scale));
}

/// Of half a spectrum whose other half is its mirror image.
void complex_to_real(OpCall& c) {
  Emitter& e = c.emit();
  const Complex x = c.complex("self");
  const std::int64_t n = c.integer("last_dim_size");
  const Request r = request_of(c, x.sizes(), n);
  if (!e.failure().empty() || r.dims.empty()) return e.fail("a Fourier transform of no dimension");
  const std::int64_t half = x.sizes()[static_cast<std::size_t>(r.dims.back())];
  if (half != n / 2 + 1) return e.fail(fmt::format("half a spectrum of {} numbers has {} elements", n, half));
  const Complex over_others = transformed_over(e, x, r.dims, 1, 1);
  const Complex line = along(e, over_others, r.dims.back(), [&](const Complex& lines) {
    const DType dtype = lines.real.dtype;
    const Table t = table(e, half, n, n, dtype);
    const Expression k(e, e.position(0, {half, n}));
    const Expression weight = choose((k == 0) || (k * 2 == n), 1.0, 2.0).cast(dtype);
    const Term real = e.matmul(lines.real, t.cosine * weight), imaginary = e.matmul(lines.imaginary, t.sine * weight);
    return Complex{e.binary(OpKind::kSubtract, real, imaginary), Term::number(0)};
  });
  c.set(0, scaled(e, line, r.scale).real);
}

constexpr Entry kEntries[] = {
    {"aten::_fft_c2c", complex_to_complex},
    {"aten::_fft_r2c", real_to_complex},
    {"aten::_fft_c2r", complex_to_real},
};

}  // namespace

std::span<const Entry> fft_entries() { return kEntries; }

}  // namespace crucible::aten
