// The text form read back: every field of random programs, texts with one byte or line changed, and the words of errors.
#include "core/graph/parse.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "core/graph/passes.hpp"
#include "core/graph/print.hpp"
#include "core/graph/random_program.hpp"

namespace crucible::graph {
namespace {

using testing::HasSubstr;

bool same(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }
bool same(const std::vector<double>& a, const std::vector<double>& b) {
  return std::ranges::equal(a, b, [](double x, double y) { return same(x, y); });
}
bool same(const Operand& a, const Operand& b) {
  return a.value == b.value && a.view == b.view && a.scalar.slot == b.scalar.slot && a.scalar.is_integer == b.scalar.is_integer &&
         same(a.scalar.real, b.scalar.real) && a.scalar.integer == b.scalar.integer;
}
bool same(const std::vector<Operand>& a, const std::vector<Operand>& b) {
  return std::ranges::equal(a, b, [](const Operand& x, const Operand& y) { return same(x, y); });
}
bool same(const Attributes& a, const Attributes& b) {
  return a.dims == b.dims && a.index == b.index && same(a.alpha, b.alpha) && a.region == b.region && std::ranges::equal(a.kernel, b.kernel) &&
         std::ranges::equal(a.stride, b.stride) && std::ranges::equal(a.padding, b.padding) && std::ranges::equal(a.dilation, b.dilation) &&
         a.groups == b.groups;
}

/// The first thing that differs, or "": every field of every structure of program.hpp.
std::string difference(const Program& a, const Program& b) {
  const auto differ = [](const auto& x, const auto& y, auto equal) { return !std::ranges::equal(x, y, equal); };
  if (a.iterations != b.iterations) return "iterations";
  if (a.left_out != b.left_out) return "left out";
  if (differ(a.values, b.values, [](const Value& x, const Value& y) {
        return x.kind == y.kind && x.dtype == y.dtype && x.elements == y.elements && x.name == y.name && x.producer == y.producer;
      })) return "values";
  if (differ(a.ops, b.ops, [](const Op& x, const Op& y) {
        return x.kind == y.kind && same(x.inputs, y.inputs) && same(x.outputs, y.outputs) && same(x.attributes, y.attributes) && x.source == y.source;
      })) return "ops";
  if (differ(a.sources, b.sources, [](const Source& x, const Source& y) {
        return x.op == y.op && x.module == y.module && x.site == y.site && x.phase == y.phase && x.trace_op == y.trace_op;
      })) return "sources";
  if (differ(a.slots, b.slots, [](const Slot& x, const Slot& y) { return x.name == y.name && same(x.values, y.values); })) return "slots";
  if (differ(a.states, b.states, [](const State& x, const State& y) {
        return x.start == y.start && x.end == y.end && x.initial_blob == y.initial_blob && x.final_blob == y.final_blob;
      })) return "states";
  if (differ(a.inputs, b.inputs, [](const Input& x, const Input& y) { return x.value == y.value && x.blobs == y.blobs && x.is_draw == y.is_draw; })) return "inputs";
  if (differ(a.constants, b.constants, [](const Constant& x, const Constant& y) { return x.value == y.value && x.blob == y.blob; })) return "constants";
  if (differ(a.outputs, b.outputs, [](const Output& x, const Output& y) {
        return x.name == y.name && same(x.operand, y.operand) && same(x.recorded, y.recorded) && x.blobs == y.blobs;
      })) return "outputs";
  return "";
}

/// Numbers and names that a careless text form loses.
class Decorator {
 public:
  explicit Decorator(std::uint64_t seed) : random_(seed) {}

  void decorate(Program& p) {
    for (Value& value : p.values) {
      if (chance(3)) value.name = text();
    }
    for (int i = 0; i < 3; ++i) p.sources.push_back({text(), text(), text(), static_cast<Phase>(random_() % 3), number()});
    for (Op& op : p.ops) {
      if (chance(2)) op.source = static_cast<std::uint32_t>(random_() % p.sources.size());
      for (Operand& input : op.inputs) {
        if (input.is_scalar() && input.scalar.slot == kNone && !input.scalar.is_integer) input.scalar.real = real();
      }
      if (const double alpha = real(); op.kind == OpKind::kMatMul && std::isfinite(alpha)) op.attributes.alpha = alpha;
    }
    for (Slot& slot : p.slots) {
      slot.name = text();
      for (double& value : slot.values) value = real();
    }
    for (State& state : p.states) state.initial_blob = number(), state.final_blob = number();
    for (Constant& constant : p.constants) constant.blob = number();
    for (Output& output : p.outputs) {
      output.name = text();
      for (double& value : output.recorded) value = real();
    }
    if (chance(2)) p.left_out = {text(), text()};
  }

 private:
  bool chance(std::uint64_t one_in) { return random_() % one_in == 0; }
  std::uint32_t number() { return chance(3) ? kNone : static_cast<std::uint32_t>(random_() % 100); }
  double real() {
    static constexpr double kAwkward[] = {0.0, -0.0, 1.0, 0.1, 1e308, 5e-324, -1e-310, std::numeric_limits<double>::infinity(), 3.0,
                                          -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(), 1e22, 123456789.0};
    if (chance(12)) return std::bit_cast<double>(0xfff8000000000000ull | random_() % 1000);  // other NaNs
    if (chance(3)) {
      const auto any = std::bit_cast<double>(random_());
      return any;
    }
    return kAwkward[random_() % std::size(kAwkward)];
  }
  std::string text() {
    static constexpr std::string_view kPieces[] = {"blocks.0", " ", "\"", "\\", "\n", "\t", ";", "%3", "->", "\x01", "\x7f", "ü", "x41", "(blob 1)", "]", "\xff"};
    std::string result;
    for (std::uint64_t n = random_() % 5; n > 0; --n) result += kPieces[random_() % std::size(kPieces)];
    return result;
  }

