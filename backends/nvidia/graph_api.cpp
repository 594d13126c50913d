// Errors after which nothing runs, and nodes' parameters: see graph_api.hpp.
#include "backends/nvidia/graph_api.hpp"

#include <bit>

namespace crucible_nvidia {

using namespace crucible;

bool GraphApi::is_sticky(CUresult code) {
  switch (code) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
      return true;
    default:
      return false;
  }
}

CUDA_KERNEL_NODE_PARAMS GraphApi::kernel_node(CUfunction function, const std::array<std::uint32_t, 3>& blocks,
                                              std::uint32_t threads, void** places) {
  CUDA_KERNEL_NODE_PARAMS parameters = {};
  parameters.func = function;
  parameters.gridDimX = blocks[0], parameters.gridDimY = blocks[1], parameters.gridDimZ = blocks[2];
  parameters.blockDimX = threads;
  parameters.blockDimY = parameters.blockDimZ = 1;
  parameters.kernelParams = places;
  return parameters;
}

std::vector<CUDA_MEMCPY3D> GraphApi::copy_nodes(CUdeviceptr to, CUdeviceptr from, std::uint64_t size,
                                                std::uint64_t most_pitch) {
  std::vector<CUDA_MEMCPY3D> copies;
  const auto add = [&](std::uint64_t begin, std::uint64_t width, std::uint64_t rows) {
    CUDA_MEMCPY3D& copy = copies.emplace_back();
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = to + begin;
    copy.srcDevice = from + begin;
    copy.WidthInBytes = copy.srcPitch = copy.dstPitch = width;
    copy.Height = copy.srcHeight = copy.dstHeight = rows;
    copy.Depth = 1;
  };
  if (size <= most_pitch) {
    add(0, size, 1);
    return copies;
  }
  const std::uint64_t row = std::bit_floor(most_pitch), rest = size % row;
  add(0, row, size / row);
  if (rest != 0) add(size - rest, rest, 1);
  return copies;
}

CUDA_MEMSET_NODE_PARAMS GraphApi::fill_node(const sdk::FilledRange& range) {
  CUDA_MEMSET_NODE_PARAMS fill = {};
  fill.dst = range.address;
  fill.value = range.value;
  fill.elementSize = range.element_size;
  fill.width = range.width;
  fill.pitch = range.bytes;
  fill.height = 1;
  return fill;
}

}  // namespace crucible_nvidia
