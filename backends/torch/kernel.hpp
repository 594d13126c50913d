// A compiled kernel: one opaque op.
#pragma once

#include "backends/torch/call.hpp"

struct crucible_kernel {
  crucible_torch::Call call;
};
