// Test support: what random programs are built with (random_program.cpp): a pool of tensors, views of them, and ops
// that are appended.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "core/graph/random_program.hpp"
#include "core/graph/view.hpp"

namespace crucible::graph {

class RandomBuilder {
 public:
  explicit RandomBuilder(const RandomOptions& options) : options_(options), random_(options.seed * 2654435761u + 17) {}

 protected:
  using Sizes = std::vector<std::int64_t>;

  struct Tensor {
    Operand operand;
    double bound = 1;    // no element is larger in magnitude
    bool exact = false;  // the same bits in every correct execution
  };

  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }
  double real(double low, double high) {
    return low + (high - low) * (static_cast<double>(random_() >> 11) / 9007199254740992.0);
  }
  const Tensor& pick() {
    return pool_[static_cast<std::size_t>(integer(0, static_cast<std::int64_t>(pool_.size()) - 1))];
  }

  Sizes random_sizes() {
    Sizes sizes(static_cast<std::size_t>(integer(1, 4)));
    for (auto& size : sizes) size = integer(1, options_.largest_side);
    return sizes;
  }

  ValueId value(ValueKind kind, DType dtype, std::int64_t elements) {
    Value v;
    v.kind = kind;
    v.dtype = dtype;
    v.elements = elements;
    if (kind == ValueKind::kTemporary) v.producer = static_cast<OpId>(result_.program.ops.size());
    result_.program.values.push_back(v);
    result_.values.emplace_back();
    return static_cast<ValueId>(result_.program.values.size() - 1);
  }

  Tensor outside(ValueKind kind, const Sizes& sizes) {
    const View view = View::contiguous(sizes);
    const ValueId id = value(kind, DType::kF32, view.elements());
    Bytes& bytes = result_.values[id];
    bytes.resize(static_cast<std::size_t>(view.elements()) * 4);
    Numbers numbers = Numbers::zeros(DType::kF32, static_cast<std::size_t>(view.elements()));
    for (auto& number : numbers.real) number = real(-1, 1);
    store(numbers, DType::kF32, view, bytes);
    Program& program = result_.program;
    if (kind == ValueKind::kInput) program.inputs.push_back({id, {0}, false});
    if (kind == ValueKind::kConstant) program.constants.push_back({id, 0});
    if (kind == ValueKind::kState) program.states.push_back({id, id, kNone, kNone});
    return {{id, view, {}}, 1, true};
  }

  /// Emits an op with one result; its layout is sometimes a permutation of row-major.
  Operand emit(OpKind kind, std::vector<Operand> inputs, Sizes sizes, DType dtype = DType::kF32, Attributes a = {}) {
    View view = View::contiguous(sizes);
    if (kind != OpKind::kUpdate && sizes.size() > 1 && integer(0, 4) == 0) {
      std::swap(sizes.front(), sizes.back());
      view = View::contiguous(sizes);
      std::swap(view.sizes.front(), view.sizes.back());
      std::swap(view.strides.front(), view.strides.back());
    }
    if (is_reduction(kind)) {
      for (auto dim : a.dims) view.strides[static_cast<std::size_t>(dim)] = 0;
    }
    const ValueId id = value(ValueKind::kTemporary, dtype, view.elements());
    Op op;
    op.kind = kind;
    op.inputs = std::move(inputs);
    op.outputs = {{id, view, {}}};
    op.attributes = std::move(a);
    result_.program.ops.push_back(std::move(op));
    return {id, view, {}};
  }

  /// A random view of `t`: permuted, sliced, with a broadcast dimension, or as it is.
  Tensor viewed(Tensor t) {
    View& v = t.operand.view;
    const auto rank = static_cast<std::int64_t>(v.sizes.size());
    const auto dim = static_cast<std::size_t>(integer(0, rank - 1));
    switch (integer(0, 4)) {
      case 0:
        std::swap(v.sizes[dim], v.sizes[0]);
        std::swap(v.strides[dim], v.strides[0]);
        break;
      case 1: {
        const std::int64_t size = integer(1, v.sizes[dim]);
        v.offset += v.strides[dim] * integer(0, v.sizes[dim] - size);
        v.sizes[dim] = size;
        break;
      }
      case 2:
        if (rank < 4) {
          v.sizes.insert(v.sizes.begin(), integer(1, 4));
          v.strides.insert(v.strides.begin(), 0);
        }
        break;
      case 3:
        if (auto flat = reshaped(v, {v.elements()})) v = *flat;
        break;
      default:
        break;
    }
    v = normalized(v);
    return t;
  }

  /// A tensor that can be read with `sizes`: one of the pool where possible, else a new broadcast row or a scalar.
  Tensor matching(const Sizes& sizes) {
    for (int attempt = 0; attempt < 6; ++attempt) {
      const Tensor t = viewed(pick());
      if (auto view = broadcast(t.operand.view, sizes)) return {{t.operand.value, *view, {}}, t.bound, t.exact};
    }
    Sizes row(sizes.size(), 1);
    row.back() = sizes.back();
    Tensor t = outside(ValueKind::kConstant, row);
    t.operand.view = *broadcast(t.operand.view, sizes);
    return t;
  }

  /// Brings a tensor back to magnitude 1 when it has grown.
  Tensor tamed(const Tensor& t, double limit = 50) {
    if (t.bound <= limit) return t;
    return {emit(OpKind::kTanh, {t.operand}, t.operand.view.sizes), 1, false};
  }

  Operand scalar(double number) {
    Operand o;
    if (integer(0, 3) == 0) {
      o.scalar.slot = static_cast<SlotId>(integer(0, 1));
    } else {
      o.scalar.real = number;
    }
    return o;
  }

  static Operand fixed(double number) {
    Operand o;
    o.scalar.real = number;
    return o;
  }

  static Operand scalar_integer(std::int64_t number) {
    Operand o;
    o.scalar.is_integer = true;
    o.scalar.integer = number;
    return o;
  }

  Operand ids(std::int64_t count, std::int64_t rows) {
    const ValueId id = value(ValueKind::kInput, DType::kI64, count);
    Numbers numbers = Numbers::zeros(DType::kI64, static_cast<std::size_t>(count));
    for (auto& number : numbers.integer) number = integer(0, rows - 1);
    const View view = View::contiguous({count});
    result_.values[id].resize(static_cast<std::size_t>(count) * 8);
    store(numbers, DType::kI64, view, result_.values[id]);
    result_.program.inputs.push_back({id, {0}, false});
    return {id, view, {}};
  }

  Tensor exact_tensor() {
    for (int attempt = 0; attempt < 20; ++attempt) {
      if (Tensor t = viewed(pick()); t.exact) return t;
    }
    return outside(ValueKind::kConstant, random_sizes());
  }

  RandomOptions options_;
  std::mt19937_64 random_;
  RandomProgram result_;
  std::vector<Tensor> pool_;
};

}  // namespace crucible::graph
