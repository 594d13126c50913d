// The part of rocBLAS that this plugin calls, as its C ABI is since ROCm 5: AMD's headers are not needed to build.
// Names and numbers are those of rocblas-types.h and rocblas-functions.h, written down by hand: no header of AMD's is
// here to compare them with.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/amd/hip_types.hpp"

namespace crucible_amd {

using rocblas_handle = struct _rocblas_handle*;
using rocblas_status = int;

inline constexpr rocblas_status rocblas_status_success = 0, rocblas_status_not_implemented = 2,
                                rocblas_status_memory_error = 5, rocblas_status_perf_degraded = 7,
                                rocblas_status_size_increased = 9, rocblas_status_size_unchanged = 10;
inline constexpr int rocblas_operation_none = 111, rocblas_operation_transpose = 112;
inline constexpr int rocblas_datatype_f16_r = 150, rocblas_datatype_f32_r = 151, rocblas_datatype_f64_r = 152,
                     rocblas_datatype_bf16_r = 168;
inline constexpr int rocblas_pointer_mode_host = 0, rocblas_atomics_not_allowed = 0, rocblas_gemm_algo_standard = 0;

// Every function that is called: X(name, result, parameters).
#define CRUCIBLE_ROCBLAS_FUNCTIONS(X)                                                                               \
  X(rocblas_create_handle, rocblas_status, (rocblas_handle * handle))                                               \
  X(rocblas_destroy_handle, rocblas_status, (rocblas_handle handle))                                                \
  X(rocblas_set_stream, rocblas_status, (rocblas_handle handle, hipStream_t stream))                                \
  X(rocblas_set_pointer_mode, rocblas_status, (rocblas_handle handle, int mode))                                    \
  X(rocblas_set_atomics_mode, rocblas_status, (rocblas_handle handle, int mode))                                    \
  X(rocblas_set_workspace, rocblas_status, (rocblas_handle handle, void* address, std::size_t bytes))               \
  X(rocblas_start_device_memory_size_query, rocblas_status, (rocblas_handle handle))                                \
  X(rocblas_stop_device_memory_size_query, rocblas_status, (rocblas_handle handle, std::size_t* bytes))             \
  X(rocblas_status_to_string, const char*, (rocblas_status status))                                                 \
  X(rocblas_get_version_string, rocblas_status, (char* text, std::size_t size))                                     \
  X(rocblas_gemm_strided_batched_ex, rocblas_status,                                                                \
    (rocblas_handle handle, int a_operation, int b_operation, std::int32_t m, std::int32_t n, std::int32_t k,       \
     const void* alpha, const void* a, int a_type, std::int32_t a_pitch, std::int64_t a_stride, const void* b,      \
     int b_type, std::int32_t b_pitch, std::int64_t b_stride, const void* beta, const void* c, int c_type,          \
     std::int32_t c_pitch, std::int64_t c_stride, void* d, int d_type, std::int32_t d_pitch, std::int64_t d_stride, \
     std::int32_t batch, int compute_type, int algorithm, std::int32_t solution, std::uint32_t flags))

}  // namespace crucible_amd
