// Two runs: where they part, and what is said of it.
#include "frontends/runlog/compare.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontends/runlog/again.hpp"
#include "frontends/runlog/testing/log_samples.hpp"

namespace crucible::runlog {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::sample_begin;
using testing::sample_end;
using testing::sample_iteration;

RunData run(std::uint64_t iterations = 4) {
  RunData data{.name = "aaaa", .begin = sample_begin(iterations), .iterations = {}, .end = sample_end(iterations)};
  for (std::uint64_t at = 0; at < iterations; ++at) data.iterations.push_back(sample_iteration(at));
  return data;
}

TEST(Comparison, OfEqualRuns) {
  const RunData a = run();
  RunData b = run();
  b.name = "bbbb";
  b.begin.machine.device = "opencl:0";
  b.begin.started = "later";
  const Comparison comparison = compare(a, b);
  EXPECT_TRUE(comparison.is_equal());
  EXPECT_EQ(comparison.compared, 4u);
  EXPECT_THAT(in_words(comparison, a, b),
              HasSubstr("equal: both strict, the same program: the state after 4 iterations is equal: " +
                        sample_iteration(3).state.hex()));
  b.begin.numerics = "fast";
  EXPECT_THAT(in_words(compare(a, b), a, b), HasSubstr("equal: not both strict, so that nothing is promised"));
}

TEST(Comparison, NamesTheFirstIterationThatDiffers) {
  const RunData a = run();
  RunData b = run();
  for (std::size_t at = 2; at < 4; ++at) b.iterations[at] = sample_iteration(at, "other");
  b.end = sample_end(4, "other");
  const Comparison comparison = compare(a, b);
  EXPECT_FALSE(comparison.is_equal());
  ASSERT_TRUE(comparison.parting);
  EXPECT_EQ(comparison.parting->iteration, 2u);
  EXPECT_EQ(comparison.parting->what, "outputs");
  EXPECT_EQ(comparison.parting->last_equal, 1u);
  EXPECT_THAT(comparison.states_apart, ElementsAre("layer.weight (f32, 4 elements)"));
  EXPECT_THAT(in_words(comparison, a, b),
              AllOf(HasSubstr("they part in iteration 2: other outputs; after iteration 1 they were equal"),
                    HasSubstr("1 of 2 differ at the end:\n    layer.weight (f32, 4 elements)"),
                    HasSubstr("not equal: both strict")));
  EXPECT_FALSE(is_again(comparison, a));
}

TEST(Comparison, KnowsWhatDiffers) {
  const auto what = [](auto change) {
    const RunData a = run();
    RunData b = run();
    change(b.iterations[1]);
    const Comparison comparison = compare(a, b);
    EXPECT_FALSE(comparison.is_equal());
    return comparison.parting ? comparison.parting->what : "";
  };
  const ContentHash other = testing::hash_of_text("other");
  EXPECT_EQ(what([&](IterationRecord& iteration) { iteration.inputs = other; }), "inputs");
  EXPECT_EQ(what([&](IterationRecord& iteration) { iteration.slots = other; }), "numbers");
  EXPECT_EQ(what([&](IterationRecord& iteration) { iteration.outputs = other; }), "outputs");
  EXPECT_EQ(what([&](IterationRecord& iteration) { iteration.state = other; }), "state");
}

TEST(Comparison, OfIterationsThatBothLogged) {
  const RunData a = run(6);
  RunData b = run(6);
  b.begin.every = 2;
  std::erase_if(b.iterations, [](const IterationRecord& iteration) { return iteration.index % 2 == 0; });
  EXPECT_EQ(compare(a, b).compared, 3u);
  EXPECT_TRUE(compare(a, b).is_equal());
  b.iterations.back() = sample_iteration(5, "other");
  EXPECT_EQ(compare(a, b).parting->last_equal, 3u);
}

TEST(Comparison, AnotherBeginningIsSaid) {
  const RunData a = run();
  RunData b = run();
  b.begin.program.hash = testing::hash_of_text("another program");
  EXPECT_FALSE(compare(a, b).is_equal());
  EXPECT_THAT(in_words(compare(a, b), a, b), HasSubstr("program    another one:"));
  b = run();
  b.begin.state = testing::hash_of_text("another start");
  EXPECT_FALSE(compare(a, b).is_equal());
  EXPECT_THAT(in_words(compare(a, b), a, b), HasSubstr("start      another state:"));
  b = run();
  b.begin.source.content = testing::hash_of_text("another recording");
  EXPECT_TRUE(compare(a, b).is_equal()) << "the same program on the same inputs";
  EXPECT_THAT(in_words(compare(a, b), a, b), HasSubstr("recording  another one:"));
}

TEST(Comparison, ARunThatDidNotEndIsNotEqual) {
  const RunData a = run();
  RunData b = run();
  b.end.reset();
  EXPECT_FALSE(compare(a, b).is_equal());
  EXPECT_THAT(in_words(compare(a, b), a, b), HasSubstr("aaaa has no end"));
  b = run();
  b.iterations.resize(2);
  b.end = sample_end(2);
  b.end->ending = Ending::kInterrupted;
  const Comparison shorter = compare(a, b);
  EXPECT_FALSE(shorter.is_equal());
  EXPECT_THAT(
      in_words(shorter, a, b),
      AllOf(HasSubstr("aaaa was interrupted after 2 iterations"),
            HasSubstr("not equal: one ran 4 iterations, the other 2; as far as both were logged they are equal"),
            Not(HasSubstr("they part"))));
}

TEST(Comparison, TheSameAgainIsAsFarAsItWasLogged) {
  RunData interrupted = run();
  interrupted.iterations.resize(2);
  interrupted.end = sample_end(2);
  interrupted.end->ending = Ending::kInterrupted;
  const RunData again = run(2);
  EXPECT_FALSE(compare(interrupted, again).is_equal());  // one of them did not end
  EXPECT_TRUE(is_again(compare(interrupted, again), interrupted));
  RunData other = again;
  other.end->state = testing::hash_of_text("other");
  EXPECT_FALSE(is_again(compare(interrupted, other), interrupted));
}

}  // namespace
}  // namespace crucible::runlog
