// Iterations whose ops came from several threads at once (torch.jit.fork, crucible.record_thread()): each has them in
// an order of its own, and every order that keeps what depends on what is the same program.
#pragma once

#include <cstdint>
#include <vector>

#include "core/trace/trace.hpp"

namespace crucible::aten {

/// `other`, ops of one iteration, in the order in which `first`, those of another, has the corresponding ones. As it
/// was when both are of one thread alone, or do not correspond in any order that keeps reads and writes of each storage
/// apart.
std::vector<std::uint32_t> in_order_of(const trace::Trace& trace, const std::vector<std::uint32_t>& first,
                                       std::vector<std::uint32_t> other);

}  // namespace crucible::aten
