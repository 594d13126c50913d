// Matrix products by cuBLASLt: see cublas.hpp. Every descriptor and the algorithm belong to a shape, an alignment and a
// limit of scratch, and are made once for each.
#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "backends/nvidia/cublas.hpp"
#include "backends/nvidia/device.hpp"
#include "backends/nvidia/options.hpp"
#include "plugins/sdk/error.hpp"

namespace crucible_nvidia {

using namespace crucible;

namespace {

constexpr std::uint64_t kScratchAlignment = 256;  // the host's planner gives it
constexpr int kMostAlgorithms = 8;                // that are asked for
constexpr int kTimes = 3;                         // that each runs to be measured, after once without

/// An object of the library, given back with `Destroy`, a member of CublasLt.
template <class Handle, auto Destroy>
class Described {
 public:
  explicit Described(const CublasLt& cublas) : cublas_(cublas) {}
  ~Described() {
    if (handle != nullptr) (void)(cublas_.*Destroy)(handle);
  }
  Described(const Described&) = delete;
  Described& operator=(const Described&) = delete;
  Handle handle = nullptr;

 private:
  const CublasLt& cublas_;
};
using Operation = Described<cublasLtMatmulDesc_t, &CublasLt::cublasLtMatmulDescDestroy>;
using Layout = Described<cublasLtMatrixLayout_t, &CublasLt::cublasLtMatrixLayoutDestroy>;
using Preference = Described<cublasLtMatmulPreference_t, &CublasLt::cublasLtMatmulPreferenceDestroy>;

/// DType's numbers, which are part of the ABI.
struct Types {
  int data, compute, scale;
};
Types types_of(std::uint32_t dtype, bool allows_tf32) {
  if (dtype == 6) return {CUDA_R_16F, CUBLAS_COMPUTE_32F, CUDA_R_32F};
  if (dtype == 7) return {CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F};
  if (dtype == 9) return {CUDA_R_64F, CUBLAS_COMPUTE_64F, CUDA_R_64F};
  return {CUDA_R_32F, allows_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F};
}

std::uint32_t epilogue_of(std::uint32_t epilogue) {
  if (epilogue == CRUCIBLE_EPILOGUE_BIAS_RELU) return CUBLASLT_EPILOGUE_RELU_BIAS;
  return epilogue == CRUCIBLE_EPILOGUE_BIAS_GELU ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
}

/// Of the description's views, and of the bias.
using Alignments = std::array<std::uint64_t, 4>;
Alignments alignments_of(const sdk::Gemm& gemm, const std::uint64_t* addresses) {
  Alignments alignments = {};
  for (std::uint32_t view = 0; view < gemm.buffers(); ++view) {
    alignments[view] = sdk::gemm_alignment(gemm, static_cast<int>(view), addresses == nullptr ? 0 : addresses[view]);
  }
  return alignments;
}

/// A number in the type that the library scales with.
struct Scale {
  Scale(double value, std::uint32_t dtype) : wide(value), narrow(static_cast<float>(value)), is_wide(dtype == 9) {}
  const void* place() const { return is_wide ? static_cast<const void*>(&wide) : &narrow; }
  double wide;
  float narrow;
  bool is_wide;
};

}  // namespace

struct Products::Call {
  explicit Call(const CublasLt& cublas) : operation(cublas), x(cublas), y(cublas), d(cublas) {}
  struct Algorithm {
    cublasLtMatmulAlgo_t how = {};
    std::uint64_t scratch_bytes = 0;
  };
  Operation operation;
  Layout x, y, d;
  std::vector<Algorithm> algorithms;  // the best first, which is the one that runs
  std::string refusal;                // why there is none

