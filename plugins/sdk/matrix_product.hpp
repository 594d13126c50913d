// Products of f16 and bf16 matrices by generated kernels for a GPU's matrix units: what a plugin runs where no library
// takes a product. One text per type, layout of the operands and size of the tiles; sizes, pitches and addresses are
// arguments, so that a program's products share few kernels. The units add in f32 and in an order of their own: these
// are kernels of fast mode.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugins/sdk/c_dialect.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/gemm.hpp"
#include "plugins/sdk/thread_kernel.hpp"

namespace crucible::sdk {

/// What one instruction of a wave multiplies: 16 rows by 16 steps.
enum class MatrixUnit : std::uint8_t {
  kNone,
  kMma,        // NVIDIA, compute capability 8.0 and later: mma.m16n8k16
  kMfma,       // AMD gfx90a and gfx94x: mfma 16x16x16
  kMfmaOfF16,  // AMD gfx908: the same, of f16 alone
  kWmma,       // AMD gfx11: wmma 16x16x16, waves of 32
};

/// Of "gfx942:sramecc+:xnack-" or another architecture that AMD's compilers name.
MatrixUnit matrix_unit_of_amd(const std::string& architecture);
/// Of 90: compute capability 9.0.
MatrixUnit matrix_unit_of_nvidia(int capability);

/// What is in a kernel's text and not among its arguments.
struct MatrixVariant {
  bool is_bf16 = false;                           // else f16
  bool keeps_f32 = false;                         // what it stores is f32
  bool left_is_along = false, right_is_along = false;  // the steps of an operand lie side by side
  bool is_aligned = false;                        // eight elements side by side are one access
  bool has_large_tiles = false;
  bool has_bias = false, has_relu = false;  // the second with the first alone
  auto operator<=>(const MatrixVariant&) const = default;
};

inline constexpr std::size_t kMatrixArguments = 15;

/// One launch, of `blocks` in three dimensions. The arguments are eight bytes each.
struct MatrixLaunch {
  MatrixVariant variant;
  std::array<std::uint32_t, 3> blocks = {1, 1, 1};
  std::uint32_t threads = 1;
  std::array<std::uint64_t, kMatrixArguments> arguments = {};

  /// As drivers take them, which read them alone; valid while this lives and does not move.
  std::array<void*, kMatrixArguments> places() const;
};

/// "mma (f16, bf16)"; "none".
std::string_view name_of(MatrixUnit unit);
/// Threads of the wave that one instruction is of; 0 of none.
std::uint64_t wave_of(MatrixUnit unit);

/// What `unit` does not take, as "matmul: ..."; "" where it takes the product.
std::string matrix_refusal(const Gemm& gemm, MatrixUnit unit);

/// The launches of a product that a unit takes, one for each place. `addresses` are those of the description's buffers;
/// `units` multiprocessors share a launch.
std::vector<MatrixLaunch> matrix_launches(const Gemm& gemm, const std::uint64_t* addresses, std::uint64_t units);

/// The kernel of a variant, alone in its text, its one name in `names`. `dialect` is that of CUDA or HIP, as the unit
/// is NVIDIA's or AMD's.
KernelBatch write_matrix_kernel(const MatrixVariant& variant, MatrixUnit unit, const Dialect& dialect);

/// The products of one device: its kernels, each built when a product first needs it. `Kernel` has `function`, as the
/// driver launches it, and owns what that lies in. Threads: any.
template <class Kernel>
class MatrixProducts {
 public:
  struct Call {
    decltype(Kernel::function) function;
    MatrixLaunch launch;
  };
  using Build = std::function<Kernel(const KernelBatch&)>;

  /// `multiprocessors` share a launch; `dialect` has static storage.
  MatrixProducts(MatrixUnit unit, const Dialect& dialect, std::uint64_t multiprocessors, Build build)
      : unit_(unit), dialect_(dialect), multiprocessors_(multiprocessors), build_(std::move(build)) {}

  /// The launches of a product; `addresses` are those of the description's buffers. Errors: UNSUPPORTED with
  /// matrix_refusal(); those of `build`.
  std::vector<Call> calls(const Gemm& gemm, const std::uint64_t* addresses) {
    if (const std::string refusal = matrix_refusal(gemm, unit_); !refusal.empty())
      throw Failure(CRUCIBLE_E_UNSUPPORTED, refusal);
    std::vector<Call> all;
    for (MatrixLaunch& launch : matrix_launches(gemm, addresses, multiprocessors_)) {
      const auto function = find(launch.variant);
      all.push_back({function, std::move(launch)});
    }
    return all;
  }
  /// Builds what a product needs whose buffers begin at multiples of 16 bytes. Errors: those of calls().
  void prepare(const Gemm& gemm) {
    constexpr std::uint64_t kAligned[4] = {0, 0, 0, 0};
    (void)calls(gemm, kAligned);
  }
  MatrixUnit unit() const { return unit_; }

 private:
  decltype(Kernel::function) find(const MatrixVariant& variant) {
    const std::lock_guard lock(mutex_);
    auto found = kernels_.find(variant);
    if (found == kernels_.end())
      found = kernels_.emplace(variant, build_(write_matrix_kernel(variant, unit_, dialect_))).first;
    return found->second.function;
  }

  const MatrixUnit unit_;
  const Dialect& dialect_;
  const std::uint64_t multiprocessors_;
  const Build build_;
  std::mutex mutex_;  // of what is below
  std::map<MatrixVariant, Kernel> kernels_;
};

/// The scratch of a product: the library's, as `library` gives it for the description, where that takes the product;
/// else none, and its kernels are built. An epilogue alone is no reason to leave a library that does the product.
/// Errors: UNSUPPORTED with both reasons; others of either.
template <class Kernel, class Library>
std::uint64_t claim_product(const Gemm& gemm, MatrixProducts<Kernel>& kernels, Library library) {
  std::string refusal, own_refusal;
  if (const std::optional<std::uint64_t> scratch_bytes = if_supported(refusal, [&] { return library(gemm); }))
    return *scratch_bytes;
  if (gemm.has_epilogue()) {
    Gemm plain = gemm;
    plain.epilogue = CRUCIBLE_EPILOGUE_NONE;
    if (if_supported(own_refusal, [&] { return library(plain); }))
      throw Failure(CRUCIBLE_E_UNSUPPORTED, refusal + "; it does the product without");
  }
  if (if_supported(own_refusal, [&] { return kernels.prepare(gemm), true; })) return 0;
  throw Failure(CRUCIBLE_E_UNSUPPORTED, refusal + "; " + own_refusal);
}

/// The calls of a plan's products that the library does not take, by op: `list` is an OpList, `library` as above.
/// Errors: those of calls(); others than UNSUPPORTED of the library.
template <class Kernel, class List, class Library>
std::map<std::size_t, std::vector<typename MatrixProducts<Kernel>::Call>> calls_without_library(
    const List& list, MatrixProducts<Kernel>& kernels, Library library) {
  std::map<std::size_t, std::vector<typename MatrixProducts<Kernel>::Call>> all;
  for (std::size_t i = 0; i < list.ops.size(); ++i) {
    const auto& op = list.ops[i];
    std::string refusal;
    if (op.product == nullptr || if_supported(refusal, [&] { return library(*op.product); })) continue;
    all[i] = kernels.calls(*op.product, op.addresses.data());
  }
  return all;
}

}  // namespace crucible::sdk
