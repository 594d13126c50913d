// Our declarations of the driver's structs and constants are those of cuda.h, where a toolkit is installed; skipped elsewhere.
#include <gtest/gtest.h>

#include "backends/nvidia/cuda_types.hpp"

#ifdef CRUCIBLE_HAS_CUDA_H
#include <cuda.h>
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
  SAME(CU_JIT_ERROR_LOG_BUFFER); SAME(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES); SAME(CU_MEMORYTYPE_DEVICE); SAME(CU_STREAM_NON_BLOCKING);
}

#else

TEST(NvidiaLayout, StructsAreThoseOfCudaH) { GTEST_SKIP() << "no cuda.h: install NVIDIA's toolkit to compare with it"; }

#endif

}  // namespace
