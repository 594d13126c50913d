// What of a device shapes its kernels: how work is cut and which tiles fit into registers. No bit of a result depends on it.
#pragma once

#include <cstdint>

namespace crucible::kernel {

struct DeviceShape {
  int workers = 0;                  // threads (or units) that share a launch; 0: unknown
  std::int64_t register_bytes = 0;  // of a thread's vector registers together; 0: unknown
};

}  // namespace crucible::kernel
