// All passes in their order; what each makes of small programs stands in testing/passes, of random ones in
// random_program_test.cpp.
#include "core/graph/passes.hpp"

#include <gtest/gtest.h>

#include "core/graph/random_program.hpp"

namespace crucible::graph {
namespace {

TEST(Passes, AllRunAndReport) {
  Program p = random_program({}).program;
  std::size_t seen = 0;
  auto result = run_passes(p, {}, [&](const Pass& pass, const Program&, std::uint64_t) {
    EXPECT_FALSE(pass.name.empty());
    ++seen;
  });
  ASSERT_TRUE(result);
  EXPECT_EQ(seen, passes().size());
}

TEST(Passes, ASecondRunChangesNothing) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    RandomOptions options;
    options.seed = seed;
    Program p = random_program(options).program;
    ASSERT_TRUE(run_passes(p));
    const std::string once = to_text(p);
    ASSERT_TRUE(run_passes(p));
    ASSERT_EQ(to_text(p), once) << "seed " << seed;
  }
}

}  // namespace
}  // namespace crucible::graph
