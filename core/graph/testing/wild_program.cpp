// Wild programs: see wild_program.hpp. Here is only which families of ops are drawn how often.
#include "core/graph/testing/wild_program.hpp"

#include "core/graph/random_outline.hpp"
#include "core/graph/testing/wild_builder.hpp"

namespace crucible::graph {
namespace {

constexpr std::array kSteps = {
    &wild_elementwise, &wild_elementwise, &wild_elementwise, &wild_elementwise, &wild_elementwise, &wild_elementwise,
    &wild_identity,    &wild_identity,    &wild_generator,   &wild_reduction,   &wild_along,       &wild_rows,
    &wild_places,      &wild_places,      &wild_matmul,      &wild_convolution, &wild_pooling,
    &wild_factorization, &wild_bits,
};

}  // namespace

RandomProgram wild_program(const WildOptions& options) {
  WildBuilder builder(options);
  if (options.seed % 16 == 0) wild_large_reduction(builder);
  while (builder.program().ops.size() < options.ops) {
    switch (builder.integer(0, 9)) {
      case 0:
        builder.repeat_an_op();
        break;
      case 1:
        builder.write_in_place();
        break;
      default:
        builder.one_of(kSteps)(builder);
    }
  }
  RandomProgram random = builder.finish();
  if (options.seed % 4 == 1) outline_randomly(random, options.seed);
  return random;
}

}  // namespace crucible::graph
