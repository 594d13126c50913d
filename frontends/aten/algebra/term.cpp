// Type promotion as the framework does it: see term.hpp.
#include "frontends/aten/algebra/term.hpp"

#include <algorithm>

namespace crucible::aten {
namespace {

int category(DType dtype) {
  if (dtype == DType::kBool) return 0;
  if (is_integral(dtype)) return 1;
  return 2;
}

/// Both of one priority: the smallest dtype that holds both.
DType join(DType a, DType b) {
  if (a == b) return a;
  if (category(a) != category(b)) return category(a) > category(b) ? a : b;
  if (category(a) == 2) {
    if (a == DType::kF64 || b == DType::kF64) return DType::kF64;
    return DType::kF32;  // two different ones among f16, bf16 and f32
  }
  const bool mixed_sign = (a == DType::kU8) != (b == DType::kU8);
  if (mixed_sign && std::max(size_bytes(a), size_bytes(b)) == 1) return DType::kI16;
  if (mixed_sign) return a == DType::kU8 ? b : a;
  return size_bytes(a) > size_bytes(b) ? a : b;
}

struct Group {
  bool present = false;
  DType dtype = DType::kBool;
  void add(DType other) {
    dtype = present ? join(dtype, other) : other;
    present = true;
  }
};

}  // namespace

DType promote(const std::vector<Term>& terms) {
  Group groups[3];  // tensors with dimensions, 0-dim tensors, numbers
  for (const Term& term : terms) {
    const bool number = term.is_number() || term.is_wrapped_number;
    const bool floating = is_floating(term.dtype);
    const DType dtype = number && floating ? DType::kF32 : term.dtype;
    groups[number ? 2 : term.rank() == 0 ? 1 : 0].add(dtype);
  }
  Group result;
  for (const Group& group : groups) {
    if (!group.present) continue;
    if (!result.present || category(group.dtype) > category(result.dtype)) result = group;
  }
  return result.dtype;
}

DType compute_dtype(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16 ? DType::kF32 : dtype; }

std::int64_t wrap_dim(std::int64_t dim, std::int64_t rank) {
  return dim < 0 ? dim + std::max<std::int64_t>(rank, 1) : dim;
}

}  // namespace crucible::aten
