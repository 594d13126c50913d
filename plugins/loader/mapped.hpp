// Whether the code at an address was mapped from the file that we have open: the last check against a file that was
// swapped between looking at it and loading it.
#pragma once

namespace crucible::backend {

/// False when the mapping that has `address` is of another file than `descriptor`; true also where /proc cannot be
/// read. Threads: any.
bool is_mapped_from(const void* address, int descriptor);

}  // namespace crucible::backend
