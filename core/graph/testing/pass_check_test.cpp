// Passes on random programs: each alone and all of them, bit for bit. CRUCIBLE_RANDOM_PROGRAMS says how many programs
// (2000 where it is not set), CRUCIBLE_RANDOM_SEED the first one's seed. A failure is printed as small as it gets.
#include "core/graph/testing/pass_check.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "core/graph/testing/shrink.hpp"
#include "core/graph/testing/wild_program.hpp"

namespace crucible::graph {
namespace {

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(PassesOnWildPrograms, KeepEveryBit) {
  const std::uint64_t count = setting("CRUCIBLE_RANDOM_PROGRAMS", 2000), first = setting("CRUCIBLE_RANDOM_SEED", 0);
  int failures = 0;
  for (std::uint64_t seed = first; seed < first + count && failures < 5; ++seed) {
    const auto iteration = static_cast<std::uint32_t>(seed % 2);
    const RandomProgram random = wild_program({.seed = seed});
    const auto failure = check_passes(random, passes(), iteration);
    if (!failure) continue;
    ++failures;
    const RandomProgram small = shrink(random, [&](const RandomProgram& r) {
      const auto now = check_passes(r, passes(), iteration);
      return now && now->pass == failure->pass;
    });
    const auto now = check_passes(small, passes(), iteration);
    ADD_FAILURE() << "seed " << seed << ": " << failure->pass << ": " << failure->what << "\nthe smallest program: "
                  << (now ? now->what : "") << "\n" << with_data(small);
  }
}

TEST(PassesOnRandomPrograms, KeepEveryBit) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const auto failure = check_passes(random_program({.seed = seed, .ops = 40}));
    EXPECT_FALSE(failure) << "seed " << seed << ": " << failure->pass << ": " << failure->what;
  }
}

}  // namespace
}  // namespace crucible::graph
