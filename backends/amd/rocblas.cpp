// Finding rocBLAS and calling it: see rocblas.hpp.
#include "backends/amd/rocblas.hpp"

#include "backends/amd/device.hpp"
#include "backends/amd/memory.hpp"
#include "backends/amd/options.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/library_search.hpp"

namespace crucible_amd {

using namespace crucible;

namespace {

sdk::LibrarySearch search() {
  return {.title = "rocBLAS",
          .otherwise = "products are generated and slower",
          .choice = "blas",
          .option = "rocblas",
          .advice = "install AMD's package rocblas (Debian's librocblas0), or name a library with the option rocblas",
          .names = {"librocblas.so.5", "librocblas.so.4", "librocblas.so.3",
                    "librocblas.so.0"}};  // of ROCm 7, 6, 5 and of Debian
}

/// DType's numbers, which are part of the ABI.
struct Types {
  int data, compute;
};
Types types_of(std::uint32_t dtype) {
  if (dtype == 6) return {rocblas_datatype_f16_r, rocblas_datatype_f32_r};
  if (dtype == 7) return {rocblas_datatype_bf16_r, rocblas_datatype_f32_r};
  if (dtype == 9) return {rocblas_datatype_f64_r, rocblas_datatype_f64_r};
  return {rocblas_datatype_f32_r, rocblas_datatype_f32_r};
}

int operation(bool transposed) { return transposed ? rocblas_operation_transpose : rocblas_operation_none; }

}  // namespace

RocBlas::RocBlas(const sdk::VendorLibrary& library) : file(library.file()) {
  std::string missing;
#define CRUCIBLE_ROCBLAS_FIND(name, result, parameters) library.find(#name, name, missing);
  CRUCIBLE_ROCBLAS_FUNCTIONS(CRUCIBLE_ROCBLAS_FIND)
#undef CRUCIBLE_ROCBLAS_FIND
  library.require_complete(missing, "rocBLAS of ROCm 5 or newer");
  char text[256] = {};
  version = rocblas_get_version_string(text, sizeof(text)) == rocblas_status_success ? text : "of unknown version";
}

void RocBlas::check(rocblas_status status, const std::string& what) const {
  if (status == rocblas_status_success || status == rocblas_status_perf_degraded) return;
  crucible_code code = CRUCIBLE_E_INTERNAL;
  if (status == rocblas_status_not_implemented) code = CRUCIBLE_E_UNSUPPORTED;
  if (status == rocblas_status_memory_error) code = CRUCIBLE_E_OUT_OF_MEMORY;
  throw sdk::Failure(code, what + ": " + rocblas_status_to_string(status) + " (" + std::to_string(status) + ")",
                     {{"vendor.code", std::to_string(status)}, {"where", file}});
}

const RocBlas* find_rocblas(const DeviceFacts& facts, std::string& note) {
  static auto& libraries = *new sdk::FoundLibraries<RocBlas>;
  return libraries.find(search(), options(), facts.is_emulated(), note);
}

Products::Products(crucible_device& device, const RocBlas& rocblas) : device_(device), rocblas_(rocblas) {
  const rocblas_status status = rocblas.rocblas_create_handle(&handle_);
  if (status != rocblas_status_success) {
    throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE,
                       rocblas.describe() + " (" + rocblas.file + ") does not start on " + device.facts.id +
                           ": rocblas_create_handle: " + rocblas.rocblas_status_to_string(status),
                       {{"vendor.code", std::to_string(status)}, {"where", rocblas.file}});
  }
  rocblas.check(rocblas.rocblas_set_pointer_mode(handle_, rocblas_pointer_mode_host), "rocblas_set_pointer_mode");
  // The same bits in every run: partial sums are not added in the order in which they come.
  rocblas.check(rocblas.rocblas_set_atomics_mode(handle_, rocblas_atomics_not_allowed), "rocblas_set_atomics_mode");
}

Products::~Products() {
  if (handle_ != nullptr) (void)rocblas_.rocblas_destroy_handle(handle_);
}

