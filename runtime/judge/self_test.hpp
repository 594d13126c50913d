// Whether a device computes what strict numerics name: one kernel of each function and rule on bit patterns from all
// over, and the hash of the results beside the one that every admitted device has. What a device says of itself does
// not count.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "plugins/loader/backend.hpp"

namespace crucible::runtime {

struct SelfTestItem {
  std::string_view name;        // "exp", "multiply, then add"
  std::string expected, found;  // the first 16 digits of the SHA-256 of all results, NaN of any sign and payload one
  bool passed() const { return expected == found; }
};

struct SelfTest {
  std::vector<SelfTestItem> items;
  std::uint64_t samples = 0;  // bit patterns of an operand
  bool passed() const;
  /// "exp, divide": the items that did not.
  std::string failed() const;
};

/// How many bit patterns: 2^18 where a program waits for it, 2^22 on demand, or each of the 2^32 that a float has -
/// functions of one operand and conversions alone, about an hour on two cores.
enum class Extent : std::uint8_t { kStartUp, kOnDemand, kAll };

/// Told the share that is done, 0 to 1.
using SelfTestProgress = std::function<void(double)>;

/// Runs the test. With Extent::kAll `expected` and `found` are sums of a mixed word per pattern instead of SHA-256.
/// Errors: those of compiling and running.
Result<SelfTest> self_test(const std::shared_ptr<backend::Device>& device, Extent extent,
                           const SelfTestProgress& progress = {});

/// Refuses a device that does not pass. The verdict of one that does is kept in the store of its plugin, if it has one,
/// and the test left out when it is there for exactly this device, driver, compiler and version. Errors: kUnavailable,
/// naming what failed; those of self_test().
Result<void> admit_to_strict(const std::shared_ptr<backend::Device>& device);

}  // namespace crucible::runtime