  std::uint64_t scratch_bytes() const { return algorithms.front().scratch_bytes; }
};

Products::Products(crucible_device& device, const CublasLt& cublas) : device_(device), cublas_(cublas) {
  most_scratch_ = options().get_u64("blas_workspace_mib") << 20;
  allows_tf32_ = options().get_bool("tf32");
  measures_ = options().get_bool("measure_products");
  const cublasStatus_t status = cublas.cublasLtCreate(&handle_);
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE,
                     cublas.describe() + " (" + cublas.file + ") does not start on " + device.facts.id +
                         ": cublasLtCreate: " + cublas.cublasLtGetStatusName(status),
                     {{"vendor.code", std::to_string(status)}, {"where", cublas.file}});
}

Products::~Products() {
  calls_.clear();
  if (handle_ != nullptr) (void)cublas_.cublasLtDestroy(handle_);
}

std::unique_ptr<Products::Call> Products::make(const sdk::Gemm& gemm, const std::uint64_t* alignments,
                                               std::uint64_t most_scratch) const {
  const CublasLt& lt = cublas_;
  const Types types = types_of(gemm.dtype, allows_tf32_);
  auto call = std::make_unique<Call>(lt);
  lt.check(lt.cublasLtMatmulDescCreate(&call->operation.handle, types.compute, types.scale),
           "cublasLtMatmulDescCreate");
  const auto transpose = [&](int attribute, bool transposed) {
    const std::int32_t value = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    lt.check(lt.cublasLtMatmulDescSetAttribute(call->operation.handle, attribute, &value, sizeof(value)),
             "cublasLtMatmulDescSetAttribute");
  };
  transpose(CUBLASLT_MATMUL_DESC_TRANSA, gemm.x.transposed);
  transpose(CUBLASLT_MATMUL_DESC_TRANSB, gemm.y.transposed);
  if (gemm.has_epilogue()) {
    const std::uint32_t epilogue = epilogue_of(gemm.epilogue);
    lt.check(lt.cublasLtMatmulDescSetAttribute(call->operation.handle, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                               sizeof(epilogue)),
             "cublasLtMatmulDescSetAttribute of the epilogue");
    set_bias(*call, alignments[3]);  // any place that lies as well: heuristics look at the address alone
  }
  /// Rows and columns are those that the operand has before it is transposed.
  const auto lay_out = [&](Layout& layout, const sdk::GemmOperand& operand, int type, std::int64_t rows,
                           std::int64_t columns) {
    if (operand.transposed) std::swap(rows, columns);
    lt.check(lt.cublasLtMatrixLayoutCreate(&layout.handle, type, static_cast<std::uint64_t>(rows),
                                           static_cast<std::uint64_t>(columns), operand.pitch),
             "cublasLtMatrixLayoutCreate");
    if (gemm.batch == 1) return;
    const auto count = static_cast<std::int32_t>(gemm.batch);
    lt.check(
        lt.cublasLtMatrixLayoutSetAttribute(layout.handle, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)),
        "cublasLtMatrixLayoutSetAttribute");
    lt.check(lt.cublasLtMatrixLayoutSetAttribute(layout.handle, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                 &operand.batch_stride, sizeof(operand.batch_stride)),
             "cublasLtMatrixLayoutSetAttribute");
  };
  lay_out(call->x, gemm.x, types.data, gemm.m, gemm.k);
  lay_out(call->y, gemm.y, types.data, gemm.k, gemm.n);
  lay_out(call->d, gemm.d, gemm.keeps_f32 ? static_cast<int>(CUDA_R_32F) : types.data, gemm.m, gemm.n);
  Preference preference(lt);
  lt.check(lt.cublasLtMatmulPreferenceCreate(&preference.handle), "cublasLtMatmulPreferenceCreate");
  const auto prefer = [&](int attribute, const auto& value) {
    lt.check(lt.cublasLtMatmulPreferenceSetAttribute(preference.handle, attribute, &value, sizeof(value)),
             "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_scratch);
  // Partial sums of f16 and bf16 are never added up in the result's own type.
  if (gemm.element_bytes() == 2)
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
  const auto align = [&](int attribute, int view) { prefer(attribute, static_cast<std::uint32_t>(alignments[view])); };
  align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, gemm.x_view());
  align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, gemm.y_view());
  align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 2);
  align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 2);
  std::array<cublasLtMatmulHeuristicResult_t, kMostAlgorithms> results = {};
  int count = 0;
  const cublasStatus_t status =
      lt.cublasLtMatmulAlgoGetHeuristic(handle_, call->operation.handle, call->x.handle, call->y.handle, call->d.handle,
                                        call->d.handle, preference.handle, kMostAlgorithms, results.data(), &count);
  const bool is_unsupported = status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH;
  if (!is_unsupported) lt.check(status, "cublasLtMatmulAlgoGetHeuristic of " + gemm.shape());
  for (int i = 0; !is_unsupported && i < std::min(count, kMostAlgorithms); ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[static_cast<std::size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= most_scratch)
      call->algorithms.push_back({result.algo, result.workspaceSize});
  }
  if (call->algorithms.empty()) {
    call->refusal = "matmul: " + lt.describe() + " has no algorithm for " + gemm.shape() + " with " +
                    std::to_string(most_scratch) + " bytes of workspace";
  } else if (measures_ && call->algorithms.size() > 1) {
    measure(gemm, *call);
  }
  return call;
}

