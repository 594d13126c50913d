// Where variants part, and by what.
#include "frontends/aten/recording/branches.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "frontends/aten/testing/lowered_trace.hpp"

namespace crucible::aten {
namespace {

using B = TraceBuilder;
using graph::Guard;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kItem = "aten::_local_scalar_dense(Tensor self) -> Scalar";
constexpr const char* kRand = "aten::rand(SymInt[] size, *, ScalarType? dtype=None) -> Tensor";
constexpr const char* kNonzero = "aten::nonzero(Tensor self) -> Tensor";

graph::Branches branches_of(TraceBuilder& b) {
  const auto variants = lower_variants(b.trace(), Opaques::kMissing);
  EXPECT_TRUE(variants) << variants.error().message;
  return variants ? find_branches(b.trace(), *variants) : graph::Branches{};
}

trace::TensorId parameter(TraceBuilder& b, std::vector<std::int64_t> sizes) {
  const trace::TensorId id = b.fresh(sizes);
  b.external(b.storage_of(id), Floats(static_cast<std::size_t>(sizes[0]), 1.0f), trace::Role::kParameter);
  return id;
}

void halve(TraceBuilder& b, trace::TensorId x) { b.op(kMulInPlace, {B::tensor(x), B::number(0.5)}, {B::tensor(x)}); }

std::vector<std::string> outcomes(const graph::Branch& branch) {
  std::vector<std::string> texts;
  for (const graph::Arm& arm : branch.arms) texts.push_back(arm.when);
  return texts;
}

TEST(Branches, AProgramWithoutVariantsHasNone) {
  TraceBuilder b;
  const auto x = parameter(b, {2});
  for (int i = 0; i < 2; ++i) {
    halve(b, x);
    b.end_iteration();
  }
  EXPECT_TRUE(branches_of(b).empty());
}

TEST(Branches, ByTheSizeOfWhatCameFromOutside) {
  TraceBuilder b;
  const auto p = parameter(b, {2});
  for (const int size : {2, 3, 2}) {
    halve(b, p);
    const auto x = b.fresh({size}), sum = b.fresh({});
    b.external(b.storage_of(x), Floats(static_cast<std::size_t>(size), 1.0f), trace::Role::kInput);
    b.op(kSum, {B::tensor(x), B::none()}, {B::tensor(sum)});
    halve(b, p);
    b.end_iteration();
  }
  const auto branches = branches_of(b);
  ASSERT_EQ(branches.size(), 1u);
  EXPECT_EQ(branches[0].guard, Guard::kExtent);
  EXPECT_EQ(branches[0].op, 1u);
  EXPECT_EQ(branches[0].alike_after, 1u);
  EXPECT_EQ(branches[0].words, "the size of what aten::sum takes as self");
  EXPECT_THAT(outcomes(branches[0]), ElementsAre("[2]", "[3]"));
  EXPECT_EQ(branches[0].arms[0].iterations, 2u);
}

TEST(Branches, ByAValueThatLeftAndWasCompared) {
  TraceBuilder b;
  const auto x = parameter(b, {2});
  for (const int step : {3, 4, 7, 8}) {
    b.op(kItem, {B::tensor(x)}, {B::number(step)});
    b.op(kItem, {B::tensor(x)}, {B::number(step % 2)});  // tells nothing apart
    halve(b, x);
    if (step > 5) b.op(kZero, {B::tensor(x)}, {B::tensor(x)});
    halve(b, x);
    b.end_iteration();
  }
  const auto branches = branches_of(b);
  ASSERT_EQ(branches.size(), 1u);
  EXPECT_EQ(branches[0].guard, Guard::kValue);
  EXPECT_THAT(branches[0].words, HasSubstr("what item() gave Python at train.py"));
  EXPECT_THAT(outcomes(branches[0]), ElementsAre("3.0, 4.0", "7.0, 8.0"));
}

TEST(Branches, ByANumberThatPythonGave) {
  for (const bool has_left : {false, true}) {
    SCOPED_TRACE(has_left);
    TraceBuilder b;
    const auto x = parameter(b, {2});
    for (const int size : {2, 3}) {
      halve(b, x);
      if (has_left) b.op(kItem, {B::tensor(x)}, {B::integer(size)});
      const auto made = b.fresh({size});
      const auto op = b.op(kRand, {B::integers({size}), B::none()}, {B::tensor(made)});
      b.draw(op, 0, Floats(static_cast<std::size_t>(size), 0.5f));
      b.end_iteration();
    }
    const auto branches = branches_of(b);
    ASSERT_EQ(branches.size(), 1u);
    EXPECT_EQ(branches[0].guard, has_left ? Guard::kValue : Guard::kNumber);
    EXPECT_THAT(branches[0].words, HasSubstr(has_left ? "which aten::rand takes" : "Python gives aten::rand as size"));
    EXPECT_THAT(outcomes(branches[0]), has_left ? ElementsAre("2", "3") : ElementsAre("[2]", "[3]"));
  }
}

TEST(Branches, ByHowManyElementsAnOpFound) {
  TraceBuilder b;
  const auto x = parameter(b, {4});
  for (const int found : {2, 3}) {
    halve(b, x);
    b.op(kNonzero, {B::tensor(x)}, {B::tensor(b.fresh({found, 1}, DType::kI64))});
    b.end_iteration();
  }
  const auto branches = branches_of(b);
  ASSERT_EQ(branches.size(), 1u);
  EXPECT_EQ(branches[0].guard, Guard::kFound);
  EXPECT_EQ(branches[0].words, "how many elements aten::nonzero found");
  EXPECT_THAT(outcomes(branches[0]), ElementsAre("[2, 1]", "[3, 1]"));
}

TEST(Branches, ByHowOftenOpsRun) {
  TraceBuilder b;
  const auto x = parameter(b, {2}), y = parameter(b, {2});
  for (const int times : {2, 4, 3}) {
    for (int k = 0; k < times; ++k) {
      halve(b, x);
      b.op(kAddInPlace, {B::tensor(y), B::tensor(x), B::integer(1)}, {B::tensor(y)});
      b.op(kCopyInPlace, {B::tensor(x), B::tensor(y), B::boolean(false)}, {B::tensor(x)});
    }
    b.op(kZero, {B::tensor(x)}, {B::tensor(x)});
    b.end_iteration();
  }
  const auto branches = branches_of(b);
  ASSERT_EQ(branches.size(), 1u) << branches[0].words << "; " << branches[1].words;
  EXPECT_EQ(branches[0].guard, Guard::kCount);
  EXPECT_THAT(branches[0].words, HasSubstr("how often the 3 ops from train.py"));
  EXPECT_THAT(outcomes(branches[0]), ElementsAre("twice", "4 times", "3 times"));
  EXPECT_EQ(branches[0].alike_after, 1u);
}

TEST(Branches, ByAReasonThatNobodyRecorded) {
  TraceBuilder b;
  const auto x = parameter(b, {2});
  for (int i = 0; i < 2; ++i) {
    halve(b, x);
    if (i == 1) b.op(kZero, {B::tensor(x)}, {B::tensor(x)});
    b.end_iteration();
  }
  const auto branches = branches_of(b);
  ASSERT_EQ(branches.size(), 1u);
  EXPECT_EQ(branches[0].guard, Guard::kPython);
  EXPECT_THAT(outcomes(branches[0]), ElementsAre("the iteration ends", "aten::zero_"));
}

TEST(Branches, ByNumbersThatShapeTheProgram) {
  TraceBuilder b;
  const auto x = b.fresh({2, 2});
  b.external(b.storage_of(x), {1, 2, 3, 4}, trace::Role::kParameter);
  for (int i = 0; i < 2; ++i) {
    b.op("aten::_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
         {B::tensor(x), B::integer(i), B::boolean(false)}, {B::tensor(b.fresh({2, 2}))});
    b.end_iteration();
  }
  const auto branches = branches_of(b);
  ASSERT_EQ(branches.size(), 1u);
  EXPECT_EQ(branches[0].guard, Guard::kMemory);
}

/// What two iterations' ops have in common, compared by what stands in the recording and not by hashes.
std::size_t alike(const trace::Trace& trace, std::uint32_t a, std::uint32_t b, bool is_from_end) {
  const trace::Iteration &x = trace.iterations[a], &y = trace.iterations[b];
  std::size_t n = 0;
  for (; n < std::min(x.op_count, y.op_count); ++n) {
    const trace::Op& p = trace.ops[is_from_end ? x.first_op + x.op_count - 1 - n : x.first_op + n];
    const trace::Op& q = trace.ops[is_from_end ? y.first_op + y.op_count - 1 - n : y.first_op + n];
    if (p.schema != q.schema) return n;
    for (std::size_t k = 0; k < p.args.size(); ++k) {
      if (p.args[k].kind == trace::Arg::Kind::kTensor &&
          trace.tensors[p.args[k].tensor].sizes != trace.tensors[q.args[k].tensor].sizes)
        return n;
    }
  }
  return n;
}

TEST(Branches, OfRandomProgramsAreATreeOfWhatIterationsHaveInCommon) {
  std::size_t with_branches = 0;
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    TraceBuilder b;
    const trace::TensorId tensors[] = {parameter(b, {2}), parameter(b, {3})};
    for (const auto x : tensors) halve(b, x);
    b.end_iteration();
    for (std::uint32_t i = 0; i < 2 + seed % 7; ++i) {
      const std::uint32_t kind = random() % 5, length = 1 + random() % 6;
      for (std::uint32_t k = 0; k < length; ++k) {
        const auto x = tensors[(kind >> (k % 3)) & 1];
        (k * kind) % 3 == 0 ? halve(b, x) : void(b.op(kZero, {B::tensor(x)}, {B::tensor(x)}));
      }
      b.end_iteration();
    }
    const trace::Trace& trace = b.trace();
    const auto variants = lower_variants(trace);
    ASSERT_TRUE(variants) << variants.error().message;
    const auto branches = find_branches(trace, *variants);
    EXPECT_EQ(branches.empty(), variants->programs.size() == 1);
    with_branches += !branches.empty();
    std::vector<std::uint32_t> first(variants->programs.size(), graph::kNone);
    for (const graph::Turn& turn : variants->turns) first[turn.variant] = std::min(first[turn.variant], turn.iteration);
    std::multiset<std::uint32_t> ends;
    for (std::size_t n = 0; n < branches.size(); ++n) {
      const graph::Branch& branch = branches[n];
      ASSERT_GT(branch.arms.size(), 1u);
      for (const graph::Arm& arm : branch.arms) {
        EXPECT_EQ(arm.next == graph::kNone, arm.variants.size() == 1);
        if (arm.next == graph::kNone) ends.insert(arm.variants[0]);
        EXPECT_GT(arm.next, n);  // kNone is a large number
        for (const graph::Arm& other : branch.arms) {
          for (const auto v : arm.variants) {
            for (const auto w : other.variants) {
              const std::size_t same = alike(trace, first[v], first[w], false);
              const bool is_count = branch.guard == Guard::kCount;  // ways part further on, too
              EXPECT_TRUE(&arm == &other ? v == w || same > branch.op
                          : is_count     ? same >= branch.op
                                         : same == branch.op);
              EXPECT_GE(alike(trace, first[v], first[w], true), branch.alike_after);
            }
          }
        }
      }
    }
    EXPECT_EQ(ends.size(), branches.empty() ? 0 : variants->programs.size());
    EXPECT_EQ(std::set(ends.begin(), ends.end()).size(), ends.size());
  }
  EXPECT_GT(with_branches, 250u);
}

}  // namespace
}  // namespace crucible::aten
