// What every plugin must do whose plans have attentions by a vendor's library, as a suite that each such plugin's own
// test instantiates: against sums in double, in plans and op by op.
#pragma once

#include "plugins/sdk/testing/device_plugin.hpp"

namespace crucible::backend {

struct AttentionShape {
  std::int64_t batch = 2, heads = 3, rows = 5, keys = 7, width = 16, values = 16;
  bool is_causal = false;
  bool across = false;  // [batch, rows, heads, width] in memory; else [batch, heads, rows, width]
  double scale = 0.25;
  std::uint32_t kind = CRUCIBLE_LIB_ATTENTION;
};

/// Each tensor `offset` elements behind its buffer's beginning. `dtype` is DType's number.
crucible_library_desc attention_of(const AttentionShape& shape, std::uint32_t dtype = 7, std::int64_t offset = 0);

/// Claims, builds (behind a fill), replays twice and profiles, for each result; "" or what went wrong. `shift`:
/// elements that all buffers begin behind a good place; without `gives_scratch` the plan gets none of what was asked
/// for.
std::string run_attention(const std::shared_ptr<Device>& device, const crucible_library_desc& desc,
                          std::size_t shift = 0, bool gives_scratch = true);

/// The same for a small one on a new device, for emulated libraries with faults.
std::string run_attention_under_faults(const PluginUnderTest& plugin, const char* rules);

/// A plugin whose options demand its library.
class DeviceAttentions : public ::testing::TestWithParam<PluginUnderTest> {
 protected:
  void SetUp() override;
  std::shared_ptr<Device> device_;
};

}  // namespace crucible::backend