/// In memory of its own: when a product is asked for, its buffers are not there yet, and a plan's hold what others
/// need. An algorithm that fails goes; where there is no memory the order of the heuristics stays.
void Products::measure(const sdk::Gemm& gemm, Call& call) const {
  const std::string what = "measuring " + gemm.shape() + ": ";
  std::array<DeviceMemory, 5> memory;
  std::array<std::uint64_t, 5> addresses = {};
  std::uint64_t scratch_bytes = 0;
  for (const Call::Algorithm& algorithm : call.algorithms)
    scratch_bytes = std::max(scratch_bytes, algorithm.scratch_bytes);
  const Stream stream = device_.make_stream(what);
  try {
    for (std::uint32_t i = 0; i <= gemm.buffers(); ++i) {
      const bool is_scratch = i == gemm.buffers();
      const std::uint64_t bytes = is_scratch ? scratch_bytes : sdk::gemm_extent_bytes(gemm, static_cast<int>(i));
      if (bytes == 0) continue;
      memory[i] = GraphApi::allocate(device_, bytes);
      addresses[i] = memory[i].get();
      device_.call({what}, GraphApi::kFill, memory[i].get(), static_cast<unsigned char>(0), bytes, stream.get());
    }
  } catch (const sdk::Failure& failure) {
    if (failure.code() != CRUCIBLE_E_OUT_OF_MEMORY) throw;
    return;
  }
  const auto make_event = [&] {
    CUevent made = nullptr;
    device_.call({what}, GraphApi::kEventCreate, &made);
    return GraphApi::Event(*device_.driver, made);
  };
  const GraphApi::Event begin = make_event(), end = make_event();
  std::vector<std::pair<float, Call::Algorithm>> timed;
  for (const Call::Algorithm& algorithm : call.algorithms) {
    float best = std::numeric_limits<float>::max();
    try {
      for (int time = 0; time <= kTimes; ++time) {
        device_.call({what}, GraphApi::kEventRecord, begin.get(), stream.get());
        run(gemm, call, algorithm.how, addresses.data(), algorithm.scratch_bytes, stream.get());
        device_.call({what}, GraphApi::kEventRecord, end.get(), stream.get());
        device_.synchronize(stream.get(), what);
        float milliseconds = 0;
        device_.call({what}, GraphApi::kEventElapsedTime, &milliseconds, begin.get(), end.get());
        if (time > 0) best = std::min(best, milliseconds);
      }
    } catch (const sdk::Failure& failure) {
      if (failure.code() == CRUCIBLE_E_DEVICE_LOST) throw;
      continue;
    }
    timed.emplace_back(best, algorithm);
  }
  if (timed.empty()) return;  // whatever it is that fails is told where it is used
  std::ranges::stable_sort(timed, {}, [](const auto& one) { return one.first; });
  call.algorithms.clear();
  for (const auto& one : timed) call.algorithms.push_back(one.second);
}

