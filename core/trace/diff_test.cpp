// Differences of recordings that differ in one thing, and the words for it.
#include "core/trace/diff.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "core/trace/memory_blob_store.hpp"
#include "core/trace/trace_maker.hpp"
#include "core/trace/trace_samples.hpp"

namespace crucible::trace {
namespace {

using samples::TraceMaker;
using samples::TrainingOptions;
using samples::tensor_of;
using samples::training_trace;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> texts(const Trace& a, const Trace& b, bool all = false) {
  const auto found = diff(a, b, {.all = all, .limit = 0});
  EXPECT_TRUE(found);
  EXPECT_EQ(found->count, found->differences.size());
  std::vector<std::string> lines;
  for (const Difference& difference : found->differences) lines.push_back(difference.text());
  return lines;
}

/// What the difference is called when `change` is done to the second recording.
std::vector<std::string> after(const std::function<void(Trace&)>& change, bool all = false) {
  Trace changed = training_trace();
  change(changed);
  return texts(training_trace(), changed, all);
}

TEST(Diff, EqualRecordings) {
  EXPECT_THAT(texts(training_trace(), training_trace(), true), ElementsAre());
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Trace trace = samples::random_trace(seed, 60);
    EXPECT_THAT(texts(trace, trace, true), ElementsAre()) << seed;
  }
}

TEST(Diff, ScalarWithAllDigits) {
  TrainingOptions other;
  other.iterations = 1;
  TrainingOptions same = other;
  other.rate = 0.30000000000000004;
  EXPECT_THAT(texts(training_trace(same), training_trace(other)),
              ElementsAre("iteration 0, op 5 aten::add_.Tensor (train.py:15), argument alpha: -0.1 against "
                          "-0.30000000000000004"));
}

TEST(Diff, ShapesAreNotMissingOps) {
  TrainingOptions other;
  other.iterations = 1;
  TrainingOptions same = other;
  other.batch = 16;
  const auto lines = texts(training_trace(same), training_trace(other));
  EXPECT_EQ(lines[0], "iteration 0, op 0 aten::mm (train.py:10), argument self: shape [8, 4] against [16, 4]");
  for (const std::string& line : lines) {
    EXPECT_THAT(line, ::testing::AnyOf(HasSubstr("shape ["), HasSubstr("storage of "), HasSubstr("external bytes")))
        << line;
  }
}

TEST(Diff, OneInsertedOpIsOneDifference) {
  TrainingOptions other;
  other.extra_op = true;
  EXPECT_THAT(texts(training_trace(), training_trace(other)),
              ElementsAre("iteration 1, op 2 aten::relu (train.py:11): only in the second"));
  EXPECT_THAT(texts(training_trace(other), training_trace()),
              ElementsAre("iteration 1, op 2 aten::relu (train.py:11): only in the first"));
}

TEST(Diff, AnotherOpInItsPlace) {
  EXPECT_THAT(after([](Trace& t) {
                t.schemas.push_back({"aten::gelu", "", "aten::gelu(Tensor self) -> Tensor"});
                t.ops[7].schema = static_cast<SchemaId>(t.schemas.size() - 1);
              }),
              ElementsAre("iteration 1, op 1 aten::relu (train.py:11): against aten::gelu"));
}

TEST(Diff, TensorFields) {
  EXPECT_THAT(
      after([](Trace& t) {
        t.tensors[t.ops[0].args[1].tensor].requires_grad = true;
        t.iterations.resize(1);
      }),
      ::testing::Contains("iteration 0, op 0 aten::mm (train.py:10), argument mat2: requires_grad false against true"));
  EXPECT_THAT(
      after([](Trace& t) {
        Tensor& tensor = t.tensors[t.ops[3].outputs[0].tensor];
        tensor.dtype = DType::kBF16;
        tensor.offset = 2;
      }),
      ElementsAre("iteration 0, op 3 aten::sum (train.py:13), result 0: type f32 against bf16; offset 0 against 2",
                  "iteration 0, op 4 aten::_local_scalar_dense (train.py:14), argument self: type f32 against bf16; "
                  "offset 0 against 2"));
}

TEST(Diff, SharingOfStorages) {
  EXPECT_THAT(
      after([](Trace& t) { t.ops[2].args[0] = t.ops[1].args[0]; }),
      ElementsAre("iteration 0, op 2 aten::mul.Tensor (train.py:12), argument self: another storage is shared: the "
                  "one that op 1 of iteration 0, aten::relu, made against the one that op 0 of iteration 0, "
                  "aten::mm, made"));
}

TEST(Diff, ExternalBytesByElement) {
  TrainingOptions other;
  other.weight = 1.5;
  const auto lines = texts(training_trace(), training_trace(other));
  EXPECT_THAT(lines,
              ElementsAre("iteration 0, external bytes of fc.weight (parameter): element 0 of 8 is 1.0 against 1.5; "
                          "8 differ, by at most 0.5",
                          "final state fc.weight (parameter): element 0 of 8 is 101.0 against 101.5; 8 differ, by at "
                          "most 0.5"));
}

TEST(Diff, WhatOneRecordingAloneHas) {
  EXPECT_THAT(after([](Trace& t) { t.externals.erase(t.externals.begin() + 1); }),
              ElementsAre("iteration 0, external bytes of fc.weight (parameter): only in the first"));
  EXPECT_THAT(after([](Trace& t) { t.final_states.pop_back(); }),
              ElementsAre("final state scale (buffer): only in the first"));
  EXPECT_THAT(after([](Trace& t) { t.iterations.pop_back(); }), ElementsAre("4 iterations against 3 iterations"));
  EXPECT_THAT(after([](Trace& t) { t.iterations[3].complete = false; }),
              ElementsAre("iteration 3: complete against incomplete"));
}

TEST(Diff, LossesDrawsGeneratorsOutputs) {
  EXPECT_THAT(after([](Trace& t) { t.iterations[2].losses[0].value = 0.75; }),
              ElementsAre("iteration 2, loss 0: 0.5 against 0.75"));
  EXPECT_THAT(after([](Trace& t) { t.draws.push_back({6, 0, 0}); }),
              ElementsAre("iteration 1, op 0 aten::mm (train.py:10), draw 0: only the second has what it drew"));
  EXPECT_THAT(after([](Trace& t) { t.generators.push_back({1, "cpu", 0}); }),
              ElementsAre("iteration 1, generator of cpu: only in the second"));
  EXPECT_THAT(after([](Trace& t) { t.outputs.push_back({1, "logits", 0, 0}); }),
              ElementsAre("iteration 1, output logits: only in the second"));
}

TEST(Diff, ContentsOfDrawsGeneratorsOutputs) {
  const auto with = [](BlobId blob) {
    Trace t = training_trace();
    t.draws.push_back({0, 0, blob});
    t.generators.push_back({0, "cpu", blob});
    t.outputs.push_back({0, "0", t.ops[0].outputs[0].tensor, blob});
    return t;
  };
  const Trace a = with(training_trace().externals[0].blob), b = with(training_trace().externals[1].blob);
  EXPECT_THAT(texts(a, b), ElementsAre("iteration 0, op 0 aten::mm (train.py:10), draw 0: 128 bytes against 32",
                                       "iteration 0, output 0: 128 bytes against 32",
                                       "iteration 0, generator of cpu: another state at the start of the iteration"));
}

TEST(Diff, TheFirstOpWhoseResultsDiffer) {
  const auto with = [](std::vector<std::size_t> changed) {
    Trace t = training_trace();
    t.op_hashes.assign(t.ops.size(), {1, 2});
    for (const std::size_t op : changed) t.op_hashes[op][1] = 0xabc;
    return t;
  };
  EXPECT_THAT(
      texts(with({}), with({7, 9})),
      ElementsAre("iteration 1, op 1 aten::relu (train.py:11), result 1: its values differ (hash 0000000000000002 "
                  "against 0000000000000abc); the first of 2 ops whose results differ"));
  EXPECT_THAT(texts(with({}), training_trace()), ElementsAre()) << "one of them has no hashes";
}

TEST(Diff, WhatCountsOnlyWhenAsked) {
  const auto change = [](Trace& t) {
    t.metadata.framework = "torch 2.15.0";
    t.sites[0].line = 99;
    t.ops[1].thread = 3;
    t.not_recorded.push_back({"a thing", 2, kNone});
  };
  EXPECT_THAT(after(change), ElementsAre());
  const auto lines = after(change, true);
  EXPECT_EQ(lines[0], "metadata framework: \"torch 2.11.0\" against \"torch 2.15.0\"");
  EXPECT_EQ(lines[1], "iteration 0, op 0 aten::mm (train.py:10), site: train.py:10 step against train.py:99 step");
  EXPECT_EQ(lines[2], "iteration 0, op 1 aten::relu (train.py:11), thread: 0 against 3");
  EXPECT_EQ(lines.back(), "not recorded a thing: 0 times against 2");
  EXPECT_EQ(lines.size(), 7u) << "one site per iteration";
}

TEST(Diff, PartsOfCompoundTensors) {
  const auto with = [](std::int64_t dimension, const char* kind) {
    TraceMaker maker;
    const TensorId values = maker.tensor({4});
    maker.trace.tensors.push_back({kNone, DType::kF32, false, false, 0, {8}, {1}});
    const TensorId sparse = static_cast<TensorId>(maker.trace.tensors.size() - 1);
    maker.trace.compounds.push_back(
        {sparse, kind, {{"values", tensor_of(values)}, {"dense_dim", samples::integer(dimension)}}});
    maker.begin_iteration();
    maker.op("aten::relu(Tensor self) -> Tensor", {tensor_of(sparse)}, {});
    return maker.take();
  };
  EXPECT_THAT(texts(with(0, "sparse_coo"), with(1, "sparse_coo")),
              ElementsAre("iteration 0, op 0 aten::relu (train.py:10), argument self.dense_dim: 0 against 1"));
  EXPECT_THAT(
      texts(with(0, "sparse_coo"), with(0, "nested")),
      ElementsAre("iteration 0, op 0 aten::relu (train.py:10), argument self: sparse_coo tensor against nested"));
}

TEST(Diff, EveryKindOfArgument) {
  const Trace small = samples::small_trace();
  const auto change_arg = [&](std::size_t index, const Arg& arg) {
    Trace changed = samples::small_trace();
    changed.ops[0].args[index] = arg;
    return texts(small, changed).at(0);
  };
  EXPECT_THAT(change_arg(3, samples::integer(4)), HasSubstr("argument 3: -9223372036854775808 against 4"));
  EXPECT_THAT(change_arg(6, samples::number(0.0)), HasSubstr(": -0.0 against 0.0"));
  EXPECT_THAT(change_arg(8, samples::number(std::numeric_limits<double>::quiet_NaN())),
              HasSubstr(": nan (bits 0x7ff8deadbeef1234) against nan (bits 0x7ff8000000000000)"));
  EXPECT_THAT(change_arg(3, samples::number(4)), HasSubstr(": int -9223372036854775808 against double 4.0"));
  EXPECT_THAT(change_arg(21, samples::list_of({samples::integer(1)})), HasSubstr(": 0 elements against 1"));
  Arg nested = small.ops[0].args[22];
  nested.list[2].list[0].integer = 8;
  EXPECT_THAT(change_arg(22, nested), HasSubstr("argument 22[2][0]: 7 against 8"));
  EXPECT_THAT(change_arg(19, Arg{}), HasSubstr(": tensor i64[]@1-3 against none"));
}

TEST(Diff, CountsBeyondTheLimit) {
  TrainingOptions other;
  other.batch = 16;
  const auto found = diff(training_trace(), training_trace(other), {.all = false, .limit = 3});
  EXPECT_EQ(found->differences.size(), 3u);
  EXPECT_EQ(found->count, texts(training_trace(), training_trace(other)).size());
}

TEST(Diff, TooDifferentToBeAligned) {
  const auto program = [](int kinds) {
    TraceMaker maker;
    maker.begin_iteration();
    for (int i = 0; i < 5000; ++i)
      maker.op("aten::op" + std::to_string(i * 7919 % kinds) + "(Tensor self) -> Tensor", {}, {});
    return maker.take();
  };
  const auto found = diff(program(13), program(17), {});
  ASSERT_TRUE(found);
  EXPECT_GT(found->count, 0u);
}

}  // namespace
}  // namespace crucible::trace
