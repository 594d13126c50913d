// librocblas.so.4 as far as a plugin asks for matrix products: it computes on the memory and the streams of the
// emulated runtime, which it finds beside itself.
//
// Faults: init(rocblas_create_handle), query(gemm_TYPE_MxNxK) for sizes, launch(gemm_TYPE_MxNxK). A product with k of
// at least 256 wants scratch, and does without where it has none (rocblas_status_perf_degraded). There is no capture: a
// call on a stream is on that stream.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "tests/emulators/amd/runtime_beside.hpp"
#include "tests/emulators/core/faults.hpp"
#include "tests/emulators/core/memory.hpp"
#include "tests/emulators/core/product.hpp"

namespace {

using namespace crucible::emulator;

constexpr int kSuccess = 0, kInvalidHandle = 1, kNotImplemented = 2, kInvalidPointer = 3, kInvalidSize = 4,
              kMemoryError = 5, kInternalError = 6, kPerfDegraded = 7, kSizeQueryMismatch = 8, kSizeIncreased = 9,
              kSizeUnchanged = 10, kInvalidValue = 11;
constexpr std::int64_t kScratchFromK = 256;

struct Handle {
  hipStream_t stream = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  bool asks_sizes = false;
  std::size_t asked_bytes = 0;
};

void run(void* data) {
  const std::unique_ptr<std::pair<Product, std::optional<Rule>>> job(
      static_cast<std::pair<Product, std::optional<Rule>>*>(data));
  multiply(job->first);
  if (job->second) job->first.d.data[job->second->byte] ^= static_cast<char>(1 << job->second->bit);
}

std::optional<ElementType> type_of(int type, int compute) {
  if (type == 150 && compute == 151) return ElementType::kF16;
  if (type == 168 && compute == 151) return ElementType::kBF16;
  if (type == 151 && compute == 151) return ElementType::kF32;
  if (type == 152 && compute == 152) return ElementType::kF64;
  return std::nullopt;
}

char* host(const void* address) { return host_address(reinterpret_cast<std::uint64_t>(address)); }

}  // namespace

extern "C" {

int rocblas_create_handle(Handle** handle);

}  // extern "C"

namespace {

const Runtime& hip() {
  static const Runtime found = find_runtime_beside(reinterpret_cast<const void*>(&rocblas_create_handle));
  return found;
}

}  // namespace

