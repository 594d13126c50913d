// `crucible devices --self-test`: whether a device computes what strict numerics name.
#pragma once

#include "core/base/result.hpp"
#include "frontends/replay/open_device.hpp"

namespace crucible::cli {

using namespace replay;

/// Opens, tests - with `all_patterns` on each of the 2^32 of a float - and prints; 1 when anything differs. Errors:
/// those of open_device() and runtime::self_test().
Result<int> self_test_device(const DeviceChoice& choice, bool all_patterns, bool json);

}  // namespace crucible::cli
