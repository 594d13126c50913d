// Before fusion, for devices whose threads run in step: neighbouring threads of a product have neighbouring columns
// (emit/thread_product.cpp), so that of an operand whose columns lie apart each of them reads another line. Where a
// product is large, such an operand is copied first, columns side by side. Copies change no bit.
#pragma once

#include <optional>

#include "core/graph/program.hpp"
#include "core/kernel/schedule.hpp"

namespace crucible::kernel {

/// The program with copies of operands for products that no library takes. Values keep their numbers, and new ones come
/// after them. Nothing where none is worth it.
std::optional<graph::Program> turn_operands(const graph::Program& program, const Options& options);

}  // namespace crucible::kernel
