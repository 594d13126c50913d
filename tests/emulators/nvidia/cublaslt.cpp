// libcublasLt.so.13 as far as a plugin asks for matrix products: it computes on the memory and the streams of the
// emulated driver, which it finds beside itself. Its declarations are NVIDIA's own, so that the compiler checks every
// signature.
//
// Faults: init(cublasLtCreate), query(gemm_TYPE_MxNxK) for heuristics, launch(gemm_TYPE_MxNxK), gemm_split_TYPE...
// where scratch is used; TYPE is f16, bf16, f32, tf32 or f64, the sizes are the column-major call's. Heuristics propose
// for a product with k of at least 256 first one with scratch where the preference allows it, then one without. An
// operand that lies worse than the heuristics were told is refused, as is scratch that is too small.
#pragma GCC visibility push(default)
#include <cublasLt.h>
#include <cuda.h>
#pragma GCC visibility pop

#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "tests/emulators/core/faults.hpp"
#include "tests/emulators/core/memory.hpp"
#include "tests/emulators/core/product.hpp"
#include "tests/emulators/core/settings.hpp"
#include "tests/emulators/nvidia/driver_beside.hpp"

namespace {

using namespace crucible::emulator;

constexpr std::int64_t kScratchFromK = 256;
constexpr std::uint64_t kMagic = 0x656d756c61746564;

const Driver& driver() {
  static const Driver found = find_driver_beside(reinterpret_cast<const void*>(&cublasLtCreate));
  return found;
}

std::optional<ElementType> type_of(cudaDataType_t type) {
  if (type == CUDA_R_16F) return ElementType::kF16;
  if (type == CUDA_R_16BF) return ElementType::kBF16;
  if (type == CUDA_R_32F) return ElementType::kF32;
  if (type == CUDA_R_64F) return ElementType::kF64;
  return std::nullopt;
}

struct Desc {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
  std::int32_t transposes[2] = {CUBLAS_OP_N, CUBLAS_OP_N};
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  std::uint64_t bias = 0;

