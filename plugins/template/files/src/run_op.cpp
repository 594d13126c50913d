// (8) Running one op: here on the calling thread, over the whole grid at once.
#include <cstring>

#include "plan.hpp"

namespace acme {

void run_op(crucible_device&, const PlanOp& op) {
  switch (op.kind) {
    case CRUCIBLE_OP_LAUNCH:
      if (op.grid > 0) op.kernel->function(op.buffers.data(), reinterpret_cast<const double*>(op.scalars.data()), 0, op.grid);
      return;
    case CRUCIBLE_OP_COPY:
      if (op.size != 0) std::memcpy(op.buffers[0], op.buffers[1], op.size);
      return;
    case CRUCIBLE_OP_FILL:
      if (op.size != 0) std::memset(op.buffers[0], op.pattern, op.size);
      return;
    default:
      return;  // build() refuses every other kind
  }
}

}  // namespace acme
