// See branches.hpp.
#include "core/graph/branches.hpp"

namespace crucible::graph {

std::string_view name(Guard guard) {
  switch (guard) {
    case Guard::kExtent:
      return "extent";
    case Guard::kFound:
      return "found";
    case Guard::kValue:
      return "value";
    case Guard::kNumber:
      return "number";
    case Guard::kCount:
      return "count";
    case Guard::kKind:
      return "kind";
    case Guard::kMemory:
      return "memory";
    case Guard::kPython:
      return "python";
  }
  return "python";
}

}  // namespace crucible::graph