rocblas_status Products::call(const sdk::Gemm& gemm, const sdk::Gemm::Place& place, const std::uint64_t* addresses) {
  const Types types = types_of(gemm.dtype);
  const double wide[] = {gemm.alpha, 0};
  const float narrow[] = {static_cast<float>(gemm.alpha), 0};
  const bool is_wide = gemm.dtype == 9;
  const void* const alpha = is_wide ? static_cast<const void*>(wide) : narrow;
  const void* const beta = is_wide ? static_cast<const void*>(wide + 1) : narrow + 1;
  const auto place_of = [&](int view, std::int64_t offset) {
    return at(addresses[view] + static_cast<std::uint64_t>(offset) * gemm.element_bytes(view));
  };
  const int result = gemm.keeps_f32 ? static_cast<int>(rocblas_datatype_f32_r) : types.data;
  const auto number = [](std::int64_t value) {
    return static_cast<std::int32_t>(value);
  };  // read_gemm() has checked them
  void* const d = place_of(2, place.d);
  return rocblas_.rocblas_gemm_strided_batched_ex(
      handle_, operation(gemm.x.transposed), operation(gemm.y.transposed), number(gemm.m), number(gemm.n),
      number(gemm.k), alpha, place_of(gemm.x_view(), place.x), types.data, number(gemm.x.pitch), gemm.x.batch_stride,
      place_of(gemm.y_view(), place.y), types.data, number(gemm.y.pitch), gemm.y.batch_stride, beta, d, result,
      number(gemm.d.pitch), gemm.d.batch_stride, d, result, number(gemm.d.pitch), gemm.d.batch_stride,
      number(gemm.batch), types.compute, rocblas_gemm_algo_standard, 0, 0);
}

/// A size query does not tell whether there are kernels: a small product does.
void Products::try_types(std::uint32_t dtype, bool keeps_f32) {
  if (good_types_.contains({dtype, keeps_f32})) return;
  constexpr std::int64_t kSize = 16;
  sdk::Gemm gemm;
  gemm.dtype = dtype;
  gemm.keeps_f32 = keeps_f32;
  gemm.m = gemm.n = gemm.k = gemm.x.pitch = gemm.y.pitch = gemm.d.pitch = kSize;
  gemm.places.push_back({});
  const std::uint64_t bytes = kSize * kSize * gemm.element_bytes();
  const DeviceMemory memory = GraphApi::allocate(device_, 3 * 4096);
  const auto first = reinterpret_cast<std::uint64_t>(memory.get());
  const std::uint64_t addresses[] = {first, first + 4096, first + 2 * 4096};
  static_assert(kSize * kSize * 8 <= 4096);
  for (const std::uint64_t address : addresses)
    device_.check(device_.driver->hipMemsetAsync(at(address), 0, bytes, device_.stream.get()),
                  "library.claim: hipMemsetAsync");
  rocblas_.check(rocblas_.rocblas_set_stream(handle_, device_.stream.get()), "rocblas_set_stream");
  const rocblas_status status = call(gemm, gemm.places.front(), addresses);
  device_.check(device_.driver->hipStreamSynchronize(device_.stream.get()),
                "library.claim: a small product by rocBLAS: hipStreamSynchronize");
  if (status != rocblas_status_success && status != rocblas_status_perf_degraded) {
    throw sdk::Failure(CRUCIBLE_E_UNSUPPORTED, "matmul: " + rocblas_.describe() + " does not do " + gemm.shape() +
                                                   " here: " + rocblas_.rocblas_status_to_string(status));
  }
  good_types_.insert({dtype, keeps_f32});
}

std::uint64_t Products::scratch_bytes(const sdk::Gemm& gemm) {
  if (gemm.has_epilogue()) throw sdk::Failure(CRUCIBLE_E_UNSUPPORTED, "matmul: rocBLAS has no epilogues");
  const std::lock_guard lock(mutex_);
  try_types(gemm.dtype, gemm.keeps_f32);
  // Nothing is touched while sizes are asked for; the addresses only have to be some.
  const std::uint64_t addresses[] = {4096, 4096, 4096};
  rocblas_.check(rocblas_.rocblas_start_device_memory_size_query(handle_), "rocblas_start_device_memory_size_query");
  const rocblas_status status = call(gemm, gemm.places.front(), addresses);
  std::size_t bytes = 0;
  rocblas_.check(rocblas_.rocblas_stop_device_memory_size_query(handle_, &bytes),
                 "rocblas_stop_device_memory_size_query");
  if (status != rocblas_status_size_increased && status != rocblas_status_size_unchanged)
    rocblas_.check(status, "rocblas_gemm_strided_batched_ex of " + gemm.shape());
  return bytes;
}

void Products::enqueue(const sdk::Gemm& gemm, const std::uint64_t* addresses, std::uint64_t scratch_bytes,
                       hipStream_t stream) {
  const std::lock_guard lock(mutex_);
  rocblas_.check(rocblas_.rocblas_set_stream(handle_, stream), "rocblas_set_stream");
  if (scratch_bytes != 0)
    rocblas_.check(rocblas_.rocblas_set_workspace(handle_, at(addresses[3]), scratch_bytes), "rocblas_set_workspace");
  for (const sdk::Gemm::Place& place : gemm.places)
    rocblas_.check(call(gemm, place, addresses), "rocblas_gemm_strided_batched_ex of " + gemm.shape());
  // The scratch is the plan's: nothing that comes later may use it.
  if (scratch_bytes != 0) rocblas_.check(rocblas_.rocblas_set_workspace(handle_, nullptr, 0), "rocblas_set_workspace");
}

}  // namespace crucible_amd
