// Programs with modules, for tests of regions: training steps of equal layers, and random programs with random names.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/graph/program.hpp"

namespace crucible::merkle::testing {

struct Layers {
  std::size_t layers = 3;
  std::int64_t width = 16;
  std::int64_t wide_layer = -1;  // the layer whose inner width is twice that; -1: none
  double head_scale = 0.5;       // what the loss is multiplied with
  bool shared_mask = false;      // a mask that the first layer makes and all of them read
  bool shared_modules = false;   // all layers are calls of one module, with others in between
  std::string prefix = "blocks";
};

/// Forward: per layer two products, tanh between them, and the sum with what came in. Backward and SGD with momentum.
graph::Program layered(const Layers& options);

/// Ops get phases and modules by chance, phases so that they do not end too early.
void named_randomly(graph::Program& program, std::uint64_t seed);

/// Calls visit with a copy of the program in which one field that says what is computed is another, and what it was.
void for_each_field(const graph::Program& program,
                    const std::function<void(const graph::Program&, const std::string&)>& visit);

}  // namespace crucible::merkle::testing
