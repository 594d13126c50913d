// Before fusion, for devices whose threads run in step: products and convolutions of few results and many steps in
// pieces, which are work of their own. The chunks of 256 steps that the named order has (docs/numerics.md) become
// results that lie one behind the other, and a sum adds them up in their order, so no bit changes. That sum is an
// op like any other: it fuses with what takes the result.
#pragma once

#include <optional>

#include "core/graph/program.hpp"
#include "core/kernel/schedule.hpp"

namespace crucible::kernel {

/// How many pieces a product of these is taken in on the device; 0: it stays whole. `results` and `steps` are its own.
std::int64_t pieces_of(std::int64_t results, std::int64_t steps, const DeviceShape& device);

/// The program with the products in pieces that no library takes and that leave the device idle. Values keep their
/// numbers, and new ones come after them. Nothing where there are none.
std::optional<graph::Program> split_products(const graph::Program& program, const Options& options);

}  // namespace crucible::kernel
