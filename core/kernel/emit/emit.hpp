// From a unit of the program (fusion.hpp) to a kernel in the IR with the buffers and scalars of its launch. One emitter
// per kind of op: emit_group.cpp for fused nests, emit_indexed.cpp, emit_put.cpp, emit_along.cpp, emit_pool.cpp,
// emit_factor.cpp, emit_matmul.cpp and emit_conv.cpp for the rest. They write IR only; printing, naming and the order
// of steps are schedule.cpp's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "core/graph/program.hpp"
#include "core/kernel/emit/device_shape.hpp"
#include "core/kernel/fuse/fusion.hpp"
#include "core/kernel/ir/ir_builder.hpp"

namespace crucible::kernel {

/// A result that may be written over an operand: every read of the operand in the kernel is at the index that the
/// result is written to, and not after that write.
struct AliasPair {
  graph::ValueId operand = graph::kNone;
  graph::ValueId result = graph::kNone;
};

/// A kernel and how to launch it.
struct Emitted {
  KernelIr ir;
  std::vector<graph::ValueId> values;  // per buffer of the IR
  std::vector<graph::Scalar> scalars;
  std::int64_t grid = 1;
  double item_ns = 0;  // estimated time of a work item
  std::uint64_t flops = 0;
  std::vector<AliasPair> aliases;
  std::vector<ProductCut>
      cuts;  // of a product by tiles, best score first; the kernel is of the one that DeviceShape::cut says
};

/// Binds values and scalars of the program to buffers and scalar arguments of one kernel.
class Binder {
 public:
  Binder(const graph::Program& program, IrBuilder& builder) : program_(program), builder_(builder) {}
  BufferId buffer(graph::ValueId value, bool written);
  /// The scalar as a number of type `type` in block 0: a constant when it is fixed, an argument when it is a slot.
  ExprId scalar(const graph::Scalar& scalar, DType type);
  const std::vector<graph::ValueId>& values() const { return values_; }
  const std::vector<graph::Scalar>& scalars() const { return scalars_; }

 private:
  const graph::Program& program_;
  IrBuilder& builder_;
  std::vector<graph::ValueId> values_;
  std::vector<graph::Scalar> scalars_;
};

/// The type in which arithmetic on `type` happens: f32 for f16 and bf16, else itself.
constexpr DType compute_type(DType type) { return type == DType::kF16 || type == DType::kBF16 ? DType::kF32 : type; }

/// `value` as `type`, the way a store and a load of that type would change it; f16 and bf16 are rounded and stay f32.
ExprId rounded_to(IrBuilder& builder, ExprId value, DType type);

/// Loads an element and widens it to its compute type.
ExprId load_value(IrBuilder& builder, BufferId buffer, ExprId index, std::size_t depth);

/// `value` (of the compute type) converted to what a buffer of `type` holds.
ExprId storable(IrBuilder& builder, ExprId value, DType type);

/// The result of an element-wise op from operands in their compute types, in the compute type of `out`, rounded to
/// `out`.
ExprId emit_elementwise(IrBuilder& builder, graph::OpKind kind, DType out, std::span<const ExprId> inputs);

/// How the operands of a group's member are had at the present point.
struct PointValues {
  std::function<ExprId(const Access&)> value;  // of a value, in its compute type
  std::function<ExprId(const Access&)> index;  // of a coordinate: i64
};

/// Operand `i` of an element-wise member, rounded to the type that the op works in if that is narrower than its own.
ExprId member_input(const graph::Program& program, Binder& binder, IrBuilder& builder, const Member& member,
                    std::size_t i, const PointValues& values);
/// The same of an operand that is a fill or a coordinate.
ExprId generated_input(const graph::Program& program, Binder& binder, IrBuilder& builder, const Member& member,
                       std::size_t i, const PointValues& values);

/// What becomes of a product's result (epilogue.hpp): a group that has the product as a member, and those of its values
/// that others need.
struct Epilogue {
  const Group& group;
  const std::set<graph::ValueId>& stored;
};

/// A fused group. `stored` are its values that others need; `lanes` are the device's (DeviceShape).
Emitted emit_group(const graph::Program& program, const Group& group, const std::set<graph::ValueId>& stored,
                   int lanes);

/// `lanes`, here and below: the device's (DeviceShape); no bit depends on them.
Emitted emit_scatter_add_rows(const graph::Program& program, const graph::Op& op, int lanes);
Emitted emit_arg_reduction(const graph::Program& program, const graph::Op& op);
Emitted emit_scan(const graph::Program& program, const graph::Op& op);
Emitted emit_sort(const graph::Program& program, const graph::Op& op);
Emitted emit_factorization(const graph::Program& program, const graph::Op& op);
Emitted emit_concat(const graph::Program& program, const graph::Op& op);
Emitted emit_update(const graph::Program& program, const graph::Op& op, int lanes);
Emitted emit_put(const graph::Program& program, const graph::Op& op);
Emitted emit_max_pool(const graph::Program& program, const graph::Op& op, int lanes);
Emitted emit_max_pool_backward(const graph::Program& program, const graph::Op& op, int lanes);
/// Fast: few products are dot products in any order. `device`, here and below: as in Options (schedule.hpp).
/// `epilogue`: null for none, and only for ops that take one.
Emitted emit_matmul(const graph::Program& program, const graph::Op& op, Numerics numerics, const DeviceShape& device,
                    const Epilogue* epilogue);
Emitted emit_conv2d(const graph::Program& program, const graph::Op& op, const DeviceShape& device,
                    const Epilogue* epilogue);
Emitted emit_conv2d_backward_input(const graph::Program& program, const graph::Op& op, const DeviceShape& device,
                                   const Epilogue* epilogue);
Emitted emit_conv2d_backward_weight(const graph::Program& program, const graph::Op& op, const DeviceShape& device,
                                    const Epilogue* epilogue);

/// Index of a point of a view: offset + sum(index * stride), dimensions of size 1 left out.
ExprId view_index(IrBuilder& builder, const graph::View& view, std::span<const ExprId> point);

/// Splits a linear index into one per size, outermost first; bound to variables in the innermost block.
std::vector<ExprId> split_index(IrBuilder& builder, ExprId index, std::span<const std::int64_t> sizes);

}  // namespace crucible::kernel
