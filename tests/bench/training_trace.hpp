// Recordings of any size without a framework: a transformer trained by AdamW, block after block, as PyTorch records it
// below autograd. Shapes are small, for what the library does with an op does not depend on them.
#pragma once

#include <cstddef>

#include "core/trace/trace.hpp"

namespace crucible::bench {

struct TrainingShape {
  std::size_t ops = 10000;     // per iteration, at least; whole blocks are added until there are as many
  std::size_t iterations = 1;  // recorded ones, which differ in the learning rate alone
  bool foreach = false;        // the optimizer's steps take all parameters at once
};

/// The ops' numbers, shapes and wiring are such that the lowering takes the trace and that nothing is dead.
trace::Trace training_trace(const TrainingShape& shape);

}  // namespace crucible::bench
