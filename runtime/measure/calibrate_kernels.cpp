// See calibrate_kernels.hpp. The numbers of elements are constants of the text, so that compilers see the trip counts
// that a program's kernels have; the number of passes is not, so that no pass can be left out.
#include "runtime/measure/calibrate_kernels.hpp"

#include <vector>

#include "core/kernel/ir/ir_builder.hpp"
#include "core/kernel/ir/read_ir.hpp"

namespace crucible::runtime {
namespace {

using kernel::BufferId;
using kernel::ExprId;
using kernel::IrBuilder;
using kernel::LoopMode;
using kernel::Operation;

constexpr std::int64_t kMostPasses = std::int64_t{1} << 40;
constexpr std::int64_t kTouchStride = 16;  // a cache line of 64 bytes: items do not share one

ExprId passes(IrBuilder& b) { return b.let(b.guard(b.scalar(b.add_scalar(), DType::kI64), 0, kMostPasses)); }

/// x * 0.5 + 1: tends to 2 from any start, so nothing overflows and nothing gets subnormal.
ExprId step(IrBuilder& b, ExprId x) {
  const ExprId half = b.binary(Operation::kMultiply, x, b.real(0.5, DType::kF32));
  return b.binary(Operation::kAdd, half, b.real(1, DType::kF32));
}

/// The index of element `i` of an item.
ExprId index_of(IrBuilder& b, ExprId item, ExprId i, std::int64_t items, std::int64_t elements_per_item, Walk walk) {
  return walk == Walk::kPieces ? b.add(b.multiply(item, elements_per_item), i) : b.add(item, b.multiply(i, items));
}

LoopMode inner(Walk walk) { return walk == Walk::kPieces ? LoopMode::kVector : LoopMode::kSerial; }

}  // namespace

CalibrationKernel read_kernel(std::string name, std::int64_t items, std::int64_t elements_per_item, Walk walk) {
  IrBuilder b;
  const BufferId x = b.add_buffer(DType::kF32, false), out = b.add_buffer(DType::kF32, true);
  const ExprId count = passes(b);
  const ExprId item = b.open_grid(LoopMode::kSerial);
  const kernel::VariableId sum = b.declare(b.real(0, DType::kF32));
  b.open_for(b.integer(0), count, LoopMode::kSerial);
  const ExprId i = b.open_for(b.integer(0), b.integer(elements_per_item), inner(walk));
  const ExprId value = b.let(b.load(x, index_of(b, item, i, items, elements_per_item, walk)));
  b.set(sum, b.add(b.variable(sum), value));
  b.close();
  b.close();
  b.store(out, item, b.variable(sum));
  b.close();
  return {std::move(name), b.finish(), items, items * elements_per_item, items};
}

CalibrationKernel update_kernel(std::string name, std::int64_t items, std::int64_t elements_per_item, Walk walk) {
  IrBuilder b;
  const BufferId x = b.add_buffer(DType::kF32, true);
  const ExprId count = passes(b);
  const ExprId item = b.open_grid(LoopMode::kSerial);
  b.open_for(b.integer(0), count, LoopMode::kSerial);
  const ExprId i = b.open_for(b.integer(0), b.integer(elements_per_item), inner(walk));
  const ExprId at = b.let(index_of(b, item, i, items, elements_per_item, walk));
  const ExprId value = b.let(b.load(x, at));
  b.store(x, at, b.let(step(b, value)));
  b.close();
  b.close();
  b.close();
  return {std::move(name), b.finish(), items, items * elements_per_item, 0};
}

CalibrationKernel multiply_add_kernel(std::string name, std::int64_t items, std::int64_t lanes) {
  IrBuilder b;
  const BufferId out = b.add_buffer(DType::kF32, true);
  const kernel::ArrayId array = b.add_array(DType::kF32, lanes);
  const ExprId count = passes(b);
  const ExprId item = b.open_grid(LoopMode::kSerial);
  ExprId lane = b.open_for(b.integer(0), b.integer(lanes), LoopMode::kVector);
  b.store_element(array, lane, b.convert(lane, DType::kF32));
  b.close();
  b.open_for(b.integer(0), count, LoopMode::kSerial);
  lane = b.open_for(b.integer(0), b.integer(lanes), LoopMode::kVector);
  b.store_element(array, lane, b.let(step(b, b.let(b.element(array, lane)))));
  b.close();
  b.close();
  lane = b.open_for(b.integer(0), b.integer(lanes), LoopMode::kVector);
  b.store(out, b.add(b.multiply(item, lanes), lane), b.let(b.element(array, lane)));
  b.close();
  b.close();
  return {std::move(name), b.finish(), items, items * lanes, 0};
}

CalibrationKernel touch_kernel(std::string name, std::int64_t items) {
  IrBuilder b;
  const BufferId x = b.add_buffer(DType::kF32, true);
  passes(b);
  const ExprId item = b.open_grid(LoopMode::kSerial);
  const ExprId at = b.let(b.multiply(item, kTouchStride));
  const ExprId value = b.let(b.load(x, at));
  b.store(x, at, b.let(step(b, value)));
  b.close();
  return {std::move(name), b.finish(), items, items * kTouchStride, 0};
}

Result<backend::KernelSource> source_of(const CalibrationKernel& kernel) {
  std::vector<std::int64_t> sizes = {kernel.elements};
  if (kernel.ir.buffers.size() > 1) sizes.push_back(kernel.results);
  CRUCIBLE_TRY_VOID(kernel::verify_kernel(kernel.ir, sizes, kernel.items));
  return backend::KernelSource{kernel.name, "", kernel::serialize_ir(kernel.ir)};
}

}  // namespace crucible::runtime
