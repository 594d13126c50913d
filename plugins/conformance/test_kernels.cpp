// The kit's own kernels, each of which shows one thing about how a plugin launches.
#include <functional>

#include "core/kernel/ir/ir_builder.hpp"
#include "plugins/conformance/opened.hpp"
#include "plugins/kernel_ir/serialize.hpp"

namespace crucible::conformance {
namespace {

using kernel::ExprId;
using kernel::IrBuilder;
using kernel::LoopMode;
using kernel::Operation;

/// A kernel whose body is done for each work item.
std::vector<std::byte> over_grid(const std::function<void(IrBuilder&, ExprId)>& body,
                                 const std::function<void(IrBuilder&)>& declare) {
  IrBuilder b;
  declare(b);
  const ExprId item = b.open_grid(LoopMode::kSerial);
  body(b, item);
  b.close();
  return kernel::serialize_ir(b.finish());
}

/// Every work item exactly once, and no other.
std::vector<std::byte> count() {
  return over_grid([](IrBuilder& b, ExprId i) { b.store(0, i, b.add(b.let(b.load(0, i)), b.integer(1, DType::kI32))); },
                   [](IrBuilder& b) { b.add_buffer(DType::kI32, true); });
}

void out_and_in(IrBuilder& b, DType type) {
  b.add_buffer(type, true);
  b.add_buffer(type, false);
}

/// out = in * s0 + s1, in double: the scalars arrive whole.
std::vector<std::byte> scale() {
  return over_grid(
      [](IrBuilder& b, ExprId i) {
        const ExprId product = b.binary(Operation::kMultiply, b.let(b.load(1, i)), b.scalar(0, DType::kF64));
        b.store(0, i, b.add(product, b.scalar(1, DType::kF64)));
      },
      [](IrBuilder& b) {
        out_and_in(b, DType::kF64);
        b.add_scalar();
        b.add_scalar();
      });
}

/// out = in backwards, of s0 elements: an op that runs before the one before it has ended reads old values.
std::vector<std::byte> reverse() {
  return over_grid(
      [](IrBuilder& b, ExprId i) {
        const ExprId last =
            b.binary(Operation::kSubtract, b.convert(b.scalar(0, DType::kF64), DType::kI64), b.integer(1));
        b.store(0, i, b.add(b.let(b.load(1, b.binary(Operation::kSubtract, last, i))), b.real(1, DType::kF64)));
      },
      [](IrBuilder& b) {
        out_and_in(b, DType::kF64);
        b.add_scalar();
      });
}

/// The bits of the scalars as they arrive.
template <DType type>
std::vector<std::byte> scalars() {
  return over_grid(
      [](IrBuilder& b, ExprId i) {
        for (std::uint32_t k = 0; k < kTestScalars; ++k) {
          b.open_if(b.binary(Operation::kEqual, i, b.integer(k)));
          b.store(0, i, b.scalar(k, type));
          b.close();
        }
      },
      [](IrBuilder& b) {
        b.add_buffer(type, true);
        for (std::uint32_t k = 0; k < kTestScalars; ++k) b.add_scalar(type);
      });
}

/// f32: in * 2^-10, so that the smallest normal numbers become subnormal.
std::vector<std::byte> tiny() {
  return over_grid(
      [](IrBuilder& b, ExprId i) {
        b.store(0, i, b.binary(Operation::kMultiply, b.let(b.load(1, i)), b.real(0x1p-10, DType::kF32)));
      },
      [](IrBuilder& b) { out_and_in(b, DType::kF32); });
}

/// Eight buffers in their order.
std::vector<std::byte> sum8() {
  return over_grid(
      [](IrBuilder& b, ExprId i) {
        ExprId sum = b.integer(0);
        for (std::uint32_t buffer = 1; buffer < 8; ++buffer) sum = b.add(b.multiply(sum, 10), b.let(b.load(buffer, i)));
        b.store(0, i, sum);
      },
      [](IrBuilder& b) {
        for (int buffer = 0; buffer < 8; ++buffer) b.add_buffer(DType::kI64, buffer == 0);
      });
}

/// Some work: s0 rounds of a dependent product.
std::vector<std::byte> spin() {
  return over_grid(
      [](IrBuilder& b, ExprId i) {
        const kernel::VariableId x = b.declare(b.real(1, DType::kF64));
        b.open_for(b.integer(0), b.convert(b.scalar(0, DType::kF64), DType::kI64), LoopMode::kSerial);
        b.set(x, b.add(b.binary(Operation::kMultiply, b.variable(x), b.real(0.999999, DType::kF64)),
                       b.real(1e-9, DType::kF64)));
        b.close();
        b.store(0, i, b.variable(x));
      },
      [](IrBuilder& b) {
        b.add_buffer(DType::kF64, true);
        b.add_scalar();
      });
}

}  // namespace

const std::vector<kernel::Kernel>& test_kernels() {
  static const std::vector<kernel::Kernel> kernels = {
      {"ck_count", count()},
      {"ck_scale", scale()},
      {"ck_reverse", reverse()},
      {"ck_scalars", scalars<DType::kF64>()},
      {"ck_integers", scalars<DType::kI64>()},
      {"ck_tiny", tiny()},
      {"ck_sum8", sum8()},
      {"ck_spin", spin()},
  };
  return kernels;
}

kernel::Kernel writing_kernel(std::string name, std::int64_t number) {
  return {std::move(name), over_grid([&](IrBuilder& b, ExprId i) { b.store(0, i, b.integer(number, DType::kI32)); },
                                     [](IrBuilder& b) { b.add_buffer(DType::kI32, true); })};
}

kernel::Kernel adding_kernel(std::string name, DType stored, DType computed) {
  return {std::move(name), over_grid(
                               [&](IrBuilder& b, ExprId i) {
                                 const ExprId sum = b.add(b.scalar(0, computed), b.scalar(1, computed));
                                 b.store(0, i, b.convert(sum, stored));
                               },
                               [&](IrBuilder& b) {
                                 b.add_buffer(stored, true);
                                 b.add_scalar();
                                 b.add_scalar();
                               })};
}

}  // namespace crucible::conformance
