// Which kernel a product gets, and its launches: see matrix_product.hpp. The texts are in matrix_kernel.cpp.
#include "plugins/sdk/matrix_product.hpp"

#include <algorithm>
#include <bit>
#include <string_view>

namespace crucible::sdk {
namespace {

constexpr std::uint32_t kF16 = 6, kBF16 = 7;              // DType; the numbers are part of the ABI
constexpr std::int64_t kLargeTile = 128, kSmallTile = 64;  // rows and columns
constexpr std::int64_t kUnitSide = 16;
constexpr std::int64_t kMostBlocks = 65535;  // in the second and third dimension; the kernel's loops do the rest
constexpr std::uint64_t kAccess = 16;                      // bytes

constexpr std::int64_t count_of(std::int64_t all, std::int64_t each) { return (all + each - 1) / each; }

/// One operand as the kernel takes it: `rows` times steps, or steps times columns.
struct Side {
  std::uint64_t address = 0;
  std::int64_t pitch = 0, batch_stride = 0;
  bool is_along = false;

  bool is_aligned(std::uint64_t element_bytes, std::int64_t batch) const {
    const auto step = [&](std::int64_t elements) {
      return static_cast<std::uint64_t>(elements) * element_bytes % kAccess == 0;
    };
    return address % kAccess == 0 && step(pitch) && (batch == 1 || step(batch_stride));
  }
};

std::uint64_t place_of(std::uint64_t address, std::int64_t offset, std::uint64_t element_bytes) {
  return address + static_cast<std::uint64_t>(offset) * element_bytes;
}

std::uint64_t bits(std::int64_t number) { return static_cast<std::uint64_t>(number); }

/// The kernel's result has rows side by side, so that it is the transposed one of BLAS's: its left operand is BLAS's
/// second.
MatrixLaunch launch_of(const Gemm& gemm, const Gemm::Place& place, const std::uint64_t* addresses,
                       std::uint64_t units) {
  const std::uint64_t bytes = gemm.element_bytes();
  const Side left = {place_of(addresses[gemm.y_view()], place.y, bytes), gemm.y.pitch, gemm.y.batch_stride,
                     !gemm.y.transposed};
  const Side right = {place_of(addresses[gemm.x_view()], place.x, bytes), gemm.x.pitch, gemm.x.batch_stride,
                      gemm.x.transposed};
  const std::int64_t rows = gemm.n, columns = gemm.m;
  MatrixLaunch launch;
  launch.variant.is_bf16 = gemm.dtype == kBF16;
  launch.variant.left_is_along = left.is_along;
  launch.variant.right_is_along = right.is_along;
  launch.variant.is_aligned = left.is_aligned(bytes, gemm.batch) && right.is_aligned(bytes, gemm.batch);
  launch.variant.keeps_f32 = gemm.keeps_f32;
  launch.variant.has_bias = gemm.has_epilogue();
  launch.variant.has_relu = gemm.epilogue == CRUCIBLE_EPILOGUE_BIAS_RELU;
  const std::int64_t large = count_of(rows, kLargeTile) * count_of(columns, kLargeTile) * gemm.batch;
  launch.variant.has_large_tiles = large >= 2 * static_cast<std::int64_t>(units);
  const std::int64_t tile = launch.variant.has_large_tiles ? kLargeTile : kSmallTile;
  launch.threads = launch.variant.has_large_tiles ? 256 : 128;
  launch.blocks = {static_cast<std::uint32_t>(count_of(columns, tile)),
                   static_cast<std::uint32_t>(std::min(count_of(rows, tile), kMostBlocks)),
                   static_cast<std::uint32_t>(std::min(gemm.batch, kMostBlocks))};
  launch.arguments = {left.address, right.address, place_of(addresses[2], place.d, gemm.element_bytes(2)),
                      bits(rows), bits(columns), bits(gemm.k), bits(gemm.batch),
                      bits(left.pitch), bits(right.pitch), bits(gemm.d.pitch),
                      bits(left.batch_stride), bits(right.batch_stride), bits(gemm.d.batch_stride),
                      std::bit_cast<std::uint64_t>(gemm.alpha),
                      gemm.has_epilogue() ? place_of(addresses[3], gemm.bias, bytes) : 0};
  return launch;
}

}  // namespace

MatrixUnit matrix_unit_of_amd(const std::string& architecture) {
  const std::string_view name = std::string_view(architecture).substr(0, architecture.find(':'));
  if (name == "gfx90a" || name.starts_with("gfx94")) return MatrixUnit::kMfma;
  if (name == "gfx908") return MatrixUnit::kMfmaOfF16;
  return name.starts_with("gfx11") && name.size() == 7 ? MatrixUnit::kWmma : MatrixUnit::kNone;
}

MatrixUnit matrix_unit_of_nvidia(int capability) { return capability >= 80 ? MatrixUnit::kMma : MatrixUnit::kNone; }

std::string_view name_of(MatrixUnit unit) {
  switch (unit) {
    case MatrixUnit::kMma:
      return "mma (f16, bf16)";
    case MatrixUnit::kMfma:
      return "mfma (f16, bf16)";
    case MatrixUnit::kMfmaOfF16:
      return "mfma (f16)";
    case MatrixUnit::kWmma:
      return "wmma (f16, bf16)";
    case MatrixUnit::kNone:
      break;
  }
  return "none";
}

std::uint64_t wave_of(MatrixUnit unit) {
  if (unit == MatrixUnit::kNone) return 0;
  return unit == MatrixUnit::kMma || unit == MatrixUnit::kWmma ? 32 : 64;
}

std::array<void*, kMatrixArguments> MatrixLaunch::places() const {
  std::array<void*, kMatrixArguments> all;
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = const_cast<std::uint64_t*>(&arguments[i]);
  return all;
}

std::string matrix_refusal(const Gemm& gemm, MatrixUnit unit) {
  if (unit == MatrixUnit::kNone) return "matmul: the device has no matrix units that kernels are generated for";
  if (gemm.dtype != kF16 && gemm.dtype != kBF16)
    return "matmul: kernels for matrix units are generated for f16 and bf16 alone";
  if (gemm.m < kUnitSide || gemm.n < kUnitSide || gemm.k < kUnitSide)
    return "matmul: fewer than 16 rows, columns or steps: matrix units would mostly multiply zeros";
  if (gemm.epilogue == CRUCIBLE_EPILOGUE_BIAS_GELU)
    return "matmul: kernels for matrix units have the epilogues bias and bias with ReLU";
  if (unit == MatrixUnit::kMfmaOfF16 && gemm.dtype == kBF16)
    return "matmul: the device's matrix units do not take bf16";
  return "";
}

std::vector<MatrixLaunch> matrix_launches(const Gemm& gemm, const std::uint64_t* addresses, std::uint64_t units) {
  std::vector<MatrixLaunch> all;
  all.reserve(gemm.places.size());
  for (const Gemm::Place& place : gemm.places) all.push_back(launch_of(gemm, place, addresses, units));
  return all;
}

}  // namespace crucible::sdk
