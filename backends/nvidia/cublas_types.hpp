// The part of cuBLASLt that this plugin calls, as its C ABI is in versions 11, 12 and 13: NVIDIA's headers are not
// needed to build. Names are those of cublasLt.h; layout_test.cpp compares the two where it is there.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/nvidia/cuda_types.hpp"

namespace crucible_nvidia {

using cublasStatus_t = int;
using cublasLtHandle_t = struct cublasLtContext*;
using cublasLtMatmulDesc_t = struct cublasLtMatmulDescOpaque_t*;
using cublasLtMatrixLayout_t = struct cublasLtMatrixLayoutOpaque_t*;
using cublasLtMatmulPreference_t = struct cublasLtMatmulPreferenceOpaque_t*;

inline constexpr cublasStatus_t CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_NOT_INITIALIZED = 1,
                                CUBLAS_STATUS_ALLOC_FAILED = 3, CUBLAS_STATUS_INVALID_VALUE = 7,
                                CUBLAS_STATUS_ARCH_MISMATCH = 8, CUBLAS_STATUS_EXECUTION_FAILED = 13,
                                CUBLAS_STATUS_INTERNAL_ERROR = 14, CUBLAS_STATUS_NOT_SUPPORTED = 15;

// Of cudaDataType, cublasComputeType_t, cublasOperation_t and the descriptors' attributes.
inline constexpr int CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_R_16BF = 14;
inline constexpr int CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_64F = 70, CUBLAS_COMPUTE_32F_FAST_TF32 = 77;
inline constexpr std::int32_t CUBLAS_OP_N = 0, CUBLAS_OP_T = 1;
inline constexpr int CUBLASLT_MATMUL_DESC_TRANSA = 3, CUBLASLT_MATMUL_DESC_TRANSB = 4,
                     CUBLASLT_MATMUL_DESC_EPILOGUE = 7, CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8;
inline constexpr std::uint32_t CUBLASLT_EPILOGUE_BIAS = 4, CUBLASLT_EPILOGUE_RELU_BIAS = 6,
                               CUBLASLT_EPILOGUE_GELU_BIAS = 36;
inline constexpr int CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6;
inline constexpr int CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
                     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
                     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8;
inline constexpr std::uint32_t CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2;

struct cublasLtMatmulAlgo_t {
  std::uint64_t data[8];
};

struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  std::size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
};

// Every function that is called: X(name, result, parameters).
#define CRUCIBLE_CUBLASLT_FUNCTIONS(X)                                                                                 \
  X(cublasLtGetVersion, std::size_t, ())                                                                               \
  X(cublasLtCreate, cublasStatus_t, (cublasLtHandle_t * handle))                                                       \
  X(cublasLtDestroy, cublasStatus_t, (cublasLtHandle_t handle))                                                        \
  X(cublasLtGetStatusName, const char*, (cublasStatus_t status))                                                       \
  X(cublasLtMatmulDescCreate, cublasStatus_t, (cublasLtMatmulDesc_t * desc, int compute_type, int scale_type))         \
  X(cublasLtMatmulDescDestroy, cublasStatus_t, (cublasLtMatmulDesc_t desc))                                            \
  X(cublasLtMatmulDescSetAttribute, cublasStatus_t,                                                                    \
    (cublasLtMatmulDesc_t desc, int attribute, const void* value, std::size_t bytes))                                  \
  X(cublasLtMatrixLayoutCreate, cublasStatus_t,                                                                        \
    (cublasLtMatrixLayout_t * layout, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t pitch))        \
  X(cublasLtMatrixLayoutDestroy, cublasStatus_t, (cublasLtMatrixLayout_t layout))                                      \
  X(cublasLtMatrixLayoutSetAttribute, cublasStatus_t,                                                                  \
    (cublasLtMatrixLayout_t layout, int attribute, const void* value, std::size_t bytes))                              \
  X(cublasLtMatmulPreferenceCreate, cublasStatus_t, (cublasLtMatmulPreference_t * preference))                         \
  X(cublasLtMatmulPreferenceDestroy, cublasStatus_t, (cublasLtMatmulPreference_t preference))                          \
  X(cublasLtMatmulPreferenceSetAttribute, cublasStatus_t,                                                              \
    (cublasLtMatmulPreference_t preference, int attribute, const void* value, std::size_t bytes))                      \
  X(cublasLtMatmulAlgoGetHeuristic, cublasStatus_t,                                                                    \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,           \
     cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int wanted,            \
     cublasLtMatmulHeuristicResult_t* results, int* count))                                                            \
  X(cublasLtMatmul, cublasStatus_t,                                                                                    \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,                             \
     cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout, const void* beta, const void* c, \
     cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, \
     void* workspace, std::size_t workspace_bytes, CUstream stream))

}  // namespace crucible_nvidia
