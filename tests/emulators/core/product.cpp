// See product.hpp.
#include "tests/emulators/core/product.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace crucible::emulator {
namespace {

float from_f16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31u, fraction = bits & 1023u;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(fraction), -24)
                              : std::ldexp(static_cast<float>(fraction | 1024u), static_cast<int>(exponent) - 25);
  return sign != 0 ? -magnitude : magnitude;
}

std::uint16_t to_f16(float value) {
  const auto sign = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16 & 0x8000u);
  if (std::isnan(value)) return sign | 0x7e00u;
  const double magnitude = std::fabs(static_cast<double>(value));
  if (magnitude >= 65520.0) return sign | 0x7c00u;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  // The distance between neighbours there; nearbyint rounds to even.
  const int unit = std::max(exponent - 11, -24);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(magnitude, -unit)), unit);
  if (rounded < 0x1p-14) return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(std::ldexp(rounded, 24)));
  std::frexp(rounded, &exponent);
  const auto fraction = static_cast<std::uint16_t>(std::ldexp(rounded, 11 - exponent)) & 1023u;
  return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(exponent + 14) << 10 | fraction);
}

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

template <class T>
T load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace

double read_element(ElementType type, const char* data, std::int64_t index) {
  const char* const at = data + index * static_cast<std::int64_t>(size_bytes(type));
  switch (type) {
    case ElementType::kF16:
      return from_f16(load<std::uint16_t>(at));
    case ElementType::kBF16:
      return std::bit_cast<float>(static_cast<std::uint32_t>(load<std::uint16_t>(at)) << 16);
    case ElementType::kF32:
      return load<float>(at);
    case ElementType::kF64:
      return load<double>(at);
  }
  return 0;
}

namespace {

template <class T>
void store(char* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

}  // namespace

void write_element(ElementType type, char* data, std::int64_t index, double value) {
  char* const at = data + index * static_cast<std::int64_t>(size_bytes(type));
  switch (type) {
    case ElementType::kF16:
      return store(at, to_f16(static_cast<float>(value)));
    case ElementType::kBF16:
      return store(at, to_bf16(static_cast<float>(value)));
    case ElementType::kF32:
      return store(at, static_cast<float>(value));
    case ElementType::kF64:
      return store(at, value);
  }
}

namespace {

/// One operand's element (row, column) of op().
std::int64_t index_of(const MatrixOperand& operand, std::int64_t batch, std::int64_t row, std::int64_t column) {
  return batch * operand.batch_stride +
         (operand.transposed ? column + row * operand.pitch : row + column * operand.pitch);
}

/// A copy of op() as rows, so that the sums run along memory.
std::vector<double> rows_of(const Product& p, const MatrixOperand& operand, std::int64_t batch, std::int64_t rows,
                            std::int64_t columns) {
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(rows * columns));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j)
      values.push_back(read_element(p.type, operand.data, index_of(operand, batch, i, j)));
  }
  return values;
}

template <class Sum>
Sum sum_of(const double* x, const double* y, std::int64_t k) {
  Sum sum = 0;
  for (std::int64_t i = k; i-- > 0;) sum = std::fma(static_cast<Sum>(x[i]), static_cast<Sum>(y[i]), sum);
  return sum;
}

double activated(Activation activation, double x) {
  if (activation == Activation::kRelu) return std::fmax(x, 0.0);
  if (activation == Activation::kGelu)
    return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
  return x;
}

}  // namespace

std::uint64_t size_bytes(ElementType type) { return type == ElementType::kF64 ? 8 : type == ElementType::kF32 ? 4 : 2; }

std::uint64_t Product::scratch_bytes() const { return static_cast<std::uint64_t>(m * n) * 8; }

std::string Product::name() const {
  const char* const types[] = {"f16", "bf16", "f32", "f64"};
  return std::string("gemm_") + types[static_cast<int>(type)] + "_" + std::to_string(m) + "x" + std::to_string(n) +
         "x" + std::to_string(k);
}

void multiply(const Product& p) {
  for (std::int64_t batch = 0; batch < p.batch; ++batch) {
    const std::vector<double> a = rows_of(p, p.a, batch, p.m, p.k);
    MatrixOperand b_columns = p.b;  // b's columns, one after the other, are the rows of its transpose
    b_columns.transposed = !p.b.transposed;
    const std::vector<double> b = rows_of(p, b_columns, batch, p.n, p.k);
    std::vector<double> own(p.scratch == nullptr ? static_cast<std::size_t>(p.m * p.n) : 0);
    char* const sums = p.scratch == nullptr ? reinterpret_cast<char*>(own.data()) : p.scratch;
    for (std::int64_t j = 0; j < p.n; ++j) {
      for (std::int64_t i = 0; i < p.m; ++i) {
        const double *const x = a.data() + i * p.k, *const y = b.data() + j * p.k;
        const double sum =
            p.type == ElementType::kF64 ? sum_of<double>(x, y, p.k) : static_cast<double>(sum_of<float>(x, y, p.k));
        write_element(ElementType::kF64, sums, j * p.m + i, sum);
      }
    }
    for (std::int64_t j = 0; j < p.n; ++j) {
      for (std::int64_t i = 0; i < p.m; ++i) {
        double value = p.alpha * read_element(ElementType::kF64, sums, j * p.m + i);
        if (p.beta != 0) value += p.beta * read_element(p.result_type(), p.c.data, index_of(p.c, batch, i, j));
        if (p.bias != nullptr) value += read_element(p.type, p.bias, i);
        value = activated(p.activation, value);
        write_element(p.result_type(), p.d.data, index_of(p.d, batch, i, j), value);
      }
    }
  }
}

}  // namespace crucible::emulator