extern "C" {

int rocblas_create_handle(Handle** handle) {
  if (handle == nullptr) return kInvalidPointer;
  if (!hip().has_device() || faults().hit(Site::kInit, "rocblas_create_handle")) return kInternalError;
  *handle = new Handle;
  return kSuccess;
}

int rocblas_destroy_handle(Handle* handle) {
  if (handle == nullptr) return kInvalidHandle;
  delete handle;
  return kSuccess;
}

int rocblas_set_stream(Handle* handle, hipStream_t stream) {
  if (handle == nullptr) return kInvalidHandle;
  handle->stream = stream;
  return kSuccess;
}

int rocblas_set_pointer_mode(Handle* handle, int mode) {
  return handle == nullptr ? kInvalidHandle : mode == 0 ? kSuccess : kNotImplemented;
}
int rocblas_set_atomics_mode(Handle* handle, int mode) {
  return handle == nullptr ? kInvalidHandle : mode >= 0 && mode <= 1 ? kSuccess : kInvalidValue;
}

int rocblas_set_workspace(Handle* handle, void* address, std::size_t bytes) {
  if (handle == nullptr) return kInvalidHandle;
  handle->workspace = bytes == 0 ? nullptr : address;
  handle->workspace_bytes = address == nullptr ? 0 : bytes;
  return kSuccess;
}

int rocblas_start_device_memory_size_query(Handle* handle) {
  if (handle == nullptr) return kInvalidHandle;
  if (handle->asks_sizes) return kSizeQueryMismatch;
  handle->asks_sizes = true;
  handle->asked_bytes = 0;
  return kSuccess;
}

int rocblas_stop_device_memory_size_query(Handle* handle, std::size_t* bytes) {
  if (handle == nullptr) return kInvalidHandle;
  if (!handle->asks_sizes) return kSizeQueryMismatch;
  if (bytes == nullptr) return kInvalidPointer;
  handle->asks_sizes = false;
  *bytes = handle->asked_bytes;
  return kSuccess;
}

const char* rocblas_status_to_string(int status) {
  const char* const names[] = {
      "rocblas_status_success",         "rocblas_status_invalid_handle", "rocblas_status_not_implemented",
      "rocblas_status_invalid_pointer", "rocblas_status_invalid_size",   "rocblas_status_memory_error",
      "rocblas_status_internal_error",  "rocblas_status_perf_degraded",  "rocblas_status_size_query_mismatch",
      "rocblas_status_size_increased",  "rocblas_status_size_unchanged", "rocblas_status_invalid_value"};
  return status >= 0 && status < 12 ? names[status] : "an unknown status";
}

int rocblas_get_version_string(char* text, std::size_t size) {
  if (text == nullptr || size < 16) return kInvalidSize;
  std::snprintf(text, size, "4.0.0 (emulated)");
  return kSuccess;
}

int rocblas_gemm_strided_batched_ex(Handle* handle, int a_operation, int b_operation, std::int32_t m, std::int32_t n,
                                    std::int32_t k, const void* alpha, const void* a, int a_type, std::int32_t a_pitch,
                                    std::int64_t a_stride, const void* b, int b_type, std::int32_t b_pitch,
                                    std::int64_t b_stride, const void* beta, const void* c, int c_type,
                                    std::int32_t c_pitch, std::int64_t c_stride, void* d, int d_type,
                                    std::int32_t d_pitch, std::int64_t d_stride, std::int32_t batch, int compute_type,
                                    int, std::int32_t, std::uint32_t) {
  if (handle == nullptr) return kInvalidHandle;
  const auto type = type_of(a_type, compute_type);
  const bool keeps_f32 = d_type == 151 && (type == ElementType::kF16 || type == ElementType::kBF16);
  if (!type || b_type != a_type || c_type != d_type || (d_type != a_type && !keeps_f32)) return kNotImplemented;
  for (const int operation : {a_operation, b_operation}) {
    if (operation != 111 && operation != 112) return kInvalidValue;
  }
  if (m < 0 || n < 0 || k < 0 || batch < 0 || a_pitch < (a_operation == 111 ? m : k) ||
      b_pitch < (b_operation == 111 ? k : n) || c_pitch < m || d_pitch < m)
    return kInvalidSize;
  Product product = {.type = *type,
                     .keeps_f32 = keeps_f32,
                     .m = m,
                     .n = n,
                     .k = k,
                     .batch = batch,
                     .a = {},
                     .b = {},
                     .c = {},
                     .d = {}};
  if (handle->asks_sizes) {
    const auto rule = faults().hit(Site::kQuery, product.name());
    if (rule && rule->action == Action::kFail) return kNotImplemented;
    const std::size_t wanted = k >= kScratchFromK ? product.scratch_bytes() : 0;
    if (wanted <= handle->asked_bytes) return kSizeUnchanged;
    handle->asked_bytes = wanted;
    return kSizeIncreased;
  }
  if (alpha == nullptr || beta == nullptr || a == nullptr || b == nullptr || c == nullptr || d == nullptr)
    return kInvalidPointer;
  for (const void* operand : {a, b, c, static_cast<const void*>(d)}) {
    if (!is_device_address(reinterpret_cast<std::uint64_t>(operand))) return kInvalidPointer;
  }
  const auto rule = faults().hit(Site::kLaunch, product.name());
  if (rule && rule->action == Action::kOom) return kMemoryError;
  if (rule && rule->action == Action::kFail) return kNotImplemented;
  if (rule && rule->action != Action::kFlip && rule->action != Action::kSlow) return kInternalError;
  const bool is_wide = *type == ElementType::kF64;
  product.alpha = is_wide ? *static_cast<const double*>(alpha) : static_cast<double>(*static_cast<const float*>(alpha));
  product.beta = is_wide ? *static_cast<const double*>(beta) : static_cast<double>(*static_cast<const float*>(beta));
  product.a = {host(a), a_operation == 112, a_pitch, a_stride};
  product.b = {host(b), b_operation == 112, b_pitch, b_stride};
  product.c = {host(c), false, c_pitch, c_stride};
  product.d = {host(d), false, d_pitch, d_stride};
  const bool wants_scratch = k >= kScratchFromK, has_scratch = handle->workspace_bytes >= product.scratch_bytes();
  if (wants_scratch && has_scratch) product.scratch = host(handle->workspace);
  using Job = std::pair<Product, std::optional<Rule>>;
  auto job = std::make_unique<Job>(product, rule && rule->action == Action::kFlip ? rule : std::nullopt);
  if (hip().launch(handle->stream, "product", run, job.get()) != hipSuccess) return kInternalError;
  (void)job.release();  // run() deletes it, or has by now
  return wants_scratch && !has_scratch ? kPerfDegraded : kSuccess;
}

}  // extern "C"