  bool has_bias() const { return epilogue != CUBLASLT_EPILOGUE_DEFAULT; }
};
struct Layout {
  cudaDataType_t type = CUDA_R_32F;
  std::int64_t rows = 0, columns = 0, pitch = 0, batch_stride = 0;
  std::int32_t batch = 1;
};
struct Preference {
  std::uint64_t scratch = 0;
  std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_MASK, alignments[4] = {256, 256, 256, 256};
};

template <class To, class Handle>
To& as(Handle handle) {
  return *reinterpret_cast<To*>(handle);
}

template <class Value>
cublasStatus_t set(Value& value, const void* bytes, std::size_t size) {
  if (bytes == nullptr || size != sizeof(Value)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&value, bytes, sizeof(Value));
  return CUBLAS_STATUS_SUCCESS;
}

/// What the descriptors come to, without addresses.
std::optional<Product> product_of(const Desc& desc, const Layout& a, const Layout& b, const Layout& c,
                                  const Layout& d) {
  Product p;
  const auto type = type_of(a.type);
  const bool is_half = type == ElementType::kF16 || type == ElementType::kBF16;
  p.keeps_f32 = is_half && d.type == CUDA_R_32F;
  if (!type || b.type != a.type || c.type != d.type || (d.type != a.type && !p.keeps_f32)) return std::nullopt;
  const bool wide = *type == ElementType::kF64;
  if (desc.compute != (wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F) &&
      (wide || desc.compute != CUBLAS_COMPUTE_32F_FAST_TF32))
    return std::nullopt;
  if (desc.scale != (wide ? CUDA_R_64F : CUDA_R_32F)) return std::nullopt;
  const bool is_known = desc.epilogue == CUBLASLT_EPILOGUE_DEFAULT || desc.epilogue == CUBLASLT_EPILOGUE_BIAS ||
                        desc.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS || desc.epilogue == CUBLASLT_EPILOGUE_GELU_BIAS;
  // Epilogues are of single and half precision alone.
  if (!is_known || (desc.has_bias() && (wide || p.keeps_f32 || desc.bias == 0))) return std::nullopt;
  if (desc.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS) p.activation = Activation::kRelu;
  if (desc.epilogue == CUBLASLT_EPILOGUE_GELU_BIAS) p.activation = Activation::kGelu;
  p.type = *type;
  p.a = {nullptr, desc.transposes[0] == CUBLAS_OP_T, a.pitch, a.batch_stride};
  p.b = {nullptr, desc.transposes[1] == CUBLAS_OP_T, b.pitch, b.batch_stride};
  p.c = {nullptr, false, c.pitch, c.batch_stride};
  p.d = {nullptr, false, d.pitch, d.batch_stride};
  p.m = d.rows;
  p.n = d.columns;
  p.k = p.a.transposed ? a.rows : a.columns;
  p.batch = d.batch;
  const bool fits = (p.a.transposed ? a.columns : a.rows) == p.m && (p.b.transposed ? b.rows : b.columns) == p.n &&
                    (p.b.transposed ? b.columns : b.rows) == p.k && c.rows == p.m && c.columns == p.n;
  const bool pitches = a.pitch >= a.rows && b.pitch >= b.rows && c.pitch >= c.rows && d.pitch >= d.rows;
  const bool batches = a.batch == d.batch && b.batch == d.batch && c.batch == d.batch && d.batch >= 1;
  return fits && pitches && batches ? std::optional(p) : std::nullopt;
}

/// What rules of faults match: the product's name, "tf32" where that was allowed.
std::string name_of(const Desc& desc, const Product& product) {
  std::string name = product.name();
  if (desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && product.type == ElementType::kF32)
    name.replace(name.find("f32"), 3, "tf32");
  return name;
}

/// A product on its way through a stream. Captured ones may run any number of times, and are kept.
struct Job {
  Product product;
  std::optional<Rule> flip;
  bool may_round = false;  // to tf32
  bool is_kept = false;
  std::chrono::duration<double, std::milli> slow{0};  // how much longer it takes
};

/// Each operand once, as one launch that keeps what it needs again.
Work work_of(const Job& job) {
  const Product& p = job.product;
  const std::int64_t elements = p.m * p.k + p.k * p.n + (p.beta != 0 ? 2 : 1) * p.m * p.n;
  Work work;
  work.memory_bytes =
      static_cast<std::uint64_t>(elements * p.batch + (p.bias != nullptr ? p.m : 0)) * size_bytes(p.type);
  work.operations[static_cast<std::size_t>(matrix_unit(p.type, job.may_round))] =
      static_cast<std::uint64_t>(2 * p.m * p.n * p.k * p.batch);
  return work;
}

void keep(std::unique_ptr<Job> job) {
  static auto& mutex = *new std::mutex;
  static auto& all = *new std::deque<std::unique_ptr<Job>>;
  const std::lock_guard lock(mutex);
  all.push_back(std::move(job));
}

void CUDA_CB run(void* data) {
  Job* const job = static_cast<Job*>(data);
  if (!settings().empty) multiply(job->product);
  std::this_thread::sleep_for(job->slow);
  const Work work = work_of(*job);
  driver().spend(&work);
  if (job->flip) job->product.d.data[job->flip->byte] ^= static_cast<char>(1 << job->flip->bit);
  if (!job->is_kept) delete job;
}

bool is_aligned(const void* address, std::uint64_t alignment) {
  return reinterpret_cast<std::uint64_t>(address) % alignment == 0;
}

char* host(const void* address) { return host_address(reinterpret_cast<std::uint64_t>(address)); }

}  // namespace

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
  }
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (!driver().has_context() || faults().hit(Site::kInit, "cublasLtCreate")) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = reinterpret_cast<cublasLtHandle_t>(new std::uint64_t(kMagic));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  if (handle == nullptr || as<std::uint64_t>(handle) != kMagic) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete &as<std::uint64_t>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute, cudaDataType_t scale) {
  *desc = reinterpret_cast<cublasLtMatmulDesc_t>(new Desc{compute, scale});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete &as<Desc>(desc);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t size) {
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSA) return set(as<Desc>(desc).transposes[0], value, size);
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSB) return set(as<Desc>(desc).transposes[1], value, size);
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE) return set(as<Desc>(desc).epilogue, value, size);
  if (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER) return set(as<Desc>(desc).bias, value, size);
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t pitch) {
  auto made = std::make_unique<Layout>();
  made->type = type;
  made->rows = static_cast<std::int64_t>(rows);
  made->columns = static_cast<std::int64_t>(columns);
  made->pitch = pitch;
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(made.release());
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete &as<Layout>(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                size_t size) {
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) return set(as<Layout>(layout).batch, value, size);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
    return set(as<Layout>(layout).batch_stride, value, size);
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete &as<Preference>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    size_t size) {
  Preference& p = as<Preference>(preference);
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return set(p.scratch, value, size);
  if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) return set(p.schemes, value, size);
  if (attribute >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES &&
      attribute <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)
    return set(p.alignments[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, size);
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results, int* count) {
  if (handle == nullptr || wanted < 1 || results == nullptr || count == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const auto product = product_of(as<Desc>(desc), as<Layout>(a), as<Layout>(b), as<Layout>(c), as<Layout>(d));
  if (!product) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto rule = faults().hit(Site::kQuery, name_of(as<Desc>(desc), *product));
  if (rule && rule->action == Action::kFail) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (rule && rule->action == Action::kOom) return CUBLAS_STATUS_ALLOC_FAILED;
  const Preference& preferred = as<Preference>(preference);
  // Sums of halves that are added up in halves are not for us: there would be no scratch then.
  const bool may_split = product->type == ElementType::kF32 || product->type == ElementType::kF64 ||
                         preferred.schemes == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  const bool splits = may_split && product->k >= kScratchFromK && product->scratch_bytes() <= preferred.scratch;
  // What splits comes first, what does not after it.
  *count = 0;
  for (const std::uint64_t scratch : {product->scratch_bytes(), std::uint64_t{0}}) {
    if ((scratch != 0 && !splits) || *count >= wanted) continue;
    cublasLtMatmulHeuristicResult_t& result = results[(*count)++] = {};
    result.algo.data[0] = kMagic;
    result.algo.data[1] = scratch;
    for (int i = 0; i < 4; ++i) result.algo.data[2 + i] = preferred.alignments[i];
    result.workspaceSize = scratch;
    result.state = CUBLAS_STATUS_SUCCESS;
    result.wavesCount = 1;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_size, cudaStream_t stream) {
  if (handle == nullptr || algorithm == nullptr || algorithm->data[0] != kMagic || alpha == nullptr || beta == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  auto product = product_of(as<Desc>(desc), as<Layout>(a_layout), as<Layout>(b_layout), as<Layout>(c_layout),
                            as<Layout>(d_layout));
  if (!product) return CUBLAS_STATUS_INVALID_VALUE;
  for (const void* operand : {a, b, static_cast<const void*>(d)}) {
    if (!is_device_address(reinterpret_cast<std::uint64_t>(operand))) return CUBLAS_STATUS_INVALID_VALUE;
  }
  const void* const operands[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i) {
    if (!is_aligned(operands[i], algorithm->data[2 + i])) return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (algorithm->data[1] > workspace_size || (algorithm->data[1] != 0 && !is_aligned(workspace, 256)))
    return CUBLAS_STATUS_INVALID_VALUE;
  std::string name = name_of(as<Desc>(desc), *product);
  if (algorithm->data[1] != 0) name.insert(name.find('_') + 1, "split_");
  const auto rule = faults().hit(Site::kLaunch, name);
  if (rule && rule->action != Action::kFlip && rule->action != Action::kSlow) return CUBLAS_STATUS_EXECUTION_FAILED;
  const bool is_wide = product->type == ElementType::kF64;
  product->alpha =
      is_wide ? *static_cast<const double*>(alpha) : static_cast<double>(*static_cast<const float*>(alpha));
  product->beta = is_wide ? *static_cast<const double*>(beta) : static_cast<double>(*static_cast<const float*>(beta));
  if (const Desc& of = as<Desc>(desc); of.has_bias()) {
    if (!is_device_address(of.bias) || of.bias % size_bytes(product->type) != 0) return CUBLAS_STATUS_INVALID_VALUE;
    product->bias = host(reinterpret_cast<const void*>(of.bias));
  }
  product->a.data = host(a);
  product->b.data = host(b);
  product->c.data = host(c);
  product->d.data = host(d);
  if (algorithm->data[1] != 0) product->scratch = host(workspace);
  auto job = std::make_unique<Job>(Job{*product, rule && rule->action == Action::kFlip ? rule : std::nullopt,
                                       as<Desc>(desc).compute == CUBLAS_COMPUTE_32F_FAST_TF32, false});
  if (rule && rule->action == Action::kSlow) job->slow = decltype(job->slow)(rule->wait_ms.value_or(0));
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  CUstream const driver_stream = reinterpret_cast<CUstream>(stream);
  if (driver().is_capturing(driver_stream, &capture) != CUDA_SUCCESS) return CUBLAS_STATUS_EXECUTION_FAILED;
  const bool is_kept = job->is_kept = capture == CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (driver().launch(driver_stream, name.c_str(), run, job.get()) != CUDA_SUCCESS)
    return CUBLAS_STATUS_EXECUTION_FAILED;
  if (is_kept) {
    keep(std::move(job));
  } else {
    (void)job.release();  // run() deletes it, or has by now
  }
  return CUBLAS_STATUS_SUCCESS;
}
