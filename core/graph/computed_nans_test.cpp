// Which bitcasts name NaN: by where the elements that they look at come from.
#include "core/graph/computed_nans.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/graph/bitcast.hpp"
#include "core/graph/parse.hpp"

namespace crucible::graph {
namespace {

/// One digit per bitcast: 1 where it names NaN. `ops` read the input %0 of i32, the input %1 and the state %2 of f32,
/// all of four elements, and %3 of four bools.
std::string named(const std::string& ops, int count, const std::string& state_end = "%2") {
  std::string text =
      "crucible program 2: " + std::to_string(count) + " ops, " + std::to_string(4 + count) + " values, 1 iterations\n";
  text += "state %2 \"w\": f32[4] -> " + state_end + " (blob none, final blob none)\n";
  text +=
      "input %0 \"i\": i32[4] (blobs [none])\ninput %1 \"x\": f32[4] (blobs [none])\ninput %3 \"b\": bool[4] (blobs "
      "[none])\n" +
      ops;
  auto program = parse_program(text);
  EXPECT_TRUE(program) << program.error().message << "\n" << text;
  if (!program) return "";
  const std::size_t count_named = name_computed_nans(*program);
  const auto verified = verify(*program);
  EXPECT_TRUE(verified) << verified.error().message;
  EXPECT_EQ(name_computed_nans(*program), count_named) << "a second time";
  std::string digits;
  for (const Op& op : program->ops) {
    if (is_bitcast(*program, op)) digits += names_nans(op) ? '1' : '0';
  }
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(digits, '1')), count_named);
  return digits;
}

constexpr const char* kFromBits = "  %4: f32[4] = concat(%0[4], dims=[0])\n";
constexpr const char* kComputed = "  %5: f32[4] = divide(%1[4], %2[4])\n";

TEST(ComputedNans, OfArithmeticAreNamed) {
  EXPECT_EQ(named("  %4: f32[4] = divide(%1[4], %1[4])\n  %5: i32[4] = concat(%4[4], dims=[0])\n", 2), "1");
  EXPECT_EQ(named("  %4: f16[4] = copy(%1[4])\n  %5: i16[4] = concat(%4[4], dims=[0])\n", 2), "1") << "a conversion";
  EXPECT_EQ(named("  %4: f32[4] = fill(nan)\n  %5: i32[4] = concat(%4[4], dims=[0])\n", 2), "1");
  EXPECT_EQ(
      named("  %4: f32[4] = sqrt(%1[4])\n  %5: f32[4] = copy(%4[4])\n  %6: i16[4] = concat(%5[2], dims=[0])\n", 3), "1")
      << "moved since";
}

TEST(ComputedNans, BitsThatWereMovedStay) {
  EXPECT_EQ(named("  %4: i32[4] = concat(%1[4], dims=[0])\n  %5: i16[8] = concat(%2[4], dims=[0])\n", 2), "00")
      << "what came from outside";
  const std::string moved =
      "  %5: f32[4] = copy(%4[4])\n  %6: f32[4] = select(%3[4], %5[4], 1.0)\n  %7: f32[8] = concat(%6[4], %1[4], "
      "dims=[0])\n";
  EXPECT_EQ(named(kFromBits + moved + "  %8: i32[8] = concat(%7[8], dims=[0])\n", 5), "00");
}

TEST(ComputedNans, IntegersAmongThemDecide) {
  const std::string joined = "  %6: f32[4] = select(%3[4], %4[4], %5[4])\n  %7: i32[4] = concat(%6[4], dims=[0])\n";
  EXPECT_EQ(named(std::string(kFromBits) + kComputed + joined, 4), "00") << "no integer is changed";
  const std::string outside = "  %4: f32[4] = copy(%2[4])\n";
  EXPECT_EQ(named(outside + kComputed + joined, 4), "1") << "what came from outside is named with what was computed";
}

TEST(ComputedNans, StatesCarryThemToTheNextIteration) {
  const std::string ops = "  %4: i32[4] = concat(%2[4], dims=[0])\n  %5: f32[4] = divide(%2[4], %1[4])\n";
  EXPECT_EQ(named(ops, 2), "0");
  EXPECT_EQ(named(ops, 2, "%5"), "1");
}

}  // namespace
}  // namespace crucible::graph
