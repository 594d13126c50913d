// The part of MIOpen that this plugin calls: convolutions in immediate mode, as its C ABI is since ROCm 5. AMD's
// headers are not needed to build. Names, numbers and orders of parameters are those that AMD documents of miopen.h,
// written down by hand: no header of AMD's is here to compare them with, and no real MIOpen has been called by them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/amd/hip_types.hpp"

namespace crucible_amd {

using miopenHandle_t = struct miopenHandle*;
using miopenTensorDescriptor_t = struct miopenTensorDescriptor*;
using miopenConvolutionDescriptor_t = struct miopenConvolutionDescriptor*;
using miopenStatus_t = int;

inline constexpr miopenStatus_t miopenStatusSuccess = 0, miopenStatusBadParm = 3, miopenStatusAllocFailed = 4,
                                miopenStatusNotImplemented = 6, miopenStatusUnsupportedOp = 8;
inline constexpr int miopenHalf = 0, miopenFloat = 1, miopenBFloat16 = 5;  // of miopenDataType_t
inline constexpr int miopenConvolution = 0;  // of miopenConvolutionMode_t: cross-correlation

// Of miopenConvolutionAttrib_t. FP16_ALT_IMPL: 1 lets gfx90a round f16 to bf16, and does so in gradients unless it is
// 0. MATH_TYPE is there since 3.5.
inline constexpr int MIOPEN_CONVOLUTION_ATTRIB_FP16_ALT_IMPL = 0, MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC = 1,
                     MIOPEN_CONVOLUTION_ATTRIB_MATH_TYPE = 3;
inline constexpr int miopenMathPedantic = 1;  // of miopenMathType_t: f32 stays f32

struct miopenConvSolution_t {
  float time = 0;  // milliseconds, measured or estimated
  std::size_t workspace_size = 0;
  std::uint64_t solution_id = 0;
  int algorithm = 0;
};
static_assert(sizeof(miopenConvSolution_t) == 32 && offsetof(miopenConvSolution_t, solution_id) == 16);

// Forward takes weight, x and y; the gradient of x takes that of y, weight and the result; the gradient of the weight
// takes that of y, x and the result. So all three have the same form: two operands, how, and the result.
#define CRUCIBLE_MIOPEN_PROBLEM                                                           \
  miopenHandle_t handle, miopenTensorDescriptor_t first, miopenTensorDescriptor_t second, \
      miopenConvolutionDescriptor_t how, miopenTensorDescriptor_t result
#define CRUCIBLE_MIOPEN_CONVOLUTION(X, Kind)                                                                           \
  X(miopenConvolution##Kind##GetSolutionCount, miopenStatus_t, (CRUCIBLE_MIOPEN_PROBLEM, std::size_t * count))         \
  X(miopenConvolution##Kind##GetSolution, miopenStatus_t,                                                              \
    (CRUCIBLE_MIOPEN_PROBLEM, std::size_t most, std::size_t* count, miopenConvSolution_t* solutions))                  \
  X(miopenConvolution##Kind##CompileSolution, miopenStatus_t, (CRUCIBLE_MIOPEN_PROBLEM, std::uint64_t solution))       \
  X(miopenConvolution##Kind##Immediate, miopenStatus_t,                                                                \
    (miopenHandle_t handle, miopenTensorDescriptor_t first, const void* first_data, miopenTensorDescriptor_t second,   \
     const void* second_data, miopenConvolutionDescriptor_t how, miopenTensorDescriptor_t result, void* result_data,   \
     void* workspace, std::size_t workspace_bytes, std::uint64_t solution))

// Every function that is called: X(name, result, parameters).
#define CRUCIBLE_MIOPEN_FUNCTIONS(X)                                                                              \
  X(miopenGetVersion, miopenStatus_t, (std::size_t* major, std::size_t* minor, std::size_t* patch))               \
  X(miopenGetErrorString, const char*, (miopenStatus_t status))                                                   \
  X(miopenCreateWithStream, miopenStatus_t, (miopenHandle_t * handle, hipStream_t stream))                        \
  X(miopenDestroy, miopenStatus_t, (miopenHandle_t handle))                                                       \
  X(miopenSetStream, miopenStatus_t, (miopenHandle_t handle, hipStream_t stream))                                 \
  X(miopenCreateTensorDescriptor, miopenStatus_t, (miopenTensorDescriptor_t * tensor))                            \
  X(miopenSetTensorDescriptor, miopenStatus_t,                                                                    \
    (miopenTensorDescriptor_t tensor, int type, int rank, const int* sizes, const int* strides))                  \
  X(miopenDestroyTensorDescriptor, miopenStatus_t, (miopenTensorDescriptor_t tensor))                             \
  X(miopenCreateConvolutionDescriptor, miopenStatus_t, (miopenConvolutionDescriptor_t * how))                     \
  X(miopenInitConvolutionNdDescriptor, miopenStatus_t,                                                            \
    (miopenConvolutionDescriptor_t how, int rank, const int* padding, const int* stride, const int* dilation,     \
     int mode))                                                                                                   \
  X(miopenSetConvolutionGroupCount, miopenStatus_t, (miopenConvolutionDescriptor_t how, int groups))              \
  X(miopenSetConvolutionAttribute, miopenStatus_t, (miopenConvolutionDescriptor_t how, int attribute, int value)) \
  X(miopenDestroyConvolutionDescriptor, miopenStatus_t, (miopenConvolutionDescriptor_t how))                      \
  CRUCIBLE_MIOPEN_CONVOLUTION(X, Forward)                                                                         \
  CRUCIBLE_MIOPEN_CONVOLUTION(X, BackwardData)                                                                    \
  CRUCIBLE_MIOPEN_CONVOLUTION(X, BackwardWeights)

}  // namespace crucible_amd
