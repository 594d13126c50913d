// Each rule of validate(), broken once; the writer refuses the same.
#include "core/trace/validate.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "core/trace/sections.hpp"
#include "core/trace/trace_file.hpp"
#include "core/trace/trace_samples.hpp"

namespace crucible::trace {
namespace {

/// The message with which a changed small_trace() is refused.
std::string refusal(const std::function<void(Trace&)>& change) {
  Trace trace = samples::small_trace();
  change(trace);
  const samples::Folder folder;
  const auto written = write_file(trace, folder / "a.crtrace");
  EXPECT_FALSE(written);
  EXPECT_EQ(folder.listing(), "");
  const auto result = validate(trace);
  return result ? "" : result.error().message;
}

TEST(Validate, TakesAGoodTrace) {
  EXPECT_TRUE(validate(samples::small_trace()));
  EXPECT_TRUE(validate(samples::random_trace(3, 100)));
  EXPECT_TRUE(validate(Trace{}));
}

TEST(Validate, IdsWithinTheirTables) {
  EXPECT_EQ(refusal([](Trace& it) { it.ops[1].schema = 2; }),
            "section 'ops' is inconsistent: record 1: schema 2 does not exist: there are 2");
  EXPECT_EQ(refusal([](Trace& it) { it.ops[1].schema = kNone; }),
            "section 'ops' is inconsistent: record 1: it has no schema");
  EXPECT_EQ(refusal([](Trace& it) { it.ops[0].site = 1; }),
            "section 'ops' is inconsistent: record 0: site 1 does not exist: there are 1");
  EXPECT_EQ(refusal([](Trace& it) { it.ops[0].module = 9; }),
            "section 'ops' is inconsistent: record 0: module 9 does not exist: there are 2");
  EXPECT_EQ(refusal([](Trace& it) { it.ops[2].outputs[0].list[0].tensor = 3; }),
            "section 'ops' is inconsistent: record 2: tensor 3 does not exist: there are 3");
  EXPECT_EQ(refusal([](Trace& it) { it.tensors[0].storage = 2; }),
            "section 'tensors' is inconsistent: record 0: storage 2 does not exist: there are 2");
  EXPECT_EQ(refusal([](Trace& it) { it.iterations[0].losses[1].tensor = 5; }),
            "section 'iterations' is inconsistent: record 0: tensor 5 does not exist: there are 3");
  EXPECT_EQ(refusal([](Trace& it) { it.externals[1].blob = kNone; }),
            "section 'externals' is inconsistent: record 1: it has no blob");
  EXPECT_EQ(refusal([](Trace& it) { it.externals[1].iteration = 2; }),
            "section 'externals' is inconsistent: record 1: iteration 2 does not exist: there are 2");
  EXPECT_EQ(refusal([](Trace& it) { it.draws[1].output = 2; }),
            "section 'draws' is inconsistent: record 1: output 2 does not exist: there are 2");
  EXPECT_EQ(refusal([](Trace& it) { it.draws[0].op = 3; }),
            "section 'draws' is inconsistent: record 0: op 3 does not exist: there are 3");
  EXPECT_EQ(refusal([](Trace& it) { it.final_states[0].blob = 3; }),
            "section 'final_states' is inconsistent: record 0: blob 3 does not exist: there are 3");
  EXPECT_EQ(refusal([](Trace& it) { it.not_recorded[0].site = 1; }),
            "section 'not_recorded' is inconsistent: record 0: site 1 does not exist: there are 1");
}

TEST(Validate, ShapesAndRanges) {
  EXPECT_EQ(refusal([](Trace& it) { it.tensors[0].strides.pop_back(); }),
            "section 'tensors' is inconsistent: record 0: it has 2 sizes and 1 strides");
  EXPECT_EQ(refusal([](Trace& it) { it.tensors[0].sizes[1] = -1; }),
            "section 'tensors' is inconsistent: record 0: a size is negative: -1");
  EXPECT_EQ(refusal([](Trace& it) { it.iterations[1].op_count = 2; }),
            "section 'iterations' is inconsistent: record 1: its ops 2 to 4 are not inside 2 to 3");
  EXPECT_EQ(refusal([](Trace& it) { it.iterations[1].first_op = 1; }),
            "section 'iterations' is inconsistent: record 1: its ops 1 to 2 are not inside 2 to 3");
  EXPECT_EQ(refusal([](Trace& it) { it.iterations[1].op_count = 0xffffffffu; }),
            "section 'iterations' is inconsistent: record 1: its ops 2 to 4294967297 are not inside 2 to 3");
}

TEST(Validate, TablesOfVersionOnePointOne) {
  EXPECT_EQ(refusal([](Trace& it) { it.generators[1].iteration = 2; }),
            "section 'generators' is inconsistent: record 1: iteration 2 does not exist: there are 2");
  EXPECT_EQ(refusal([](Trace& it) { it.generators[0].blob = 3; }),
            "section 'generators' is inconsistent: record 0: blob 3 does not exist: there are 3");
  EXPECT_EQ(refusal([](Trace& it) { it.outputs[0].iteration = kNone; }),
            "section 'outputs' is inconsistent: record 0: it has no iteration");
  EXPECT_EQ(refusal([](Trace& it) { it.outputs[0].tensor = 3; }),
            "section 'outputs' is inconsistent: record 0: tensor 3 does not exist: there are 3");
  EXPECT_EQ(refusal([](Trace& it) { it.outputs[0].blob = kNone; }),
            "section 'outputs' is inconsistent: record 0: it has no blob");
  EXPECT_EQ(refusal([](Trace& it) { it.op_hashes.pop_back(); }),
            "section 'op_hashes' is inconsistent: it has 2 records and there are 3 ops");
  EXPECT_EQ(refusal([](Trace& it) { it.compounds[0].tensor = 3; }),
            "section 'compounds' is inconsistent: record 0: tensor 3 does not exist: there are 3");
  EXPECT_EQ(refusal([](Trace& it) { it.compounds[0].tensor = 0; }),
            "section 'compounds' is inconsistent: record 0: tensor 0 has a storage, so it is not compound");
  EXPECT_EQ(refusal([](Trace& it) { it.compounds.push_back(it.compounds[0]); }),
            "section 'compounds' is inconsistent: record 1: tensor 2 is there twice");
  EXPECT_EQ(refusal([](Trace& it) { it.compounds[0].parts[1].second.list[0].tensor = 9; }),
            "section 'compounds' is inconsistent: record 0: part 'values': tensor 9 does not exist: there are 3");
}

TEST(Validate, CompoundTensorsDoNotContainThemselves) {
  EXPECT_EQ(refusal([](Trace& it) { it.compounds[0].parts[1].second.list[0].tensor = 2; }),
            "section 'compounds' is inconsistent: record 0: tensor 2 is part of itself or of an earlier record");
  EXPECT_EQ(refusal([](Trace& it) {
              it.tensors.push_back(it.tensors[2]);
              it.compounds.push_back({3, "nested", {{"values", it.compounds[0].parts[0].second}}});
              it.compounds[0].parts[0].second.tensor = 3;  // stands after what it is part of
            }),
            "section 'compounds' is inconsistent: record 1: tensor 3 is part of itself or of an earlier record");
  const auto deep = [](int levels) {
    Trace trace = samples::small_trace();
    for (int i = 1; i < levels; ++i) {
      Arg inner;
      inner.kind = Arg::Kind::kTensor;
      inner.tensor = trace.compounds.back().tensor;
      trace.tensors.push_back(trace.tensors[2]);
      trace.compounds.push_back({static_cast<TensorId>(trace.tensors.size() - 1), "nested", {{"of", inner}}});
    }
    return trace;
  };
  EXPECT_TRUE(validate(deep(kMaxListDepth)));
  const auto refused = validate(deep(kMaxListDepth + 1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "section 'compounds' is inconsistent: record 16: part 'of': compound tensors are nested deeper than 16");
}

TEST(Validate, DepthOfLists) {
  EXPECT_EQ(refusal([](Trace& it) {
              Arg deep;
              for (int i = 0; i <= kMaxListDepth; ++i) {
                Arg outer;
                outer.kind = Arg::Kind::kList;
                outer.list.push_back(std::move(deep));
                deep = std::move(outer);
              }
              it.ops[0].args[0] = std::move(deep);
            }),
            "section 'ops' is inconsistent: record 0: lists are nested deeper than 16");
}

}  // namespace
}  // namespace crucible::trace
