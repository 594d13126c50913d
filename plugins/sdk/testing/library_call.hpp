// A call of a vendor's library, as plans run it in the tests of plugins: every element of the result, and the scratch
// that was not given.
#pragma once

#include <functional>
#include <vector>

#include "plugins/sdk/testing/device_plugin.hpp"

namespace crucible::backend {

struct LibraryRun {
  crucible_library_desc desc = {};
  std::vector<std::vector<double>> values = {};  // what the description's buffers begin with
  std::size_t result = 0;                        // which of them is written, or is looked at of several
  std::vector<std::uint32_t> dtypes = {};        // of each; empty: all are of the first view's
  std::function<std::vector<double>()> expected = {};  // what it holds then, all of it; asked for what is claimed alone
  double absolute = 0, relative = 0;             // how far an element may be off, the second times what is expected
  std::size_t shift = 0;                         // elements by which all buffers lie behind a good place
  bool gives_scratch = true;                     // else the plan gets none of what was asked for
};

/// Claims the call and runs it behind a fill, as a plan, once more and op by op. "" when all is right, else what is
/// wrong.
std::string run_library_call(const std::shared_ptr<Device>& device, const LibraryRun& run);

}  // namespace crucible::backend
