// What every plugin must do whose plans have convolutions by a vendor's library, as a suite that each such plugin's own
// test instantiates: forward and both gradients against sums in double, in plans and op by op.
#pragma once

#include <array>

#include "plugins/sdk/testing/device_plugin.hpp"

namespace crucible::backend {

struct ConvolutionShape {
  std::int64_t n = 2, channels = 4, height = 9, width = 7, outputs = 6, groups = 1;
  std::array<std::int64_t, 2> kernel = {3, 3}, stride = {1, 1}, padding = {0, 0}, dilation = {1, 1};
};

/// Dense tensors of one layout, each `offset` elements behind its buffer's beginning. `kind` is CRUCIBLE_LIB_CONV2D...,
/// dtype DType's number.
crucible_library_desc convolution_of(const ConvolutionShape& shape, std::uint32_t kind, std::uint32_t dtype = 8,
                                     bool is_channels_last = false, std::int64_t offset = 0);

/// Claims, builds (behind a fill), replays twice and profiles; "" or what went wrong. `shift`: elements that all
/// buffers begin behind a good place; without `gives_scratch` the plan gets none of what was asked for.
std::string run_convolution(const std::shared_ptr<Device>& device, const crucible_library_desc& desc,
                            std::size_t shift = 0, bool gives_scratch = true);

/// The same for a small one on a new device, for emulated libraries with faults.
std::string run_convolution_under_faults(const PluginUnderTest& plugin, const char* rules,
                                         std::uint32_t kind = CRUCIBLE_LIB_CONV2D, std::uint32_t dtype = 8);

/// A plugin whose options demand its library.
class DeviceConvolutions : public ::testing::TestWithParam<PluginUnderTest> {
 protected:
  void SetUp() override;
  std::shared_ptr<Device> device_;
};

}  // namespace crucible::backend
