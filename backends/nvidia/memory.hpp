// Buffers of a device, whose addresses are the device's own; where their memory comes from is in allocator.hpp.
#pragma once

#include "backends/nvidia/allocator.hpp"
#include "backends/nvidia/device.hpp"
#include "plugins/sdk/graph_memory.hpp"

struct crucible_buffer : crucible::sdk::GraphBuffer<crucible_nvidia::GraphApi> {};
