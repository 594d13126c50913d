// Optimizing drops only what certainly nobody reads; compacting only what nothing refers to.
#include "core/trace/optimize.hpp"

#include <gtest/gtest.h>

#include "core/trace/compact.hpp"
#include "core/trace/trace_maker.hpp"
#include "core/trace/trace_samples.hpp"
#include "core/trace/validate.hpp"

namespace crucible::trace {
namespace {

using samples::TraceMaker;
using samples::number;
using samples::tensor_of;

const char* const kRelu = "aten::relu(Tensor self) -> Tensor";
const char* const kCopy = "aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)";

/// An input buffer that `first_op` touches first and relu reads then.
struct Buffer {
  TraceMaker maker;
  TensorId source = maker.tensor({4}), buffer = maker.tensor({4});
  Buffer() {
    maker.begin_iteration();
    maker.external(source, Role::kInput, "source", 0);
    maker.external(buffer, Role::kInput, "buffer", 50);
  }
  std::uint64_t dropped(TensorId written, TensorId read) {
    maker.op(kCopy, {tensor_of(written), tensor_of(read), Arg{}}, {tensor_of(written)});
    maker.op(kRelu, {tensor_of(buffer)}, {tensor_of(maker.tensor({4}))});
    const Trace whole = maker.take();
    const Optimized made = optimize(whole);
    EXPECT_TRUE(validate(made.trace));
    EXPECT_EQ(made.trace.externals.size() + made.dropped_externals, whole.externals.size());
    return made.dropped_externals;
  }
};

TEST(Optimize, DropsWhatIsOverwrittenWhole) {
  Buffer it;
  EXPECT_EQ(it.dropped(it.buffer, it.source), 1u);
}

TEST(Optimize, KeepsWhatIsOverwrittenInPart) {
  Buffer it;
  EXPECT_EQ(it.dropped(it.maker.view(it.buffer, {3}), it.source), 0u);
}

TEST(Optimize, KeepsWhatItsOwnCopyReads) {
  Buffer it;
  EXPECT_EQ(it.dropped(it.buffer, it.maker.view(it.buffer, {4})), 1u) << "the source, which no op uses";
}

TEST(Optimize, KeepsWhatAFinalStateIsComparedWith) {
  Buffer it;
  it.maker.final_state(it.buffer, Role::kInput, "buffer", 60);
  EXPECT_EQ(it.dropped(it.buffer, it.source), 0u);
}

TEST(Optimize, KeepsWhatAnOutputShows) {
  for (const bool is_output : {false, true}) {
    TraceMaker maker;
    const TensorId a = maker.tensor({4}), b = maker.tensor({4});
    maker.begin_iteration();
    maker.external(a, Role::kInput, "a", 0);
    maker.external(b, Role::kInput, "b", 9);
    maker.op(kRelu, {tensor_of(b)}, {tensor_of(maker.tensor({4}))});
    if (is_output) maker.trace.outputs.push_back({0, "0", a, maker.blob(a, 0)});
    EXPECT_EQ(optimize(maker.take()).dropped_externals, is_output ? 0u : 1u);
  }
}

TEST(Optimize, PartsOfACompoundTensorAreRead) {
  TraceMaker maker;
  const TensorId values = maker.tensor({4});
  maker.trace.tensors.push_back({kNone, DType::kF32, false, false, 0, {8}, {1}});
  const TensorId sparse = static_cast<TensorId>(maker.trace.tensors.size() - 1);
  maker.trace.compounds.push_back({sparse, "sparse_coo", {{"values", tensor_of(values)}}});
  maker.begin_iteration();
  maker.external(values, Role::kInput, "values", 0);
  maker.op(kRelu, {tensor_of(sparse)}, {});
  const Optimized made = optimize(maker.take());
  EXPECT_EQ(made.dropped_externals, 0u);
  ASSERT_EQ(made.trace.compounds.size(), 1u);
  EXPECT_EQ(made.trace.tensors.size(), 2u);
}

TEST(Optimize, CountsTheBytes) {
  Buffer it;
  it.maker.op(kCopy, {tensor_of(it.buffer), tensor_of(it.source), Arg{}}, {tensor_of(it.buffer)});
  const Optimized made = optimize(it.maker.take());
  EXPECT_EQ(made.dropped_external_bytes, 16u);
  EXPECT_EQ(made.dropped_blob_bytes, 16u);
  EXPECT_EQ(made.trace.blobs.size(), 1u);
}

TEST(Compact, KeepsAConsistentTraceThatSaysTheSame) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Trace whole = samples::random_trace(seed, 40);
    const Trace once = compacted(whole);
    ASSERT_TRUE(validate(once)) << seed;
    EXPECT_EQ(once.ops.size(), whole.ops.size());
    EXPECT_LE(once.tensors.size(), whole.tensors.size());
    EXPECT_EQ(samples::describe(compacted(once)), samples::describe(once)) << seed;
    for (std::size_t i = 0; i < whole.ops.size(); ++i) {
      EXPECT_EQ(once.schemas[once.ops[i].schema].text, whole.schemas[whole.ops[i].schema].text);
      EXPECT_EQ(once.site_text(once.ops[i].site), whole.site_text(whole.ops[i].site));
    }
    for (std::size_t i = 0; i < whole.externals.size(); ++i) {
      EXPECT_EQ(*once.blob_store->load(once.externals[i].blob), *whole.blob_store->load(whole.externals[i].blob));
      EXPECT_EQ(once.storages[once.externals[i].storage].size_bytes,
                whole.storages[whole.externals[i].storage].size_bytes);
    }
  }
}

TEST(Compact, DropsWhatNothingRefersTo) {
  Trace trace = samples::scalar_trace({1.0});
  trace.schemas.insert(trace.schemas.begin(), {"aten::unused", "", "aten::unused() -> ()"});
  trace.ops[0].schema = 1;
  trace.sites.push_back({"unused.py", 1, ""});
  trace.modules.push_back("unused");
  trace.storages.push_back({8, "cpu"});
  trace.tensors.push_back({2, DType::kF32, false, false, 0, {2}, {1}});
  const Trace made = compacted(trace);
  EXPECT_EQ(made.schemas.size(), 1u);
  EXPECT_EQ(made.ops[0].schema, 0u);
  EXPECT_EQ(made.sites.size(), 1u);
  EXPECT_EQ(made.modules.size(), 1u);
  EXPECT_EQ(made.storages.size(), 2u);
  EXPECT_EQ(made.tensors.size(), 2u);
}

}  // namespace
}  // namespace crucible::trace
