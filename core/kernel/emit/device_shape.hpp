// What of a device shapes its kernels: how work is cut and which tiles fit into registers. No bit of a result depends
// on it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace crucible::kernel {

struct DeviceShape {
  int workers = 0;                  // threads (or units) that share a launch; 0: unknown
  std::int64_t register_bytes = 0;  // of a thread's vector registers together; 0: unknown
  // Items that a unit runs in step, each with registers and little else of its own (a warp, a wave); 1: a processor's
  // threads, with caches.
  int lanes = 1;
  std::size_t cut = 0;  // of a product's ways to be cut (ProductCut), best score first; beyond the last: the last
};

/// One way to cut a product: the tile in registers, what a work item owns, and what the model thinks of it.
struct ProductCut {
  std::int64_t tile_rows = 0, tile_columns = 0;
  std::int64_t item_rows = 0, item_columns = 0;
  double score =
      0;  // multiply-adds, copies counted in their worth, of the thread that has most to do: the less the better
  bool operator==(const ProductCut&) const = default;
};

}  // namespace crucible::kernel
