// Buffers of a device: memory of hipMalloc, whose addresses are the device's own.
#pragma once

#include "backends/amd/device.hpp"
#include "plugins/sdk/graph_memory.hpp"

struct crucible_buffer : crucible::sdk::GraphBuffer<crucible_amd::GraphApi> {};
