// Programs of any number of ops, in the shapes that real ones grow to: what scale_bench.cpp and linear_test.cpp take
// through scheduling, checking and planning.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "core/graph/program.hpp"

namespace crucible::scale {

struct Shape {
  std::string_view name;
  graph::Program (*make)(std::size_t ops);  // about so many
};

std::span<const Shape> shapes();

}  // namespace crucible::scale
