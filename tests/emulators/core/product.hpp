// A matrix product as the emulated BLAS libraries compute it: column-major, on the processor, in memory that has lost
// its tag. Sums go through k from the end, so that a result which comes from a library differs in its last bits from
// one of a generated kernel.
#pragma once

#include <cstdint>
#include <string>

namespace crucible::emulator {

enum class ElementType { kF16, kBF16, kF32, kF64 };

std::uint64_t size_bytes(ElementType type);
/// Element `index` of an array, rounded to the type where it is written.
double read_element(ElementType type, const char* data, std::int64_t index);
void write_element(ElementType type, char* data, std::int64_t index, double value);

struct MatrixOperand {
  char* data = nullptr;
  bool transposed = false;
  std::int64_t pitch = 0, batch_stride = 0;  // in elements
};

enum class Activation { kNone, kRelu, kGelu };  // gelu by tanh

/// d = activation(alpha op(a) op(b) + beta c + bias) for each product of the batch; d has m rows.
struct Product {
  ElementType type = ElementType::kF32;  // of all four; f16 and bf16 are summed in f32
  bool keeps_f32 = false;                // c and d are f32
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  double alpha = 1, beta = 0;
  MatrixOperand a, b, c, d;
  const char* bias = nullptr;  // of m elements, or none
  Activation activation = Activation::kNone;
  char* scratch = nullptr;  // sums lie here before they are rounded, where there is some: scratch_bytes()

  ElementType result_type() const { return keeps_f32 ? ElementType::kF32 : type; }
  std::uint64_t scratch_bytes() const;
  /// "gemm_f32_64x48x32": the name that rules of faults match.
  std::string name() const;
};

void multiply(const Product& product);

}  // namespace crucible::emulator
