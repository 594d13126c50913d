// The text form read back: every field of random programs, texts with one byte or line changed, and the words of
// errors.
#include "core/graph/parse.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "core/graph/awkward_program.hpp"
#include "core/graph/print.hpp"
#include "core/graph/random_program.hpp"

namespace crucible::graph {
namespace {

using testing::HasSubstr;

TEST(Parse, ReadsEveryFieldBack) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const Program p = awkward_program(seed);
    const auto valid = verify(p);
    ASSERT_TRUE(valid) << valid.error().message;
    const std::string text = to_text(p);
    const auto back = parse_program(text);
    ASSERT_TRUE(back) << back.error().message << "\n" << text;
    ASSERT_EQ(difference(p, *back), "") << "seed " << seed << "\n" << text;
    ASSERT_EQ(to_text(*back), text);
  }
}

TEST(Parse, DifferenceSeesAChange) {
  const Program p = awkward_program(2);  // of neutral ops alone
  Program q = p;
  q.ops.back().attributes.dilation[1] += 1;
  EXPECT_EQ(difference(p, q), "ops");
  EXPECT_NE(to_text(p), to_text(q));
}

/// Whatever is done to a text: an error with a line, or a valid program.
TEST(Parse, ChangedTextsAreRefusedOrValid) {
  std::mt19937_64 random(1);
  std::size_t refused = 0, accepted = 0;
  for (std::uint64_t seed = 0; seed < 2500; ++seed) {
    std::string text = to_text(awkward_program(seed % 60));
    for (std::uint64_t n = 1 + random() % 3; n > 0 && !text.empty(); --n) {
      const std::size_t at = random() % text.size();
      const std::size_t begin = text.rfind('\n', at) == std::string::npos ? 0 : text.rfind('\n', at) + 1;
      const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
      switch (random() % 6) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 5);
          break;
        case 2:
          text.insert(at, std::string(1 + random() % 3, "0123456789-%[]{},.@;\"\\ \nenx"[random() % 28]));
          break;
        case 3:
          text.erase(begin, end - begin);
          break;
        case 4:
          text.insert(begin, text.substr(begin, end - begin));
          break;
        default:
          text.resize(at);
      }
    }
    const auto parsed = parse_program(text);
    if (parsed) {
      ++accepted;
      ASSERT_TRUE(verify(*parsed));
    } else {
      ++refused;
      ASSERT_EQ(parsed.error().code, ErrorCode::kBadInput);
      ASSERT_THAT(parsed.error().message, testing::StartsWith("the program's text: "));
    }
  }
  EXPECT_GT(refused, 1500u);
  EXPECT_GT(accepted, 50u);
}

TEST(Parse, BlanksCommentsAndEmptyLinesDoNotCount) {
  const std::string text = to_text(awkward_program(4));
  std::string loose = "\n  ; a comment\n";
  for (const char c : text) loose += c == '\n' ? std::string(" \t ; said\r\n\n") : std::string(1, c);
  const auto parsed = parse_program(loose);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(to_text(*parsed), text);
}

struct Mistake {
  const char* what;
  const char* text;
  const char* message;
};

void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.what; }

class ParseMistakes : public testing::TestWithParam<Mistake> {};

TEST_P(ParseMistakes, AreNamedWithLineAndWhatWasExpected) {
  const auto parsed = parse_program(GetParam().text);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code, ErrorCode::kBadInput);
  EXPECT_THAT(parsed.error().message, HasSubstr(GetParam().message));
}

#define HEAD "crucible program 2: 1 ops, 2 values, 1 iterations\n"
#define STATE "state %0 \"w\": f32[6] -> %1 (blob 3, final blob none)\n"

TEST(Parse, TheTextThatTheMistakesChange) { EXPECT_TRUE(parse_program(HEAD STATE "  %1: f32[6] = negate(%0[6])\n")); }

INSTANTIATE_TEST_SUITE_P(
    All, ParseMistakes,
    testing::Values(
        Mistake{"empty", "", "is empty"}, Mistake{"comments", " ; nothing\n\n", "is empty"},
        Mistake{"other", "digraph {\n", "line 1, column 1: expected 'crucible program', found 'digraph {'"},
        Mistake{"version", "crucible program 1: 1 ops", "has version 1; this program reads version 2"},
        Mistake{"line", HEAD "stat %0\n", "line 2, column 1: expected 'slot', 'state'"},
        Mistake{"dtype", HEAD "state %0: f33[6] unchanged (blob 3, final blob none)\n",
                "line 2, column 11: expected a dtype such as f32, found 'f33[6] unchanged (blob 3'"},
        Mistake{"op", HEAD STATE "  %1: f32[6] = negative(%0[6])\n",
                "line 3, column 16: expected an op such as add or matmul, found 'negative(%0[6])'"},
        Mistake{"end", HEAD STATE "  %1: f32[6] = negate(%0[6]\n",
                "line 3, column 28: expected ')', found the end of the line"},
        Mistake{"more", HEAD STATE "  %1: f32[6] = negate(%0[6]) 7\n", "expected the end of the line, found '7'"},
        Mistake{"twice", HEAD STATE "  %0: f32[6] = negate(%0[6])\n", "line 3, column 14: %0 is there twice"},
        Mistake{"beyond", HEAD STATE "  %2: f32[6] = negate(%0[6])\n", "%2 is beyond the 2 values of the first line"},
        Mistake{"fewer", HEAD STATE, "the first line names 1 ops, there are 0"},
        Mistake{
            "values",
            "crucible program 2: 0 ops, 2 values, 1 iterations\nstate %0: f32[6] unchanged (blob 3, final blob none)\n",
            "names 2 values, there are 1"},
        Mistake{"rule", HEAD STATE "  %1: f32[6] = negate(%0[7])\n", "reaches element 6 of %0, which has 6"},
        Mistake{"quote", HEAD "state %0 \"w: f32[6]", "expected '\"', found the end of the line"},
        Mistake{"escape", HEAD "state %0 \"\\q\": f32[6]", "expected an escape"},
        Mistake{"overflow", HEAD STATE "  %1: f32[99999999999999999999] = negate(%0[6])\n",
                "an integer does not fit in 64 bits"},
        Mistake{"sizes", HEAD STATE "  %1: f32[9223372036854775807, 2] = negate(%0[6])\n", "negative or too large"},
        Mistake{"number", HEAD "slot 1: [0.5]\n", "a slot's number must be 0 here, is 1"},
        Mistake{"real", HEAD "slot 0: [5]\n", "expected a number with a point, found '5]'"},
        Mistake{"not_nan", HEAD "slot 0: [nan(0x3ff0000000000000)]\n", "these bits are not those of a NaN"},
        Mistake{"short_nan", HEAD "slot 0: [nan(0x7ff8)]\n", "expected 16 hexadecimal digits"},
        Mistake{"pair", HEAD STATE "  %1: f32[6] = negate(%0[6], kernel=[1])\n", "needs two numbers, has 1"},
        Mistake{"slot_id", HEAD STATE "  %1: f32[6] = add(%0[6], slot x)\n", "expected the number of a slot"},
        Mistake{"value_id", HEAD STATE "  %-1: f32[6] = negate(%0[6])\n",
                "a value's number must be 0 to 4294967294, is -1"}),
    [](const auto& info) { return std::string(info.param.what); });

}  // namespace
}  // namespace crucible::graph
