// The elements of recorded bytes as numbers, for what compares values and not bits.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/base/dtype.hpp"

namespace crucible::trace {

/// Elements as doubles, as many as are whole; nothing for types that are no plain numbers. Threads: any.
std::vector<double> numbers_in(std::span<const std::byte> bytes, DType dtype);

}  // namespace crucible::trace
