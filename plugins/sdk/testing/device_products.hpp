// What every plugin must do whose plans have matrix products by a vendor's library, as a suite that each such plugin's
// own test instantiates: products against sums in double, in plans, one by one and after other ops.
#pragma once

#include "plugins/sdk/testing/device_plugin.hpp"

namespace crucible::backend {

/// A plugin whose options name its library too.
class DeviceProducts : public ::testing::TestWithParam<PluginUnderTest> {
 protected:
  void SetUp() override;
  Result<std::uint64_t> claim(const crucible_library_desc& desc);
  /// Claims and runs the product, as a plan and op by op, behind a fill and before a copy, and compares every element;
  /// those outside of the result's view must stay as they are. Returns the scratch. `shift`: elements by which all
  /// operands lie behind a good place; without `gives_scratch` the plan gets none of what was asked for.
  std::uint64_t check(const crucible_library_desc& desc, std::size_t shift = 0, bool gives_scratch = true);
  std::shared_ptr<Device> device_;
};

/// A plugin whose library has epilogues.
class DeviceEpilogues : public DeviceProducts {};

/// A plugin without a library of products whose device has matrix units that kernels are generated for.
class DeviceMatrixProducts : public DeviceProducts {
 protected:
  void SetUp() override;
};

/// dtype is DType's number.
crucible_view view_of(std::vector<std::int64_t> sizes, std::vector<std::int64_t> strides, std::int64_t offset = 0,
                      std::uint32_t dtype = 8);
crucible_library_desc product_of(const crucible_view& a, const crucible_view& b, const crucible_view& c,
                                 double alpha = 1);

/// Runs a product of two 64 x 64 matrices on a new device and says what went wrong, for emulated libraries with faults.
/// "" where nothing did, "wrong result" where only the result is.
std::string run_product_under_faults(const PluginUnderTest& plugin, const char* rules, std::int64_t k = 64);

}  // namespace crucible::backend
