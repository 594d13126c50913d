// Values without a recorded origin: what is told, and what is the normal life of memory that comes unfilled.
#include "core/trace/unrecorded.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "core/trace/trace_maker.hpp"

namespace crucible::trace {
namespace {

using samples::tensor_of;
using samples::TraceMaker;
using ::testing::HasSubstr;

constexpr const char* kEmpty = "aten::empty.memory_format(SymInt[] size) -> Tensor";
constexpr const char* kRelu = "aten::relu(Tensor self) -> Tensor";
constexpr const char* kView = "aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)";
constexpr const char* kCopy = "aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)";
constexpr const char* kMulInPlace = "aten::mul_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)";
constexpr const char* kAddOut = "aten::add.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)";
constexpr const char* kZerosLike = "aten::zeros_like(Tensor self) -> Tensor";
constexpr const char* kBaddbmm =
    "aten::baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor";
constexpr const char* kIndexPut = "aten::index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values) -> Tensor(a!)";
constexpr const char* kResize = "aten::resize_(Tensor(a!) self, SymInt[] size) -> Tensor(a!)";
constexpr const char* kForeachMul = "aten::_foreach_mul_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()";

class Unrecorded : public ::testing::Test {
 protected:
  Unrecorded() { maker_.begin_iteration(); }
  /// A tensor of 8 that `empty` returned.
  TensorId empty(std::vector<std::int64_t> sizes = {8}) {
    const TensorId made = maker_.tensor(std::move(sizes));
    maker_.op(kEmpty, {samples::list_of({})}, {tensor_of(made)});
    return made;
  }
  TensorId part(TensorId of, std::int64_t offset, std::vector<std::int64_t> sizes, std::vector<std::int64_t> strides) {
    Tensor tensor = maker_.trace.tensors[of];
    tensor.offset = offset;
    tensor.sizes = std::move(sizes);
    tensor.strides = std::move(strides);
    maker_.trace.tensors.push_back(std::move(tensor));
    return static_cast<TensorId>(maker_.trace.tensors.size() - 1);
  }
  void fill(TensorId target) {
    const TensorId source = maker_.tensor(maker_.trace.tensors[target].sizes);
    maker_.op(kCopy, {tensor_of(target), tensor_of(source), samples::integer(0)}, {tensor_of(target)});
  }
  void read(TensorId from) { maker_.op(kRelu, {tensor_of(from)}, {tensor_of(maker_.tensor({1}))}); }
  std::vector<UnrecordedWrite> found() { return unrecorded_writes(maker_.trace); }

