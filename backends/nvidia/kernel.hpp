// What a compiled kernel is on this device, and a set of them.
#pragma once

#include "backends/nvidia/device.hpp"
#include "plugins/sdk/graph_compile.hpp"

struct crucible_kernel : crucible::sdk::GraphKernel<crucible_nvidia::GraphApi> {};
struct crucible_module : crucible::sdk::GraphModule<crucible_nvidia::GraphApi> {};
