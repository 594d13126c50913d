// The programs of the ops tier: every kind of op has some, all are valid, and the comparison sees one unit too many.
#include "plugins/conformance/ops_programs.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <set>

#include "core/graph/op_table.hpp"
#include "core/graph/reference.hpp"
#include "plugins/conformance/ops_compare.hpp"
#include "plugins/conformance/ops_writer.hpp"

namespace crucible::conformance {
namespace {

TEST(OpsPrograms, EveryKindOfTheTableHasValidOnes) {
  for (int i = 0; i < graph::kOpKindCount; ++i) {
    const auto kind = static_cast<graph::OpKind>(i);
    for (const bool quick : {true, false}) {
      const std::vector<OpsProgram> programs = programs_of(kind, {}, quick);
      EXPECT_GE(programs.size(), quick ? 2u : 4u) << graph::name(kind);
      std::set<std::string> labels;
      for (const OpsProgram& entry : programs) {
        const auto valid = graph::verify(entry.program);
        EXPECT_TRUE(static_cast<bool>(valid)) << entry.label << ": " << (valid ? "" : valid.error().message);
        EXPECT_TRUE(labels.insert(entry.label).second) << entry.label << " twice";
        bool uses_kind = false;
        for (const graph::Op& op : entry.program.ops) uses_kind = uses_kind || op.kind == kind;
        EXPECT_TRUE(uses_kind) << entry.label;
      }
    }
  }
}

TEST(OpsPrograms, RarerDtypesAreLeftOutWhereTheDeviceHasThemNot) {
  for (const OpsProgram& entry : programs_of(graph::OpKind::kAdd, {false, false, false}, false)) {
    for (const graph::Value& value : entry.program.values)
      EXPECT_TRUE(value.dtype != DType::kF64 && value.dtype != DType::kF16 && value.dtype != DType::kBF16)
          << entry.label;
  }
}

OpsProgram program_of(graph::OpKind kind, DType dtype) {
  OpsWriter w(kind, "test", 1);
  const auto x = w.input(dtype, Sizes{50}, Pattern::kSmooth);
  if (graph::info(kind).min_inputs == 2) {
    w.op({x, w.input(dtype, Sizes{50}, Pattern::kSmooth)}, {50}, dtype);
  } else {
    w.op({x}, {50}, dtype);
  }
  return std::move(w.program);
}

TEST(OpsCompare, OneUnitTooManyIsSeen) {
  const OpsProgram sum = program_of(graph::OpKind::kAdd, DType::kF32);
  const auto want = *graph::run_iteration(sum.program, sum.values, sum.slots);
  const auto result = sum.program.ops[0].outputs[0].value;
  EXPECT_EQ(difference(sum, result, want[result], want[result], want[result]), "");
  graph::Bytes got = want[result];
  std::uint32_t bits = 0;
  std::memcpy(&bits, got.data() + 20 * 4, 4);
  ++bits;
  std::memcpy(got.data() + 20 * 4, &bits, 4);
  EXPECT_NE(difference(sum, result, got, want[result], want[result]).find("element 20 of 50"), std::string::npos);
  const OpsProgram root = program_of(graph::OpKind::kExp, DType::kF32);
  const auto roots = *graph::run_iteration(root.program, root.values, root.slots);
  graph::Bytes off = roots[result == 2 ? 1 : 1];
  const graph::Bytes exact = off;
  std::memcpy(&bits, off.data(), 4);
  bits += 4;
  std::memcpy(off.data(), &bits, 4);
  EXPECT_EQ(difference(root, 1, off, exact, exact), "");
  bits += 1;
  std::memcpy(off.data(), &bits, 4);
  EXPECT_NE(difference(root, 1, off, exact, exact), "");
}

TEST(OpsCompare, SpacingIsThatOfTheFormat) {
  EXPECT_EQ(spacing(DType::kF32, 1.0), 0x1p-23);
  EXPECT_EQ(spacing(DType::kF32, 1.9), 0x1p-23);
  EXPECT_EQ(spacing(DType::kF32, -2.0), 0x1p-22);
  EXPECT_EQ(spacing(DType::kF32, 0.0), 0x1p-149);
  EXPECT_EQ(spacing(DType::kF16, 1.0), 0x1p-10);
  EXPECT_EQ(spacing(DType::kBF16, 1.0), 0x1p-7);
  EXPECT_EQ(spacing(DType::kF64, 1.0), 0x1p-52);
}

TEST(OpsCompare, MovedNumbersKeepTheSignOfZero) {
  OpsWriter w(graph::OpKind::kCopy, "test", 1);
  w.op({w.input(DType::kF32, Sizes{2}, Pattern::kSmooth)}, {2}, DType::kF32);
  w.program.same_bits = true;
  const graph::Bytes zero(8), minus = [] {
    graph::Bytes bytes(8);
    bytes[3] = std::byte{0x80};
    return bytes;
  }();
  EXPECT_EQ(difference(w.program, 1, minus, minus, minus), "");
  EXPECT_NE(difference(w.program, 1, zero, minus, minus), "");
  w.program.same_bits = false;
  EXPECT_EQ(difference(w.program, 1, zero, minus, minus), "");
}

}  // namespace
}  // namespace crucible::conformance
