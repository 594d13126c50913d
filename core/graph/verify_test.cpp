// One case per rule of verify(): the smallest program that breaks it, with the words of its message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>

#include "core/graph/program.hpp"

namespace crucible::graph {
namespace {

using testing::HasSubstr;

/// input x [2, 3] -> y = add(x, x) -> s = reduce_sum(y) -> output
Program small() {
  Program p;
  p.iterations = 1;
  p.values = {{ValueKind::kInput, DType::kF32, 6, "x", kNone},
              {ValueKind::kTemporary, DType::kF32, 6, "", 0},
              {ValueKind::kTemporary, DType::kF32, 1, "", 1}};
  p.inputs = {{0, {0}, false}};
  const View x = View::contiguous({2, 3});
  Op add{OpKind::kAdd, {{0, x, {}}, {0, x, {}}}, {{1, x, {}}}, {}, kNone};
  Op sum{OpKind::kReduceSum, {{1, x, {}}}, {{2, View{0, {1, 1}, {0, 0}}, {}}}, {}, kNone};
  sum.attributes.dims = {0, 1};
  p.ops = {add, sum};
  p.outputs = {{"loss", {2, View::contiguous({}), {}}, {0.0}}};
  return p;
}

struct Case {
  std::string name;
  std::function<void(Program&)> corrupt;
  std::string message;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

Operand number(double real) {
  Operand o;
  o.scalar.real = real;
  return o;
}

class Verify : public testing::TestWithParam<Case> {};

TEST(VerifyProgram, SmallIsValid) {
  auto result = verify(small());
  EXPECT_TRUE(result) << result.error().message;
}

TEST_P(Verify, Refuses) {
  Program p = small();
  GetParam().corrupt(p);
  auto result = verify(p);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kInternal);
  EXPECT_THAT(result.error().message, HasSubstr(GetParam().message));
}

/// Replaces op 0 by another one with the same result.
auto replaced(OpKind kind, std::vector<Operand> inputs, Attributes a = {}) {
  return [=](Program& p) {
    p.ops[0].kind = kind;
    p.ops[0].inputs = inputs;
    p.ops[0].attributes = a;
  };
}

const Operand kX{0, View::contiguous({2, 3}), {}};
const Operand kFlat{0, View::contiguous({6}), {}}, kIds{3, View::contiguous({2, 3}), {}};

/// As replaced(), with i64 indices kIds and the table kFlat in `dtype`.
auto indexed(OpKind kind, std::vector<Operand> inputs, DType dtype) {
  return [=](Program& p) {
    replaced(kind, inputs)(p);
    p.values[0].dtype = dtype;
    p.values.push_back({ValueKind::kInput, DType::kI64, 6, "", kNone});
    p.inputs.push_back({3, {0}, false});
  };
}

/// A concatenation of the table alone, which has this dtype.
auto bitcast(DType dtype, const Operand& x = kFlat, std::int64_t index = -1) {
  return [=](Program& p) {
    Attributes along;
    along.dims = {0};
    along.index = index;
    replaced(OpKind::kConcat, {x}, along)(p);
    p.values[0].dtype = dtype;
  };
}

INSTANTIATE_TEST_SUITE_P(
    Rules, Verify,
    testing::Values(
        Case{"negative_elements", [](Program& p) { p.values[0].elements = -1; }, "-1 elements"},
        Case{"dtype", [](Program& p) { p.values[0].dtype = DType::kC64; }, "dtype c64"},
        Case{"huge", [](Program& p) { p.values[0].elements = INT64_MAX; }, "do not fit"},
        Case{"producer_of_input", [](Program& p) { p.values[0].producer = 0; }, "only temporaries have a producer"},
        Case{"no_producer", [](Program& p) { p.values[1].producer = 9; }, "needs a producer among the 2 ops"},
        Case{"wrong_producer", [](Program& p) { p.values[1].producer = 1; }, "names op 1 as its producer"},
        Case{"unknown_kind", [](Program& p) { p.ops[0].kind = static_cast<OpKind>(200); }, "unknown kind 200"},
        Case{"arity", [](Program& p) { p.ops[0].inputs.pop_back(); }, "op 0 (add): has 1 operands, needs 2"},
        Case{"results", [](Program& p) { p.ops[0].outputs.clear(); }, "has 0 results, needs 1"},
        Case{"source", [](Program& p) { p.ops[0].source = 5; }, "source 5 does not exist"},
        Case{"missing_value", [](Program& p) { p.ops[0].inputs[1].value = 77; },
             "op 0 (add): operand 1: value %77 does not exist"},
        Case{"before_definition", [](Program& p) { p.ops[0].inputs[0].value = 1; }, "operand 0: %1 is used before"},
        Case{"outside", [](Program& p) { p.ops[0].inputs[0].view.offset = 1; },
             "the view reaches element 6 of %0, which has 6"},
        Case{"negative_stride", [](Program& p) { p.ops[0].inputs[0].view.strides[0] = -3; }, "are negative"},
        Case{"rank", [](Program& p) { p.ops[0].inputs[0].view.strides.pop_back(); }, "differ in number"},
        Case{"tensor_with_number", [](Program& p) { p.ops[0].inputs[0].scalar.real = 1; }, "must not carry a number"},
        Case{"missing_slot", [](Program& p) { p.ops[0].inputs[1] = Operand{kNone, {}, {3, false, 0, 0}}; },
             "slot 3 does not exist; there are 0"},
        Case{"two_numbers", [](Program& p) { p.ops[0].inputs[1] = Operand{kNone, {}, {kNone, true, 1.0, 1}}; },
             "holds two numbers"},
        Case{"scalar_with_view", [](Program& p) { p.ops[0].inputs[1].value = kNone; }, "must not carry a view"},
        Case{"written_twice", [](Program& p) { p.ops[1].outputs[0] = p.ops[0].outputs[0]; }, "%1 is written twice"},
        Case{"write_to_input", [](Program& p) { p.ops[0].outputs[0].value = 0; }, "%0 is not a temporary"},
        Case{"partial_write", [](Program& p) { p.values[1].elements = 7; }, "must cover the 7 elements of %1"},
        Case{"overlapping_write", [](Program& p) { p.ops[0].outputs[0].view.strides = {1, 1}; }, "exactly once"},
        Case{"sizes", [](Program& p) { p.ops[0].inputs[1].view = View::contiguous({3, 2}); },
             "operand 1 has sizes [3, 2], needs [2, 3]"},
        Case{"bool_sum", [](Program& p) { p.values[1].dtype = DType::kBool; },
             "the result is bool, needs any dtype but bool"},
        Case{"int_exp",
             [](Program& p) {
               replaced(OpKind::kExp, {kX})(p);
               p.values[1].dtype = DType::kI64;
             },
             "the result is i64, needs a floating-point dtype"},
        Case{"comparison_result", replaced(OpKind::kLess, {kX, kX}), "the result is f32, needs bool"},
        Case{"comparison_first",
             [](Program& p) {
               replaced(OpKind::kLess, {number(1), kX})(p);
               p.values[1].dtype = DType::kBool;
             },
             "operand 0: must be a tensor"},
        Case{"condition", replaced(OpKind::kSelect, {kX, kX, kX}), "operand 0 is f32, needs bool"},
        Case{"fill_tensor", replaced(OpKind::kFill, {kX}), "operand 0: must be a scalar"},
        Case{"coordinate_dims", replaced(OpKind::kCoordinate, {}), "dims has 0 entries, needs 1 to 1"},
        Case{"dims_range", [](Program& p) { p.ops[1].attributes.dims = {0, 2}; }, "names dimension 2 of 2"},
        Case{"dims_order", [](Program& p) { p.ops[1].attributes.dims = {1, 1}; }, "ascending without repetition"},
        Case{"kept_dims", [](Program& p) { p.ops[1].attributes.dims = {0}; },
             "the result has sizes [1, 1], needs [1, 3]"},
        Case{"unused_dims", [](Program& p) { p.ops[0].attributes.dims = {0}; }, "attribute dims is not used"},
        Case{"unused_alpha", [](Program& p) { p.ops[0].attributes.alpha = 2; }, "attribute alpha is not used"},
        Case{"unused_index", [](Program& p) { p.ops[0].attributes.index = 2; }, "attribute index is not used"},
        Case{"unused_groups", [](Program& p) { p.ops[0].attributes.groups = 2; }, "attribute groups is not used"},
        Case{"unused_stride", [](Program& p) { p.ops[0].attributes.stride[1] = 2; }, "stride, padding and dilation"},
        Case{"unused_kernel", [](Program& p) { p.ops[0].attributes.kernel[1] = 2; }, "attribute kernel is not used"},
        Case{"unused_region", [](Program& p) { p.ops[0].attributes.region = View::contiguous({1}); },
             "region is not used"},
        Case{"matmul_sizes", replaced(OpKind::kMatMul, {kX, kX}), "operand 1 has sizes [2, 3], needs [3, n]"},
        Case{"along_dims", replaced(OpKind::kScanProduct, {kX}), "dims has 0 entries, needs 1 to 1"},
        Case{"scan_dtype",
             [](Program& p) {
               replaced(OpKind::kScanSum, {kX})(p);
               p.ops[0].attributes.dims = {1};
               p.values[1].dtype = DType::kF64;
             },
             "the result is f64, needs f32"},
        Case{"scan_sizes",
             [](Program& p) {
               replaced(OpKind::kScanSum, {{0, View::contiguous({6}), {}}})(p);
               p.ops[0].attributes.dims = {0};
             },
             "the result has sizes [2, 3], needs [6]"},
        Case{"place_dtype",
             [](Program& p) {
               replaced(OpKind::kArgMax, {kX})(p);
               p.ops[0].attributes.dims = {1};
             },
             "the result is f32, needs i64"},
        Case{"minimum_dtype", [](Program& p) { p.ops[1].kind = OpKind::kReduceMin, p.values[1].dtype = DType::kF64; },
             "the result is f32, needs f64"},
        Case{"gather_ids", replaced(OpKind::kGatherRows, {kX, kX}), "operand 1 is f32, needs i64 or i32"},
        Case{"take_table", indexed(OpKind::kTake, {kX, kIds}, DType::kF32), "operand 0 has sizes [2, 3], needs [n]"},
        Case{"take_ids", replaced(OpKind::kTake, {kFlat, kX}), "operand 1 is f32, needs i64 or i32"},
        Case{"take_dtype", indexed(OpKind::kTake, {kFlat, kIds}, DType::kF64), "the result is f32, needs f64"},
        Case{"take_sizes", indexed(OpKind::kTake, {kFlat, {3, View::contiguous({6}), {}}}, DType::kF32),
             "the result has sizes [2, 3], needs [6]"},
        Case{"put_base", indexed(OpKind::kPutSet, {kX, kIds, kX}, DType::kF32),
             "operand 0 has sizes [2, 3], needs [n]"},
        Case{"put_ids", replaced(OpKind::kPutSet, {kFlat, kX, kX}), "operand 1 is f32, needs i64 or i32"},
        Case{"put_base_dtype", indexed(OpKind::kPutAdd, {kFlat, kIds, kX}, DType::kF64),
             "the result is f32, needs f64"},
        Case{"put_source_dtype", indexed(OpKind::kPutMax, {kFlat, kIds, kIds}, DType::kF32),
             "operand 2 is i64, needs f32"},
        Case{"put_source_sizes", indexed(OpKind::kPutMin, {kFlat, kIds, kFlat}, DType::kF32),
             "operand 2 has sizes [6], needs [2, 3]"},
        Case{"put_result_sizes", indexed(OpKind::kPutSet, {kFlat, kIds, kX}, DType::kF32),
             "the result has sizes [2, 3], needs [6]"},
        Case{"put_add_bool",
             [](Program& p) {
               indexed(OpKind::kPutAdd, {kFlat, kIds, kX}, DType::kBool)(p);
               p.values[1].dtype = DType::kBool;
             },
             "operand 0 is bool, needs any dtype but bool"},
        Case{"update_base", replaced(OpKind::kUpdate, {kX, kX}), "operand 0 has sizes [2, 3], needs [n]"},
        Case{"bitcast_sizes", bitcast(DType::kI64), "the result has sizes [2, 3], needs [12]"},
        Case{"bitcast_rank", bitcast(DType::kI32, kX), "operand 0 has 2 dimensions, needs 1"},
        Case{"bitcast_index",
             [](Program& p) {
               bitcast(DType::kF64, kFlat, 2)(p);
               p.values[1] = {ValueKind::kTemporary, DType::kF32, 12, "", 0};
               p.ops[0].outputs[0].view = View::contiguous({12});
             },
             "attribute index is 2, needs 1 where NaN is named"},
        Case{"bitcast_nan_of_integers",
             [](Program& p) {
               bitcast(DType::kI32, kFlat, 1)(p);
               p.ops[0].outputs[0].view = View::contiguous({6});
             },
             "attribute index names NaN, of which i32 has none"},
        Case{"concat_index",
             [](Program& p) {
               bitcast(DType::kF32, kX, 1)(p);
             },
             "attribute index is of bitcasts alone"},
        Case{"bitcast_bytes", bitcast(DType::kI8), "6 elements of i8 are no whole number of f32"},
        Case{"listed_twice", [](Program& p) { p.constants = {{0, 0}}; }, "constant 0: %0 is of another kind"},
        Case{"unlisted", [](Program& p) { p.inputs.clear(); }, "in no list"},
        Case{"input_blobs", [](Program& p) { p.inputs[0].blobs = {0, 1}; }, "has 2 blobs for 1 iterations"},
        Case{"state_end",
             [](Program& p) {
               p.values[0].kind = ValueKind::kState;
               p.inputs.clear();
               p.states = {{0, 2, 0, 0}};
             },
             "start %0 is f32[6] but end %2 is f32[1]"},
        Case{"state_ends_in_other",
             [](Program& p) {
               p.values.push_back({ValueKind::kState, DType::kF32, 6, "", kNone});
               p.states = {{3, 0, 0, 0}};
             },
             "must be the start itself or a temporary"},
        Case{"shared_end",
             [](Program& p) {
               p.values.push_back({ValueKind::kState, DType::kF32, 6, "", kNone});
               p.values.push_back({ValueKind::kState, DType::kF32, 6, "", kNone});
               p.states = {{3, 1, 0, 0}, {4, 1, 0, 0}};
             },
             "end %1 ends another state too"},
        Case{"slot_values", [](Program& p) { p.slots = {{"rate", {}}}; }, "slot 0 (rate): has 0 values for 1"},
        Case{"output_size", [](Program& p) { p.outputs[0].operand = {1, View::contiguous({2, 3}), {}}; },
             "has 6 elements"},
        Case{"output_recorded", [](Program& p) { p.outputs[0].recorded.clear(); }, "0 recorded values for 1"},
        Case{"number_behind_a_tensor",
             [](Program& p) {
               p.outputs.insert(p.outputs.begin(), {"y", {1, View::contiguous({2, 3}), {}}, {}, {0}});
             },
             "output 1 (loss): a number stands behind a tensor"},
        Case{"tensor_blobs", [](Program& p) { p.outputs.push_back({"y", {1, View::contiguous({6}), {}}, {}, {0, 0}}); },
             "2 recorded tensors for 1 iterations"},
        Case{"tensor_numbers", [](Program& p) { p.outputs.push_back({"y", {1, View::contiguous({6}), {}}, {1}, {0}}); },
             "a tensor has recorded numbers"},
        Case{"tensor_of_a_changed_state",
             [](Program& p) {
               p.values[0].kind = ValueKind::kState;
               p.inputs.clear();
               p.states = {{0, 1, 0, 0}};
               p.outputs.push_back({"x", {0, View::contiguous({6}), {}}, {}, {0}});
             },
             "%0 is a state that the iteration changes"},
        Case{"output_scalar", [](Program& p) { p.outputs[0].operand = number(1); }, "must be an element of a value"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace crucible::graph
