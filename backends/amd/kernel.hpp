// What a compiled kernel is on this device, and a set of them.
#pragma once

#include "backends/amd/device.hpp"
#include "plugins/sdk/graph_compile.hpp"

struct crucible_kernel : crucible::sdk::GraphKernel<crucible_amd::GraphApi> {};
struct crucible_module : crucible::sdk::GraphModule<crucible_amd::GraphApi> {};