const Products::Call& Products::find(const sdk::Gemm& gemm, const std::uint64_t* alignments,
                                     std::uint64_t most_scratch) {
  std::string key = gemm.shape() + " swapped " + (gemm.is_swapped ? "1" : "0");
  for (std::uint32_t view = 0; view < gemm.buffers(); ++view) key += " " + std::to_string(alignments[view]);
  key += " scratch " + std::to_string(most_scratch);
  std::unique_ptr<const Call>& call = calls_[key];
  if (call == nullptr) call = make(gemm, alignments, most_scratch);
  if (!call->refusal.empty()) throw sdk::Failure(CRUCIBLE_E_UNSUPPORTED, call->refusal);
  return *call;
}

void Products::set_bias(const Call& call, std::uint64_t address) const {
  cublas_.check(cublas_.cublasLtMatmulDescSetAttribute(call.operation.handle, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                                       &address, sizeof(address)),
                "cublasLtMatmulDescSetAttribute of the bias");
}

std::uint64_t Products::scratch_bytes(const sdk::Gemm& gemm) {
  const Alignments alignments = alignments_of(gemm, nullptr);
  const std::lock_guard lock(mutex_);
  return find(gemm, alignments.data(), most_scratch_).scratch_bytes();
}

void Products::enqueue(const sdk::Gemm& gemm, const std::uint64_t* addresses, std::uint64_t scratch_bytes,
                       CUstream stream) {
  const Alignments alignments = alignments_of(gemm, addresses);
  const std::uint64_t* const scratch_address = addresses + gemm.buffers();
  const std::lock_guard lock(mutex_);
  if (scratch_bytes != 0 && *scratch_address % kScratchAlignment != 0) scratch_bytes = 0;
  // What claim() chose, unless the buffers lie worse or the scratch is smaller than it was told: then what fits.
  const Call* call = nullptr;
  try {
    call = &find(gemm, alignments.data(), most_scratch_);
  } catch (const sdk::Failure& failure) {
    if (failure.code() != CRUCIBLE_E_UNSUPPORTED) throw;
  }
  if (call == nullptr || call->scratch_bytes() > scratch_bytes) call = &find(gemm, alignments.data(), scratch_bytes);
  run(gemm, *call, call->algorithms.front().how, addresses, call->scratch_bytes(), stream);
}

void Products::run(const sdk::Gemm& gemm, const Call& call, const cublasLtMatmulAlgo_t& algorithm,
                   const std::uint64_t* addresses, std::uint64_t scratch_bytes, CUstream stream) const {
  const Scale alpha(gemm.alpha, gemm.dtype), beta(0, gemm.dtype);
  const auto at = [&](int view, std::int64_t offset) {
    return reinterpret_cast<void*>(addresses[view] + static_cast<std::uint64_t>(offset) * gemm.element_bytes(view));
  };
  void* const scratch = scratch_bytes == 0 ? nullptr : reinterpret_cast<void*>(addresses[gemm.buffers()]);
  if (gemm.has_epilogue()) set_bias(call, addresses[3] + static_cast<std::uint64_t>(gemm.bias) * gemm.element_bytes());
  for (const sdk::Gemm::Place& place : gemm.places) {
    void* const d = at(2, place.d);
    cublas_.check(cublas_.cublasLtMatmul(handle_, call.operation.handle, alpha.place(), at(gemm.x_view(), place.x),
                                         call.x.handle, at(gemm.y_view(), place.y), call.y.handle, beta.place(), d,
                                         call.d.handle, d, call.d.handle, &algorithm, scratch, scratch_bytes, stream),
                  "cublasLtMatmul of " + gemm.shape());
  }
}

}  // namespace crucible_nvidia