  std::mt19937_64 random_;
};

Program program(std::uint64_t seed) {
  Program p = random_program({.seed = seed, .ops = 5 + static_cast<std::uint32_t>(seed % 40)}).program;
  if (seed % 3 == 0) {
    EXPECT_TRUE(run_passes(p));
  }
  Decorator(seed).decorate(p);
  return p;
}

TEST(Parse, ReadsEveryFieldBack) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const Program p = program(seed);
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
  const Program p = program(1);
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
    std::string text = to_text(program(seed % 60));
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
  const std::string text = to_text(program(4));
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

class ParseMistakes : public testing::TestWithParam<Mistake> {};

TEST_P(ParseMistakes, AreNamedWithLineAndWhatWasExpected) {
  const auto parsed = parse_program(GetParam().text);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code, ErrorCode::kBadInput);
  EXPECT_THAT(parsed.error().message, HasSubstr(GetParam().message));
}

#define HEAD "crucible program 1: 1 ops, 2 values, 1 iterations\n"
#define STATE "state %0 \"w\": f32[6] -> %1 (blob 3, final blob none)\n"

TEST(Parse, TheTextThatTheMistakesChange) { EXPECT_TRUE(parse_program(HEAD STATE "  %1: f32[6] = negate(%0[6])\n")); }

INSTANTIATE_TEST_SUITE_P(
    All, ParseMistakes,
    testing::Values(
        Mistake{"empty", "", "is empty"}, Mistake{"comments", " ; nothing\n\n", "is empty"},
        Mistake{"other", "digraph {\n", "line 1, column 1: expected 'crucible program', found 'digraph {'"},
        Mistake{"version", "crucible program 2: 1 ops", "has version 2; this program reads version 1"},
        Mistake{"line", HEAD "stat %0\n", "line 2, column 1: expected 'slot', 'state'"},
        Mistake{"dtype", HEAD "state %0: f33[6] unchanged (blob 3, final blob none)\n", "line 2, column 11: expected a dtype such as f32, found 'f33[6] unchanged (blob 3'"},
        Mistake{"op", HEAD STATE "  %1: f32[6] = negative(%0[6])\n", "line 3, column 16: expected an op such as add or matmul, found 'negative(%0[6])'"},
        Mistake{"end", HEAD STATE "  %1: f32[6] = negate(%0[6]\n", "line 3, column 28: expected ')', found the end of the line"},
        Mistake{"more", HEAD STATE "  %1: f32[6] = negate(%0[6]) 7\n", "expected the end of the line, found '7'"},
        Mistake{"twice", HEAD STATE "  %0: f32[6] = negate(%0[6])\n", "line 3, column 14: %0 is there twice"},
        Mistake{"beyond", HEAD STATE "  %2: f32[6] = negate(%0[6])\n", "%2 is beyond the 2 values of the first line"},
        Mistake{"fewer", HEAD STATE, "the first line names 1 ops, there are 0"},
        Mistake{"values", "crucible program 1: 0 ops, 2 values, 1 iterations\nstate %0: f32[6] unchanged (blob 3, final blob none)\n", "names 2 values, there are 1"},
        Mistake{"rule", HEAD STATE "  %1: f32[6] = negate(%0[7])\n", "reaches element 6 of %0, which has 6"},
        Mistake{"quote", HEAD "state %0 \"w: f32[6]", "expected '\"', found the end of the line"},
        Mistake{"escape", HEAD "state %0 \"\\q\": f32[6]", "expected an escape"},
        Mistake{"overflow", HEAD STATE "  %1: f32[99999999999999999999] = negate(%0[6])\n", "an integer does not fit in 64 bits"},
        Mistake{"sizes", HEAD STATE "  %1: f32[9223372036854775807, 2] = negate(%0[6])\n", "negative or too large"},
        Mistake{"number", HEAD "slot 1: [0.5]\n", "a slot's number must be 0 here, is 1"},
        Mistake{"real", HEAD "slot 0: [5]\n", "expected a number with a point, found '5]'"},
        Mistake{"not_nan", HEAD "slot 0: [nan(0x3ff0000000000000)]\n", "these bits are not those of a NaN"},
        Mistake{"short_nan", HEAD "slot 0: [nan(0x7ff8)]\n", "expected 16 hexadecimal digits"},
        Mistake{"pair", HEAD STATE "  %1: f32[6] = negate(%0[6], kernel=[1])\n", "needs two numbers, has 1"},
        Mistake{"slot_id", HEAD STATE "  %1: f32[6] = add(%0[6], slot x)\n", "expected the number of a slot"},
        Mistake{"value_id", HEAD STATE "  %-1: f32[6] = negate(%0[6])\n", "a value's number must be 0 to 4294967294, is -1"}),
    [](const auto& info) { return std::string(info.param.what); });

}  // namespace
}  // namespace crucible::graph
