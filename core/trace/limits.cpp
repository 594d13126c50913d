#include "core/trace/limits.hpp"

namespace crucible::trace {

namespace {

Limits& of_process() {
  static Limits limits;
  return limits;
}

}  // namespace

const Limits& limits() { return of_process(); }

void set_limits(const Limits& limits) { of_process() = limits; }

}  // namespace crucible::trace