  TraceMaker maker_;
};

TEST_F(Unrecorded, MemoryOfEmptyThatIsRead) {
  const TensorId memory = empty();
  maker_.op(kView, {tensor_of(memory), samples::list_of({})}, {tensor_of(maker_.view(memory, {2, 4}))});
  read(memory);
  read(memory);  // the same value
  const auto writes = found();
  ASSERT_EQ(writes.size(), 1u);
  EXPECT_EQ(writes[0].before, "aten::empty.memory_format");
  EXPECT_EQ(writes[0].after, "aten::relu");
  EXPECT_EQ(count_values(writes), 1u);
  EXPECT_FALSE(writes[0].is_part);
  EXPECT_THAT(describe(maker_.trace, writes[0]),
              HasSubstr("memory that aten::empty.memory_format left is read by aten::relu"));
}

TEST_F(Unrecorded, FilledMemoryIsNot) {
  const TensorId whole = empty(), out = empty(), sum = empty();
  fill(whole);
  read(whole);
  maker_.op(kAddOut, {tensor_of(whole), tensor_of(whole), tensor_of(out)}, {tensor_of(out)});
  read(out);
  maker_.op(kZerosLike, {tensor_of(sum)}, {tensor_of(maker_.tensor({8}))});  // of its form alone
  EXPECT_TRUE(found().empty());
}

TEST_F(Unrecorded, SlicesFillItPieceByPiece) {
  const TensorId memory = empty({2, 4});
  const TensorId left = part(memory, 0, {2, 3}, {4, 1}), right = part(memory, 3, {2, 1}, {4, 1});
  fill(left);
  read(left);  // what is written
  EXPECT_TRUE(found().empty());
  fill(right);
  read(memory);
  EXPECT_TRUE(found().empty());
}

TEST_F(Unrecorded, APartThatNobodyWrote) {
  const TensorId memory = empty({2, 4});
  fill(part(memory, 0, {2, 3}, {4, 1}));
  read(memory);
  const auto writes = found();
  ASSERT_EQ(writes.size(), 1u);
  EXPECT_TRUE(writes[0].is_part);
  EXPECT_EQ(writes[0].before, "aten::copy_");
}

TEST_F(Unrecorded, OpsInPlaceReadWhatTheyChange) {
  const TensorId one = empty(), two = empty();
  maker_.op(kMulInPlace, {tensor_of(one), samples::number(2)}, {tensor_of(one)});
  maker_.op(kForeachMul, {samples::list_of({tensor_of(two)}), samples::number(2)}, {});
  EXPECT_EQ(count_values(found()), 2u);
}

TEST_F(Unrecorded, AFactorOfZeroReadsNothing) {
  for (const double beta : {0.0, 1.0}) {
    const TensorId memory = empty({1, 2, 4}), a = maker_.tensor({1, 2, 3}), b = maker_.tensor({1, 3, 4});
    maker_.op(kBaddbmm, {tensor_of(memory), tensor_of(a), tensor_of(b), samples::number(beta), samples::number(1)},
              {tensor_of(maker_.tensor({1, 2, 4}))});
    EXPECT_EQ(count_values(found()), beta == 0 ? 0u : 1u);
  }
}

TEST_F(Unrecorded, WritesByValueCountAsAll) {
  const TensorId memory = empty(), values = maker_.tensor({8});
  maker_.op(kIndexPut, {tensor_of(memory), samples::list_of({}), tensor_of(values)}, {tensor_of(memory)});
  read(memory);
  EXPECT_TRUE(found().empty());
}

TEST_F(Unrecorded, WhatResizeAdds) {
  const TensorId small = empty({4});
  fill(small);
  maker_.trace.storages[maker_.trace.tensors[small].storage].size_bytes = 32;
  const TensorId large = part(small, 0, {8}, {1});
  maker_.op(kResize, {tensor_of(small), samples::list_of({})}, {tensor_of(large)});
  read(small);
  EXPECT_TRUE(found().empty());
  read(large);
  EXPECT_EQ(count_values(found()), 1u);
}

TEST_F(Unrecorded, FilledBetweenTwoIterationsIsAnInput) {
  const TensorId memory = empty();
  maker_.begin_iteration();
  maker_.external(memory, Role::kUnknown, "", 1);
  read(memory);
  EXPECT_TRUE(found().empty());
}

TEST_F(Unrecorded, AnOutputThatNobodyWrote) {
  const TensorId memory = empty();
  maker_.trace.outputs.push_back({0, "0", memory, maker_.blob(memory, 1)});
  const auto writes = found();
  ASSERT_EQ(writes.size(), 1u);
  EXPECT_EQ(writes[0].after, "an output");
}

TEST_F(Unrecorded, ChangesThatTheRecorderSaw) {
  maker_.trace.not_recorded.push_back({changed_memory_text("aten::relu", "aten::add.Tensor", "body.3"), 2, kNone});
  maker_.trace.not_recorded.push_back({changed_memory_text("aten::mul", "", ""), 1, kNone});
  maker_.trace.not_recorded.push_back({"something else", 9, kNone});
  const auto writes = found();
  ASSERT_EQ(writes.size(), 2u);
  EXPECT_EQ(writes[0].before, "aten::relu");
  EXPECT_EQ(writes[0].after, "aten::add.Tensor");
  EXPECT_EQ(writes[0].module, "body.3");
  EXPECT_EQ(writes[1].after, "the end of the iteration");
  EXPECT_EQ(count_values(writes), 3u);
}

/// Random writes and reads of views of one storage, against a map of its elements.
TEST_F(Unrecorded, RandomViewsAgreeWithAMapOfElements) {
  std::mt19937 random(7);
  int flagged = 0;
  for (int round = 0; round < 400; ++round) {
    maker_ = TraceMaker();
    maker_.begin_iteration();
    const TensorId memory = empty({6, 6});
    std::vector<bool> written(36, false);
    bool expected = false;
    for (int step = 0; step < 8 && !expected; ++step) {
      const auto draw = [&](std::int64_t most) {
        return static_cast<std::int64_t>(random() % static_cast<unsigned>(most));
      };
      const std::int64_t rows = 1 + draw(3), columns = 1 + draw(3), row_step = 1 + draw(2), column_step = 1 + draw(2);
      const std::int64_t offset = draw(6 - (rows - 1) * row_step) * 6 + draw(6 - (columns - 1) * column_step);
      std::vector<std::int64_t> sizes{rows, columns}, strides{6 * row_step, column_step};
      if (random() % 2 == 0) std::swap(sizes[0], sizes[1]), std::swap(strides[0], strides[1]);
      const TensorId view = part(memory, offset, sizes, strides);
      const bool is_write = random() % 3 != 0;
      is_write ? fill(view) : read(view);
      for (std::int64_t i = 0; i < sizes[0]; ++i) {
        for (std::int64_t k = 0; k < sizes[1]; ++k) {
          const auto element = static_cast<std::size_t>(offset + i * strides[0] + k * strides[1]);
          if (is_write) written[element] = true;
          expected |= !is_write && !written[element];
        }
      }
    }
    EXPECT_EQ(count_values(found()), expected ? 1u : 0u) << "round " << round;
    flagged += expected ? 1 : 0;
  }
  EXPECT_GT(flagged, 100);
  EXPECT_LT(flagged, 400);
}

}  // namespace
}  // namespace crucible::trace
