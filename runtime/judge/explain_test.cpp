// What is explained before a verdict is "no": by the reference interpreter with rough arithmetic, and op by op. On the
// interpreter itself, so that every number is known.
#include "runtime/judge/explain.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "runtime/judge/side_by_side.hpp"
#include "runtime/testing/test_programs.hpp"
#include "runtime/testing/test_variants.hpp"

namespace crucible::runtime {
namespace {

using graph::OpKind;
using graph::ValueId;
using ::testing::HasSubstr;

constexpr std::int64_t kTerms = 120000;

std::vector<std::byte> bytes_of(const std::vector<float>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

/// w becomes w / |x|, with |x| a norm of a few large and many small numbers. `norm` is what the recording has for it.
struct Clipped {
  Recording recording;
  std::vector<float> x;

  explicit Clipped(double norm_error) : recording(made()) {
    x.assign(kTerms, 6e-4F);
    std::fill_n(x.begin(), 8, 3.0F);
    recording.program.constants[0].blob = recording.blobs->add(bytes_of(x));
    recording.program.states[0].initial_blob = recording.blobs->add(bytes_of({0.75F, -0.3F}));
    double squares = 0;
    for (const float one : x) squares += static_cast<double>(one) * one;
    const double norm = std::sqrt(squares) * (1 + norm_error);
    recording.program.states[0].final_blob =
        recording.blobs->add(bytes_of({static_cast<float>(0.75 / norm), static_cast<float>(-0.3 / norm)}));
  }

  static Recording made() {
    ProgramBuilder b;
    const ValueId w = b.state("w", {2}), x = b.constant("x", {kTerms});
    const ValueId square = b.op(OpKind::kMultiply, {b.whole(x), b.whole(x)}, {kTerms});
    graph::Attributes all;
    all.dims = {0};
    const ValueId sum = b.op(OpKind::kReduceSum, {b.whole(square)}, {1}, all);
    const ValueId norm = b.op(OpKind::kSqrt, {b.whole(sum)}, {1});
    graph::Operand spread = b.whole(norm);
    spread.view = {0, {2}, {0}};
    b.end_state(w, b.op(OpKind::kDivide, {b.whole(w), spread}, {2}));
    return record(b.program, 1, 3);
  }

  /// What eager's eight f32 lanes make of the sum: terms of 3.6e-7 beside 9 are rounded to nothing.
  double error_of_lanes() const {
    float lanes[8] = {};
    for (std::size_t i = 0; i < x.size(); ++i) lanes[i % 8] += x[i] * x[i];
    double sum = 0, exact = 0;
    for (const float lane : lanes) sum += lane;
    for (const float one : x) exact += static_cast<double>(one) * one;
    return std::sqrt(sum / exact) - 1;
  }

  Verification judged() {
    auto session =
        Session::create_reference(std::make_shared<const graph::Program>(recording.program), recording.blobs);
    EXPECT_TRUE(session) << session.error().message;
    std::vector<IterationResult> results = {*(*session)->run(0)};
    Verification verdict = *(*session)->verify(results);
    const RunEnd end = *(*session)->end_of_run(results);
    Spread spread;
    EXPECT_TRUE((*session)->start_spread(results, spread));
    for (int i = 0; i < 3; ++i) EXPECT_TRUE((*session)->widen_spread(spread));
    consider_spread(verdict, spread);
    if (verdict.differs()) {
      EXPECT_TRUE(consider_reference(verdict, recording.variants(), *recording.blobs, end, ExplainOptions{}));
    }
    return verdict;
  }
};

TEST(Explain, ASumThatEagerRoundsAwayIsNamed) {
  const double error = Clipped(0).error_of_lanes();
  ASSERT_GT(std::fabs(error), 2e-4) << "a recording that is beyond the tolerance";
  const Verification verdict = Clipped(error).judged();
  EXPECT_TRUE(verdict.verified) << verdict.reason;
  EXPECT_EQ(verdict.verdict, "yes, 1 state is not determined by the arithmetic");
  ASSERT_EQ(verdict.notes.size(), 1U);
  EXPECT_THAT(verdict.notes[0], HasSubstr("eager PyTorch is the less exact one in 1 states and 0 losses"));
  EXPECT_TRUE(verdict.states[0].is_eager_inexact);
}

TEST(Explain, AnErrorThatNoSumMakesIsOne) {
  const Verification verdict = Clipped(20 * Clipped(0).error_of_lanes()).judged();
  EXPECT_FALSE(verdict.verified);
  EXPECT_THAT(verdict.verdict, HasSubstr("no: after iteration 0: 1 of 1 states differ"));
  ASSERT_EQ(verdict.notes.size(), 1U);
  EXPECT_THAT(verdict.notes[0],
              HasSubstr("agrees with the replay and not with the recording, and no rounding explains that"));
}

TEST(Explain, AFactorIsNoChaos) {
  const Gap chaos{.largest = 0.3, .rms = 0.02, .median = 1e-7}, tolerable{.largest = 0.5, .rms = 0.03, .median = 2e-7};
  EXPECT_TRUE(is_explained(tolerable, 1e-4, chaos));
  EXPECT_FALSE(is_explained({.largest = 0.5, .rms = 0.03, .median = 1e-4}, 1e-4, chaos)) << "all elements are off";
  EXPECT_FALSE(is_explained({.largest = 0.5, .rms = 0.1, .median = 0}, 1e-4, chaos)) << "many are";
  EXPECT_FALSE(is_explained({.largest = 1.3, .rms = 0.03, .median = 0}, 1e-4, chaos));
}

TEST(CheckOps, EachOpWithAnErrorIsTheFirstOne) {
  const Recording recording = record(training_step(), 2, 11);
  for (graph::OpId op = 0; op < recording.program.ops.size(); ++op) {
    const auto watched =
        std::make_shared<const graph::Program>(with_error(with_every_result(recording.program), op, 1.001));
    auto session = Session::create_reference(watched, recording.blobs);
    ASSERT_TRUE(session) << session.error().message;
    const auto check = check_ops(recording.variants(), *recording.blobs, **session, {});
    ASSERT_TRUE(check) << check.error().message;
    ASSERT_NE(check->first(), nullptr) << "op " << op;
    EXPECT_EQ(check->first()->op, op);
    EXPECT_EQ(check->first()->iteration, 0U);
    EXPECT_NEAR(check->first()->difference, 1e-3, 1e-5);
    EXPECT_THAT(in_words(recording.variants(), *check->first()),
                HasSubstr("iteration 0, op " + std::to_string(op) + " ("));
  }
}

/// with_error() before the result is rounded to bf16: a number of bf16 times 1.001 rounds to itself.
graph::Program with_error_inside(graph::Program program, graph::OpId op, double factor) {
  program = with_error(std::move(program), op, factor);  // right, wrong = right * factor
  const ValueId right = program.ops[op].outputs[0].value, wrong = program.ops[op + 1].outputs[0].value;
  program.values[right].dtype = DType::kF32;
  const auto scaled = static_cast<ValueId>(program.values.size());
  program.values.push_back(program.values[right]);
  graph::Operand whole = program.ops[op + 1].outputs[0];
  program.ops[op + 1].outputs[0].value = whole.value = scaled;
  graph::Operand narrow = whole;
  narrow.value = wrong;
  program.ops.insert(
      program.ops.begin() + op + 2,
      {.kind = OpKind::kCopy, .inputs = {whole}, .outputs = {narrow}, .attributes = {}, .source = graph::kNone});
  for (graph::OpId id = 0; id < program.ops.size(); ++id) {
    for (const graph::Operand& output : program.ops[id].outputs) program.values[output.value].producer = id;
  }
  return program;
}

/// An op that is wrong by a thousandth in bf16, where numbers are four thousandths apart.
TEST(CheckOps, AnErrorThatRoundingsHideLeansToOneSide) {
  constexpr std::int64_t kMany = 4096, kFew = 16;
  for (const std::int64_t count : {kMany, kFew}) {
    ProgramBuilder b;
    const ValueId w = b.state("w", {count}), x = b.constant("x", {count});
    b.end_state(w, b.op(OpKind::kMultiply, {b.whole(w), b.whole(x)}, {count}));
    for (graph::Value& value : b.program.values) value.dtype = DType::kBF16;
    graph::RandomProgram random{.program = b.program, .values = {}, .slots = {}};
    random.values.resize(b.program.values.size());
    for (std::uint16_t i = 0; i < count; ++i) {
      for (const auto& [value, bits] : {std::pair(w, 0x3f00 + i % 128), std::pair(x, 0x3f00 + i / 32)}) {  // 0.5 to 1
        random.values[value].push_back(static_cast<std::byte>(bits & 255));
        random.values[value].push_back(static_cast<std::byte>(bits >> 8));
      }
    }
    const Recording recording = record(std::move(random), 2);
    for (const double factor : {1.0, 1.001, 0.999}) {
      auto session = Session::create_reference(
          std::make_shared<const graph::Program>(with_error_inside(with_every_result(recording.program), 0, factor)),
          recording.blobs);
      ASSERT_TRUE(session) << session.error().message;
      const auto check =
          check_ops(recording.variants(), *recording.blobs, **session, {.differences = 5, .iterations = 1});
      ASSERT_TRUE(check) << check.error().message;
      EXPECT_EQ(check->iterations, 1U);
      EXPECT_EQ(check->differences.size(), factor != 1 && count == kMany ? 1U : 0U) << factor << " of " << count;
      if (check->first() == nullptr) continue;
      EXPECT_NEAR(check->first()->lean, factor - 1, 3e-4);
      EXPECT_THAT(in_words(recording.variants(), *check->first()),
                  HasSubstr("each element is within a rounding, but all lean to one side, by "));
    }
  }
}

/// A product of bf16 into f32: that its operands are rounded to eight bits is no reason for the product to be off by a
/// thousandth.
TEST(CheckOps, OperandsThatAreNarrowerThanTheResultExcuseNothing) {
  constexpr std::int64_t kSide = 8;
  ProgramBuilder b;
  const ValueId w = b.state("w", {kSide, kSide}), x = b.constant("x", {kSide, kSide});
  const ValueId product = b.op(OpKind::kMatMul, {b.whole(x), b.whole(x)}, {kSide, kSide});
  b.end_state(w, b.op(OpKind::kAdd, {b.whole(w), b.whole(product)}, {kSide, kSide}));
  b.program.values[x].dtype = DType::kBF16;
  graph::RandomProgram random{.program = b.program, .values = {}, .slots = {}};
  random.values.resize(b.program.values.size());
  random.values[w] = bytes_of(std::vector<float>(kSide * kSide, 0.0F));
  for (std::uint16_t i = 0; i < kSide * kSide; ++i) {
    const auto bits = static_cast<std::uint16_t>(0x3f00 + i * 3);
    random.values[x].push_back(static_cast<std::byte>(bits & 255));
    random.values[x].push_back(static_cast<std::byte>(bits >> 8));
  }
  const Recording recording = record(std::move(random), 1);
  for (const double factor : {1.0, 1.001}) {
    auto session = Session::create_reference(
        std::make_shared<const graph::Program>(with_error(with_every_result(recording.program), 0, factor)),
        recording.blobs);
    ASSERT_TRUE(session) << session.error().message;
    const auto check = check_ops(recording.variants(), *recording.blobs, **session, {});
    ASSERT_TRUE(check) << check.error().message;
    EXPECT_EQ(check->first() != nullptr, factor != 1);
    if (check->first() != nullptr) {
      EXPECT_EQ(check->first()->op, 0U);
    }
  }
}

TEST(CheckOps, FindsAsManyDifferencesAsAreAsked) {
  const Recording recording = record(training_step(), 2, 11);
  graph::Program wrong = with_every_result(recording.program);
  wrong = with_error(with_error(std::move(wrong), 3, 1.001), 1, 1.001);
  for (const std::size_t most : {1U, 2U, 9U}) {
    auto session = Session::create_reference(std::make_shared<const graph::Program>(wrong), recording.blobs);
    ASSERT_TRUE(session) << session.error().message;
    const auto check = check_ops(recording.variants(), *recording.blobs, **session, {.differences = most});
    ASSERT_TRUE(check) << check.error().message;
    ASSERT_EQ(check->differences.size(), std::min<std::size_t>(most, 4)) << "two ops, two iterations";
    EXPECT_EQ(check->differences[0].op, 1U);
    if (most > 1) {
      EXPECT_EQ(check->differences[1].op, 3U);
    }
  }
}

TEST(CheckOps, ARightRunIsRightInEveryResult) {
  const Recording recording = record(training_step(), 3, 12);
  auto session = Session::create_reference(std::make_shared<const graph::Program>(with_every_result(recording.program)),
                                           recording.blobs);
  ASSERT_TRUE(session) << session.error().message;
  const auto check = check_ops(recording.variants(), *recording.blobs, **session, {});
  ASSERT_TRUE(check) << check.error().message;
  EXPECT_EQ(check->first(), nullptr) << in_words(recording.variants(), *check->first());
  EXPECT_EQ(check->iterations, 3U);
  EXPECT_EQ(check->results, 3 * recording.program.ops.size());
}

TEST(CloserLook, KnowsWhatIsFurtherAwayThanRoundingsExplain) {
  const auto is_far = [](double loss, double output, double state, double of_runs) {
    IterationResult result;
    result.losses = {1 + loss, 5};
    result.recorded_losses = {1, std::nan("")};  // the second one was not recorded
    OutputDifference shown;
    shown.max_rel_diff = output;
    result.outputs = {shown};
    Verification verdict;
    verdict.states.emplace_back();
    verdict.states[0].max_rel_diff = state;
    Spread spread;
    spread.states = {Gap{.largest = of_runs, .rms = of_runs, .median = of_runs}};
    spread.losses = {{of_runs, 0}};
    spread.outputs = {{of_runs}};
    return is_far_for_roundings(verdict, {result}, spread);
  };
  EXPECT_FALSE(is_far(0, 0, 0, 0));
  EXPECT_FALSE(is_far(1e-6, 1e-6, 1e-6, 0)) << "less than any of it counts";
  EXPECT_TRUE(is_far(5e-6, 0, 0, 1e-7));
  EXPECT_TRUE(is_far(0, 5e-6, 0, 1e-7));
  EXPECT_TRUE(is_far(0, 0, 5e-6, 1e-7));
  EXPECT_FALSE(is_far(5e-6, 5e-6, 5e-6, 1e-6)) << "runs one rounding apart part as far";
}

TEST(Verdict, SaysWhatIsNoNumber) {
  EXPECT_EQ(words_of_difference(1.0, 0.5), "");
  EXPECT_EQ(words_of_difference(1.0, 0.0), "the recorded one is 0");
  EXPECT_EQ(words_of_difference(std::nan(""), 0.5), "it is nan, recorded is 0.5");
  EXPECT_EQ(words_of_difference(DType::kF32, bytes_of({1, std::nanf("")}), bytes_of({1, 2})),
            "element 1 is nan, recorded is 2");
  EXPECT_EQ(words_of_difference(DType::kF32, bytes_of({0, 1e-9F}), bytes_of({0, 0})),
            "all recorded elements are 0, the largest one is 1e-09");
  EXPECT_EQ(words_of_difference(DType::kF32, bytes_of({1, 2}), bytes_of({1, 3})), "");
}

TEST(Verdict, StatesOfOneNameAreTold) {
  ProgramBuilder b;
  for (int i = 0; i < 2; ++i) {
    const ValueId x = b.state("exp_avg of w", {2});
    b.end_state(x, b.op(OpKind::kMultiply, {b.whole(x), ProgramBuilder::number(0.5)}, {2}));
  }
  Recording recording = record(b.program, 1, 5);
  recording.program.states[1].final_blob = recording.blobs->add(bytes_of({std::nanf(""), 1}));
  auto session = Session::create_reference(std::make_shared<const graph::Program>(recording.program), recording.blobs);
  std::vector<IterationResult> results = {*(*session)->run(0)};
  const Verification verdict = *(*session)->verify(results);
  EXPECT_EQ(verdict.states[0].name, "exp_avg of w (2)");
  EXPECT_EQ(verdict.states[1].name, "exp_avg of w");
  EXPECT_THAT(verdict.verdict, HasSubstr("exp_avg of w (2) most (element 0 is"));
  EXPECT_THAT(verdict.verdict, ::testing::Not(HasSubstr("inf")));
}

}  // namespace
}  // namespace crucible::runtime
