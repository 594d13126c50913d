// A term: what lowering functions compute with. A view of a value, or a number that is known before the iteration.
#pragma once

#include <cstdint>
#include <vector>

#include "core/graph/program.hpp"

namespace crucible::aten {

using Sizes = std::vector<std::int64_t>;

struct Term {
  graph::Operand operand;
  DType dtype = DType::kF32;       // of the value; for numbers what promotion takes them for (i64, f32 or bool)
  bool is_wrapped_number = false;  // a 0-dim tensor that was a Python number: weak in promotion

  bool is_number() const { return operand.is_scalar(); }
  const Sizes& sizes() const { return operand.view.sizes; }
  std::int64_t rank() const { return static_cast<std::int64_t>(operand.view.sizes.size()); }
  std::int64_t elements() const { return operand.view.elements(); }
  /// 0 for a dimension that the term has not: what is computed with it after that has failed, or is refused by the
  /// verifier.
  std::int64_t size(std::int64_t dim) const {
    const std::int64_t d = dim < 0 ? dim + rank() : dim;
    return d >= 0 && d < rank() ? operand.view.sizes[static_cast<std::size_t>(d)] : 0;
  }

  static Term number(double value) {
    Term t;
    t.operand.scalar.real = value;
    return t;
  }
  static Term integer(std::int64_t value) {
    Term t;
    t.operand.scalar.is_integer = true;
    t.operand.scalar.integer = value;
    t.dtype = DType::kI64;
    return t;
  }
};

/// The dtype in which the framework computes with these operands together: tensors with dimensions decide, 0-dim ones
/// only raise the category (bool, integer, floating), numbers likewise and after them.
DType promote(const std::vector<Term>& terms);

/// f32 for f16 and bf16, else the dtype itself: the precision inside a kernel.
DType compute_dtype(DType dtype);

/// `dim` counted from the end when negative.
std::int64_t wrap_dim(std::int64_t dim, std::int64_t rank);

}  // namespace crucible::aten
