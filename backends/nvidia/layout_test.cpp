// Our declarations of the driver's structs and constants are those of cuda.h, where a toolkit is installed; skipped elsewhere.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "backends/nvidia/cublas_types.hpp"
#include "backends/nvidia/cuda_types.hpp"

#ifdef CRUCIBLE_HAS_CUDA_H
#include <cuda.h>
#endif
#ifdef CRUCIBLE_HAS_CUBLASLT_H
#include <cublasLt.h>
#endif

#ifdef CRUCIBLE_HAS_CUBLASLT_H
namespace crucible_nvidia {

/// Bytes of a function's result and of what it takes: enumerations are integers in the ABI, and handles pointers.
template <class Result, class... Parameters>
std::vector<std::size_t> sizes_of(Result (*)(Parameters...)) {
  return {sizeof(Result), sizeof(Parameters)...};
}

/// As cublas_types.hpp has them.
std::map<std::string, std::vector<std::size_t>> declared_sizes() {
  return {
#define DECLARED(name, result, parameters) {#name, sizes_of(static_cast<result(*) parameters>(nullptr))},
      CRUCIBLE_CUBLASLT_FUNCTIONS(DECLARED)
#undef DECLARED
  };
}

}  // namespace crucible_nvidia
#endif

namespace {

#ifdef CRUCIBLE_HAS_CUDA_H

namespace ours = crucible_nvidia;

TEST(NvidiaLayout, StructsAreThoseOfCudaH) {
  // Version 1 of the kernel node, which we ask for, is the front of version 2.
  static_assert(sizeof(ours::CUDA_KERNEL_NODE_PARAMS) == sizeof(CUDA_KERNEL_NODE_PARAMS_v2));
#define SAME_MEMBER(ours_struct, theirs, member) \
  EXPECT_EQ(offsetof(ours::ours_struct, member), offsetof(theirs, member)) << #member; \
  EXPECT_EQ(sizeof(ours::ours_struct{}.member), sizeof(theirs{}.member)) << #member
#define KERNEL(member) SAME_MEMBER(CUDA_KERNEL_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS_v1, member)
  KERNEL(func); KERNEL(gridDimX); KERNEL(gridDimZ); KERNEL(blockDimX); KERNEL(blockDimZ); KERNEL(sharedMemBytes); KERNEL(kernelParams);
  KERNEL(extra);
  static_assert(sizeof(ours::CUDA_MEMCPY3D) == sizeof(CUDA_MEMCPY3D));
#define COPY(member) SAME_MEMBER(CUDA_MEMCPY3D, CUDA_MEMCPY3D, member)
  COPY(srcXInBytes); COPY(srcLOD); COPY(srcMemoryType); COPY(srcHost); COPY(srcDevice); COPY(srcArray); COPY(srcPitch); COPY(srcHeight);
  COPY(dstXInBytes); COPY(dstMemoryType); COPY(dstDevice); COPY(dstPitch); COPY(dstHeight); COPY(WidthInBytes); COPY(Height); COPY(Depth);
  static_assert(sizeof(ours::CUDA_MEMSET_NODE_PARAMS) == sizeof(CUDA_MEMSET_NODE_PARAMS));
#define FILL(member) SAME_MEMBER(CUDA_MEMSET_NODE_PARAMS, CUDA_MEMSET_NODE_PARAMS, member)
  FILL(dst); FILL(pitch); FILL(value); FILL(elementSize); FILL(width); FILL(height);
  static_assert(sizeof(ours::CUmemAllocationProp) == sizeof(CUmemAllocationProp));
#define MEMORY(member) SAME_MEMBER(CUmemAllocationProp, CUmemAllocationProp, member)
  MEMORY(type); MEMORY(requestedHandleTypes); MEMORY(location); MEMORY(win32HandleMetaData); MEMORY(allocFlags);
  static_assert(sizeof(ours::CUmemAccessDesc) == sizeof(CUmemAccessDesc));
  SAME_MEMBER(CUmemAccessDesc, CUmemAccessDesc, location); SAME_MEMBER(CUmemAccessDesc, CUmemAccessDesc, flags);
  SAME_MEMBER(CUmemLocation, CUmemLocation, type); SAME_MEMBER(CUmemLocation, CUmemLocation, id);
  static_assert(sizeof(ours::CUmemPoolProps) == sizeof(CUmemPoolProps));
#define POOL(member) SAME_MEMBER(CUmemPoolProps, CUmemPoolProps, member)
  POOL(allocType); POOL(handleTypes); POOL(location); POOL(win32SecurityAttributes);
  static_assert(sizeof(ours::CUmemGenericAllocationHandle) == sizeof(CUmemGenericAllocationHandle));
  static_assert(sizeof(ours::CUuuid) == sizeof(CUuuid));
  static_assert(sizeof(ours::CUdeviceptr) == sizeof(CUdeviceptr));
}

TEST(NvidiaLayout, ConstantsAreThoseOfCudaH) {
#define SAME(name) EXPECT_EQ(static_cast<long>(ours::name), static_cast<long>(::name)) << #name
  SAME(CUDA_SUCCESS); SAME(CUDA_ERROR_OUT_OF_MEMORY); SAME(CUDA_ERROR_STUB_LIBRARY); SAME(CUDA_ERROR_DEVICE_UNAVAILABLE);
  SAME(CUDA_ERROR_NO_DEVICE); SAME(CUDA_ERROR_INVALID_IMAGE); SAME(CUDA_ERROR_NO_BINARY_FOR_GPU); SAME(CUDA_ERROR_ECC_UNCORRECTABLE);
  SAME(CUDA_ERROR_INVALID_PTX); SAME(CUDA_ERROR_NVLINK_UNCORRECTABLE); SAME(CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  SAME(CUDA_ERROR_ILLEGAL_ADDRESS); SAME(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES); SAME(CUDA_ERROR_LAUNCH_TIMEOUT);
  SAME(CUDA_ERROR_CONTEXT_IS_DESTROYED); SAME(CUDA_ERROR_ASSERT); SAME(CUDA_ERROR_HARDWARE_STACK_ERROR);
  SAME(CUDA_ERROR_ILLEGAL_INSTRUCTION); SAME(CUDA_ERROR_MISALIGNED_ADDRESS); SAME(CUDA_ERROR_INVALID_ADDRESS_SPACE);
  SAME(CUDA_ERROR_INVALID_PC); SAME(CUDA_ERROR_LAUNCH_FAILED); SAME(CUDA_ERROR_SYSTEM_NOT_READY); SAME(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
  SAME(CU_DEVICE_ATTRIBUTE_CLOCK_RATE); SAME(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT); SAME(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
  SAME(CU_DEVICE_ATTRIBUTE_ECC_ENABLED); SAME(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  SAME(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR); SAME(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  SAME(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES); SAME(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES); SAME(CU_FUNC_ATTRIBUTE_NUM_REGS);
  SAME(CU_COMPUTEMODE_DEFAULT); SAME(CU_COMPUTEMODE_PROHIBITED); SAME(CU_COMPUTEMODE_EXCLUSIVE_PROCESS);
  SAME(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED); SAME(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
  SAME(CU_MEM_ALLOCATION_TYPE_PINNED); SAME(CU_MEM_LOCATION_TYPE_DEVICE); SAME(CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  SAME(CU_MEM_ACCESS_FLAGS_PROT_READWRITE); SAME(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD); SAME(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  SAME(CU_MEMPOOL_ATTR_USED_MEM_CURRENT); SAME(CU_STREAM_CAPTURE_MODE_RELAXED);
  SAME(CU_JIT_ERROR_LOG_BUFFER); SAME(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES); SAME(CU_MEMORYTYPE_DEVICE); SAME(CU_STREAM_NON_BLOCKING);
}

#ifdef CRUCIBLE_HAS_CUBLASLT_H

TEST(NvidiaLayout, CublasLtIsThatOfItsHeader) {
  static_assert(sizeof(ours::cublasLtMatmulAlgo_t) == sizeof(cublasLtMatmulAlgo_t));
  static_assert(sizeof(ours::cublasLtMatmulHeuristicResult_t) == sizeof(cublasLtMatmulHeuristicResult_t));
#define RESULT(member) SAME_MEMBER(cublasLtMatmulHeuristicResult_t, cublasLtMatmulHeuristicResult_t, member)
  RESULT(algo); RESULT(workspaceSize); RESULT(state); RESULT(wavesCount);
  SAME(CUBLAS_STATUS_SUCCESS); SAME(CUBLAS_STATUS_NOT_INITIALIZED); SAME(CUBLAS_STATUS_ALLOC_FAILED); SAME(CUBLAS_STATUS_INVALID_VALUE);
  SAME(CUBLAS_STATUS_ARCH_MISMATCH); SAME(CUBLAS_STATUS_EXECUTION_FAILED); SAME(CUBLAS_STATUS_INTERNAL_ERROR);
  SAME(CUBLAS_STATUS_NOT_SUPPORTED); SAME(CUDA_R_32F); SAME(CUDA_R_64F); SAME(CUDA_R_16F); SAME(CUDA_R_16BF); SAME(CUBLAS_COMPUTE_32F);
  SAME(CUBLAS_COMPUTE_64F); SAME(CUBLAS_COMPUTE_32F_FAST_TF32); SAME(CUBLAS_OP_N); SAME(CUBLAS_OP_T); SAME(CUBLASLT_MATMUL_DESC_TRANSA);
  SAME(CUBLASLT_MATMUL_DESC_TRANSB); SAME(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT); SAME(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
  SAME(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES); SAME(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
  SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES); SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
  SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES); SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
  SAME(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
#define SAME_SIZES(name, result, parameters) EXPECT_EQ(ours::declared_sizes().at(#name), ours::sizes_of(static_cast<decltype(&::name)>(nullptr))) << #name;
  CRUCIBLE_CUBLASLT_FUNCTIONS(SAME_SIZES)
}

#endif

#else

TEST(NvidiaLayout, StructsAreThoseOfCudaH) { GTEST_SKIP() << "no cuda.h: install NVIDIA's toolkit to compare with it"; }

#endif

}  // namespace
