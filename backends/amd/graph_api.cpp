// Errors after which nothing runs, and nodes' parameters: see graph_api.hpp.
#include "backends/amd/graph_api.hpp"

namespace crucible_amd {

using namespace crucible;

bool GraphApi::is_sticky(hipError_t code) {
  switch (code) {
    case hipErrorECCNotCorrectable:
    case hipErrorIllegalAddress:
    case hipErrorLaunchTimeOut:
    case hipErrorContextIsDestroyed:
    case hipErrorAssert:
    case hipErrorLaunchFailure:
      return true;
    default:
      return false;
  }
}

hipKernelNodeParams GraphApi::kernel_node(hipFunction_t function, const std::array<std::uint32_t, 3>& blocks,
                                          std::uint32_t threads, void** places) {
  hipKernelNodeParams parameters;
  parameters.func = function;
  parameters.gridDim = {blocks[0], blocks[1], blocks[2]};
  parameters.blockDim.x = threads;
  parameters.kernelParams = places;
  return parameters;
}

hipMemsetParams GraphApi::fill_node(const sdk::FilledRange& range) {
  hipMemsetParams fill = {};
  fill.dst = at(range.address);
  fill.value = range.value;
  fill.elementSize = range.element_size;
  fill.width = range.width;
  fill.pitch = range.bytes;
  fill.height = 1;
  return fill;
}

}  // namespace crucible_amd
