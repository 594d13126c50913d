// Every kind of op in every dtype that it takes, alone and fused with a neighbour, against the reference interpreter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "core/graph/bitcast.hpp"
#include "core/graph/op_table.hpp"
#include "core/kernel/testing/test_program.hpp"

namespace crucible::kernel {
namespace {

using graph::OpClass;
using graph::Operand;
using graph::OpKind;

constexpr DType kFloats[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16};
constexpr DType kNumbers[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI64,
                              DType::kI32, DType::kI16, DType::kI8,  DType::kU8};
constexpr DType kAll[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI64,
                          DType::kI32, DType::kI16, DType::kI8,  DType::kU8,   DType::kBool};

void expect_agreement(const std::deque<TestProgram>& programs) {
  if (HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  std::vector<const TestProgram*> list;
  for (const TestProgram& program : programs) list.push_back(&program);
  for (const std::string& failure : run_and_compare(list)) {
    ADD_FAILURE() << failure;
    return;
  }
}

/// The range of operands for which the op is smooth, so that rounding cannot be magnified.
std::pair<double, double> range_of(OpKind kind, DType dtype) {
  if (dtype == DType::kU8) return {0, 12};
  if (!is_floating(dtype)) return {-11, 12};
  switch (kind) {
    case OpKind::kLog:
    case OpKind::kSqrt:
    case OpKind::kReciprocalSqrt:
    case OpKind::kReciprocal:
    case OpKind::kDivide:
    case OpKind::kPower:
    case OpKind::kLog2:
    case OpKind::kLog10:
      return {0.5, 2};
    case OpKind::kAsin:
    case OpKind::kAcos:
    case OpKind::kAtanh:
    case OpKind::kErfInverse:
    case OpKind::kLog1p:
      return {-0.9, 0.9};
    case OpKind::kTan:
      return {-1.3, 1.3};
    case OpKind::kAcosh:
    case OpKind::kLogGamma:
    case OpKind::kDigamma:
      return {2.5, 9};
    default:
      return {-3, 3};
  }
}

TEST(OpKinds, UnaryAndBinaryInEveryDtype) {
  std::deque<TestProgram> programs;
  const Sizes sizes{5, 19};
  for (int i = 0; i < graph::kOpKindCount; ++i) {
    const auto kind = static_cast<OpKind>(i);
    const graph::OpInfo& info = graph::info(kind);
    const bool floating = info.op_class == OpClass::kFloating, arithmetic = info.op_class == OpClass::kArithmetic,
               integer = info.op_class == OpClass::kInteger;
    if (!floating && !arithmetic && !integer) continue;
    TestProgram& t = programs.emplace_back(static_cast<std::uint64_t>(i));
    for (DType dtype : kNumbers) {
      if ((floating && !is_floating(dtype)) || (integer && is_floating(dtype))) continue;
      const auto [low, high] = range_of(kind, dtype);
      const Operand x = t.input(dtype, sizes, low, high);
      std::vector<Operand> inputs{x};
      if (info.min_inputs == 2) inputs.push_back(t.input(dtype, sizes, low, high));
      const Operand y = t.op(kind, inputs, sizes, dtype);
      t.keep(y);
      t.keep(t.op(OpKind::kNegate, {y}, sizes, dtype));
      if (info.min_inputs == 2) t.keep(t.op(kind, {x, t.scalar(2)}, sizes, dtype));
    }
  }
  expect_agreement(programs);
}

TEST(OpKinds, ConversionsBetweenAllDtypes) {
  std::deque<TestProgram> programs;
  for (DType from : kAll) {
    TestProgram& t = programs.emplace_back(3);
    const Operand x = t.input(from, {67}, from == DType::kU8 ? 0 : -90, 90);
    for (DType to : kAll) t.keep(t.op(OpKind::kCopy, {x}, {67}, to));
  }
  expect_agreement(programs);
}

TEST(OpKinds, ComparisonsLogicAndChoices) {
  std::deque<TestProgram> programs;
  for (DType dtype : kAll) {
    TestProgram& t = programs.emplace_back(4);
    const Operand x = t.input(dtype, {6, 11}, 0, 4), y = t.input(dtype, {6, 11}, 0, 4),
                  other = t.input(DType::kI32, {6, 11}, 0, 4);
    const Operand half = t.input(DType::kBool, {6, 11});
    for (OpKind kind : {OpKind::kLess, OpKind::kLessEqual, OpKind::kGreater, OpKind::kGreaterEqual, OpKind::kEqual,
                        OpKind::kNotEqual}) {
      t.keep(t.op(kind, {x, y}, {6, 11}, DType::kBool));
      if (dtype != DType::kBool) t.keep(t.op(kind, {x, t.scalar(2)}, {6, 11}, DType::kBool));
    }
    if (dtype != DType::kBool)
      t.keep(t.op(OpKind::kEqual, {other, t.op(OpKind::kCopy, {x}, {6, 11}, DType::kI32)}, {6, 11}, DType::kBool));
    t.keep(t.op(OpKind::kLogicalAnd, {x, half}, {6, 11}, DType::kBool));
    t.keep(t.op(OpKind::kLogicalOr, {x, half}, {6, 11}, DType::kBool));
    t.keep(t.op(OpKind::kLogicalNot, {x}, {6, 11}, DType::kBool));
    t.keep(t.op(OpKind::kIsNan, {x}, {6, 11}, DType::kBool));
    t.keep(t.op(OpKind::kSelect, {half, x, y}, {6, 11}, dtype));
    t.keep(t.op(OpKind::kFill, {t.scalar(1)}, {3, 4}, dtype));
    graph::Attributes along;
    along.dims = {1};
    if (dtype != DType::kBool) t.keep(t.op(OpKind::kCoordinate, {}, {3, 4, 2}, dtype, along));
  }
  expect_agreement(programs);
}

TEST(OpKinds, ReductionsInEveryDtypeAndDirection) {
  std::deque<TestProgram> programs;
  for (DType dtype : kAll) {
    TestProgram& t = programs.emplace_back(5);
    const Operand x = t.input(dtype, {8, 20, 12}, dtype == DType::kU8 ? 0 : -2, 3);
    for (const Sizes& dims : {Sizes{2}, Sizes{0}, Sizes{1}, Sizes{0, 2}, Sizes{0, 1, 2}}) {
      t.keep(t.reduce(OpKind::kReduceMax, x, dims));
      t.keep(t.reduce(OpKind::kReduceMin, x, dims));
      if (dtype != DType::kBool) t.keep(t.reduce(OpKind::kReduceSum, x, dims));
    }
  }
  expect_agreement(programs);
}

TEST(OpKinds, ProductsInEveryDirection) {
  std::deque<TestProgram> programs;
  for (DType dtype : kNumbers) {
    TestProgram& t = programs.emplace_back(51);
    const Operand x = is_floating(dtype) ? t.input(dtype, {8, 20, 12}, 0.99, 1.01)
                                         : t.input(dtype, {8, 20, 12}, dtype == DType::kU8 ? 0 : -2, 3);
    for (const Sizes& dims : {Sizes{2}, Sizes{0}, Sizes{0, 2}, Sizes{0, 1, 2}})
      t.keep(t.reduce(OpKind::kReduceProduct, x, dims));
  }
  expect_agreement(programs);
}

/// Lines of many lengths in every direction, with equal elements, and with NaN, infinities and zeros of both signs.
TEST(OpKinds, AlongOneDimension) {
  std::deque<TestProgram> programs;
  for (DType dtype : kAll) {
    TestProgram& t = programs.emplace_back(52);
    for (const Sizes& sizes : {Sizes{3, 37, 5}, Sizes{1, 1}, Sizes{64, 2}, Sizes{129}, Sizes{2, 0}}) {
      if (dtype != DType::kF32 && sizes.size() != 3) continue;  // the index arithmetic is the same
      const Operand x = t.input(dtype, sizes, dtype == DType::kU8 ? 0 : -3, 4);
      if (is_floating(dtype) && sizes.size() == 3) {
        const double special[] = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                                  -std::numeric_limits<double>::infinity(), 0.0, -0.0};
        for (std::size_t i = 0; i < 400; i += 11)
          graph::store_real(dtype, special[i % 5], t.values[x.value].data() + i * size_bytes(dtype));
      }
      for (std::size_t dim = 0; dim < sizes.size(); ++dim) {
        graph::Attributes along;
        along.dims = {static_cast<std::int64_t>(dim)};
        Sizes kept = sizes;
        kept[dim] = 1;
        for (OpKind kind : {OpKind::kArgMax, OpKind::kArgMin})
          if (sizes[dim] > 0) t.keep(t.op(kind, {x}, kept, DType::kI64, along));
        for (OpKind kind : {OpKind::kScanMax, OpKind::kScanMin, OpKind::kSortAscending, OpKind::kSortDescending}) {
          const Operand values = t.op(kind, {x}, sizes, dtype, along);
          t.keep(t.second_result(sizes, DType::kI64));
          t.keep(values);
        }
        if (dtype == DType::kBool) continue;
        t.keep(t.op(OpKind::kScanSum, {x}, sizes, dtype, along));
        if (!is_floating(dtype)) t.keep(t.op(OpKind::kScanProduct, {x}, sizes, dtype, along));
      }
    }
    if (is_floating(dtype)) {
      graph::Attributes along;
      along.dims = {1};
      t.keep(t.op(OpKind::kScanProduct, {t.input(dtype, {5, 30}, 0.98, 1.02)}, {5, 30}, dtype, along));
    }
  }
  expect_agreement(programs);
}

/// Zeros of both signs are equal: the first is the place of the extremum.
TEST(OpKinds, PlacesOfZerosOfBothSigns) {
  std::deque<TestProgram> programs;
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
    TestProgram& t = programs.emplace_back(14);
    const Operand below = t.input(dtype, {2, 40}, -3, -1), above = t.input(dtype, {2, 40}, 1, 3);
    for (const Operand& x : {below, above}) {
      for (const std::size_t row : {0, 1}) {
        const double first = row == 0 ? -0.0 : 0.0;
        graph::store_real(dtype, first, t.values[x.value].data() + (row * 40 + 17) * size_bytes(dtype));
        graph::store_real(dtype, -first, t.values[x.value].data() + (row * 40 + 30) * size_bytes(dtype));
      }
    }
    graph::Attributes along;
    along.dims = {1};
    t.keep(t.op(OpKind::kArgMax, {below}, {2, 1}, DType::kI64, along));
    t.keep(t.op(OpKind::kArgMin, {above}, {2, 1}, DType::kI64, along));
  }
  expect_agreement(programs);
}

TEST(OpKinds, ExtremaKeepNanAndInfinities) {
  std::deque<TestProgram> programs;
  TestProgram& t = programs.emplace_back(6);
  const Operand x = t.input(DType::kF32, {4, 40}), y = t.input(DType::kF32, {4, 40});
  const double special[] = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                            -std::numeric_limits<double>::infinity()};
  for (int row = 0; row < 3; ++row)
    graph::store_real(DType::kF32, special[row], t.values[x.value].data() + (row * 40 + 17) * 4);
  for (int i = 0; i < 40; ++i) graph::store_real(DType::kF32, special[2], t.values[x.value].data() + (3 * 40 + i) * 4);
  t.keep(t.reduce(OpKind::kReduceMax, x, {1}));
  t.keep(t.reduce(OpKind::kReduceMax, x, {0}));
  t.keep(t.reduce(OpKind::kReduceMin, x, {1}));
  t.keep(t.reduce(OpKind::kReduceMin, x, {0}));
  t.keep(t.op(OpKind::kMaximum, {x, y}, {4, 40}));
  t.keep(t.op(OpKind::kMinimum, {y, x}, {4, 40}));
  expect_agreement(programs);
}

TEST(OpKinds, IndexedOps) {
  std::deque<TestProgram> programs;
  for (DType dtype : {DType::kF32, DType::kF64, DType::kI64}) {
    for (DType ids_type : {DType::kI64, DType::kI32}) {
      TestProgram& t = programs.emplace_back(7);
      const Operand table = t.input(dtype, {30, 20}, 0, 9), ids = t.input(ids_type, {6, 4}, 0, 30),
                    rows = t.input(dtype, {24, 20}, 0, 9);
      const Operand gathered = t.op(OpKind::kGatherRows, {table, ids}, {6, 4, 20}, dtype);
      t.keep(t.op(OpKind::kAdd, {gathered, reshaped(rows, {6, 4, 20})}, {6, 4, 20}, dtype));
      for (const std::int64_t skipped : {-1, 3}) {
        graph::Attributes attributes;
        attributes.index = skipped;
        t.keep(t.op(OpKind::kScatterAddRows, {rows, reshaped(ids, {24})}, {30, 20}, dtype, attributes));
      }
      const Operand narrow = t.input(dtype, {6, 3, 20}, 0, 9);
      for (const std::int64_t dim : {0, 1, 2}) {
        graph::Attributes attributes;
        attributes.dims = {dim};
        const Operand other = dim == 1 ? narrow : gathered;
        Sizes sizes{6, 4, 20};
        sizes[static_cast<std::size_t>(dim)] += other.view.sizes[static_cast<std::size_t>(dim)];
        t.keep(t.op(OpKind::kConcat, {gathered, other}, sizes, dtype, attributes));
      }
      graph::Attributes region;
      region.region = {21, {3, 4}, {40, 2}};
      t.keep(t.op(OpKind::kUpdate, {reshaped(table, {600}), t.input(dtype, {3, 4}, 0, 9)}, {600}, dtype, region));
      // One element; the dimensions in another order than their strides; three of them.
      for (const graph::View& slice :
           {graph::View{599, {1}, {0}}, graph::View{2, {6, 30}, {2, 20}}, graph::View{0, {5, 4, 3}, {3, 150, 1}}}) {
        region.region = slice;
        t.keep(
            t.op(OpKind::kUpdate, {reshaped(table, {600}), t.input(dtype, slice.sizes, 0, 9)}, {600}, dtype, region));
      }
      // More ids than a unit's lanes read at once, a last piece that is shorter, and one row that has most of them.
      const Operand many = t.input(ids_type, {700}, 0, 30), few = t.input(ids_type, {700}, 28, 30);
      const Operand long_rows = t.input(dtype, {700, 5}, 0, 9);
      for (const Operand& wanted : {many, few}) {
        graph::Attributes none;
        none.index = 29;
        t.keep(t.op(OpKind::kScatterAddRows, {long_rows, wanted}, {30, 5}, dtype, none));
      }
    }
  }
  expect_agreement(programs);
}

/// Whole, a part, every second element, of each dtype as every other; NaNs of any payload and what no bool should be go
/// through.
TEST(OpKinds, BitcastsBetweenAllDtypes) {
  std::deque<TestProgram> programs;
  for (DType from : kAll) {
    for (DType to : kAll) {
      if (from == to || to == DType::kBool) continue;
      TestProgram& t = programs.emplace_back(8);
      const Operand x = t.input(from, {80}, 0, 2);
      for (std::size_t i = 0; i < t.values[x.value].size(); ++i) {
        t.values[x.value][i] = static_cast<std::byte>(from == DType::kBool ? i % 2 : (i * 167 + 251 * (i % 5)) % 256);
      }
      const auto bits = [&](graph::View view) {
        const std::int64_t bytes = view.elements() * size_bytes(from);
        // Floats are kept as their bits: a NaN has no payload among numbers.
        graph::Attributes list;
        list.dims = {0};
        Operand y = t.op(OpKind::kConcat, {{x.value, std::move(view), {}}}, {bytes / size_bytes(to)}, to, list);
        if (is_floating(to)) y = t.op(OpKind::kConcat, {y}, {bytes}, DType::kU8, list);
        t.keep(y);
      };
      bits(graph::View::contiguous({80}));
      bits({16, {24}, {1}});
      bits({8, {32}, {2}});
    }
  }
  expect_agreement(programs);
}

/// What a bitcast shows of NaN where it is asked to name it: in each type, in part, in wider and in narrower numbers.
TEST(OpKinds, BitcastsThatNameNans) {
  std::deque<TestProgram> programs;
  for (DType from : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    const auto width = static_cast<std::size_t>(size_bytes(from));
    for (DType to : {DType::kU8, DType::kI16, DType::kBF16, DType::kI32, DType::kF32, DType::kI64}) {
      if (from == to) continue;
      TestProgram& t = programs.emplace_back(8);
      const Operand x = t.input(from, {80}, -2, 2);
      auto& bytes = t.values[x.value];
      for (std::size_t i = 0; i < 80; i += 3) {  // NaN of both signs and of any payload, infinities of both signs
        std::byte* const top = &bytes[(i + 1) * width - 1];
        top[0] = i % 2 == 0 ? std::byte{0x7f} : std::byte{0xff};
        top[-1] = from == DType::kF16 ? static_cast<std::byte>(i)
                                      : static_cast<std::byte>((from == DType::kF64 ? 0xf0 : 0x80) + i % 5);
        if (i % 4 == 0) {
          std::fill(top - width + 1, top - 1, std::byte{0});
          if (from == DType::kF16) top[0] = i % 2 == 0 ? std::byte{0x7c} : std::byte{0xfc};
        }
      }
      for (const graph::View& view :
           {graph::View::contiguous({80}), graph::View{16, {24}, {1}}, graph::View{8, {32}, {2}}}) {
        const std::int64_t all = view.elements() * size_bytes(from);
        graph::Attributes list;
        list.dims = {0};
        list.index = graph::kNamesNans;
        Operand y = t.op(OpKind::kConcat, {{x.value, view, {}}}, {all / size_bytes(to)}, to, list);
        list.index = -1;
        if (is_floating(to)) y = t.op(OpKind::kConcat, {y}, {all}, DType::kU8, list);
        t.keep(y);
      }
    }
  }
  expect_agreement(programs);
}

/// A table in a view, indices inside and outside, in memory and computed, and elements that several indices name.
TEST(OpKinds, TakesAndPutsInEveryDtype) {
  std::deque<TestProgram> programs;
  for (DType dtype : kAll) {
    const double low = dtype == DType::kU8 || dtype == DType::kBool ? 0 : -4;
    for (DType ids_type : {DType::kI64, DType::kI32}) {
      if (ids_type == DType::kI32 && dtype != DType::kF32) continue;
      TestProgram& t = programs.emplace_back(12);
      const Operand store = t.input(dtype, {40, 2}, low, 5), index = t.input(ids_type, {7, 9}, -3, 43),
                    source = t.input(dtype, {7, 9}, low, 5);
      const Operand table = {store.value, {1, {40}, {2}}, {}};
      const Operand taken = t.op(OpKind::kTake, {table, index}, {7, 9}, dtype);
      t.keep(taken);
      t.keep(t.op(OpKind::kSelect, {t.op(OpKind::kEqual, {taken, source}, {7, 9}, DType::kBool), taken, source}, {7, 9},
                  dtype));
      graph::Attributes along;
      along.dims = {1};
      const Operand column = t.op(OpKind::kCoordinate, {}, {7, 9}, DType::kI64, along);
      const Operand moved = t.op(OpKind::kMultiply, {column, t.scalar(5)}, {7, 9}, DType::kI64);
      const Operand again = t.op(OpKind::kTake, {table, moved}, {7, 9}, dtype);
      t.keep(t.reduce(OpKind::kReduceMax, again, {1}));
      t.keep(t.op(OpKind::kTake, {table, column}, {7, 9}, dtype));
      t.keep(t.op(OpKind::kTake, {t.input(dtype, {0}), index}, {7, 9}, dtype));
      for (OpKind kind : {OpKind::kPutSet, OpKind::kPutAdd, OpKind::kPutMultiply, OpKind::kPutMax, OpKind::kPutMin}) {
        const bool arithmetic = kind == OpKind::kPutAdd || kind == OpKind::kPutMultiply;
        if (arithmetic && dtype == DType::kBool) continue;
        t.keep(t.op(kind, {table, index, source}, {40}, dtype));
        t.keep(t.op(kind, {table, permuted(index, {1, 0}), reshaped(source, {9, 7})}, {40}, dtype));
        const Operand wide = t.input(dtype, {1000}, low, 5);
        t.keep(t.op(kind, {wide, moved, source}, {1000}, dtype));
        t.keep(t.op(kind, {t.op(OpKind::kCopy, {wide}, {1000}, dtype), index, taken}, {1000}, dtype));
        t.keep(t.op(kind, {wide, t.input(ids_type, {0}), t.input(dtype, {0})}, {1000}, dtype));
      }
    }
  }
  expect_agreement(programs);
}

/// Products of the index, the take and what follows are one kernel.
TEST(OpKinds, ATakeFusesWithItsIndexAndItsReaders) {
  std::deque<TestProgram> programs;
  TestProgram& t = programs.emplace_back(13);
  const Operand table = t.input(DType::kF32, {300}), index = t.input(DType::kI64, {20, 30}, 0, 100);
  const Operand place = t.op(OpKind::kMultiply, {index, t.scalar(2)}, {20, 30}, DType::kI64);
  const Operand taken = t.op(OpKind::kTake, {table, place}, {20, 30});
  const Operand half = t.op(OpKind::kMultiply, {taken, t.scalar(0.5)}, {20, 30});
  t.keep(t.reduce(OpKind::kReduceSum, half, {1}));
  if (HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  std::vector<std::size_t> steps;
  EXPECT_THAT(run_and_compare({&t}, &steps), testing::IsEmpty());
  EXPECT_EQ(steps, std::vector<std::size_t>{1});
}

/// A table that the program computes must be finished before its first element is looked up.
TEST(OpKinds, ATakeDoesNotFuseWithWhatMakesItsTable) {
  if (HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  for (const std::int64_t size : {600, 1}) {
    TestProgram t(14);
    const Operand x = t.input(DType::kF32, {size}), index = t.input(DType::kI64, {size}, 0, 1);
    const Operand table = t.op(OpKind::kMultiply, {x, t.scalar(3)}, {size});
    const Operand taken = t.op(OpKind::kTake, {table, index}, {size});
    t.keep(t.op(OpKind::kAdd, {taken, x}, {size}));
    std::vector<std::size_t> steps;
    EXPECT_THAT(run_and_compare({&t}, &steps), testing::IsEmpty());
    EXPECT_EQ(steps, std::vector<std::size_t>{2});
  }
}

/// As in the sign of an empty matrix's permutation: nothing to count, and a product of nothing that somebody reads.
TEST(OpKinds, CoordinatesOfNothing) {
  std::deque<TestProgram> programs;
  TestProgram& t = programs.emplace_back(15);
  graph::Attributes along;
  along.dims = {0};
  const Operand place = t.op(OpKind::kCoordinate, {}, {0}, DType::kI64, along), x = t.input(DType::kI64, {0});
  const Operand same = t.op(OpKind::kEqual, {x, place}, {0}, DType::kBool);
  t.keep(t.reduce(OpKind::kReduceProduct, t.op(OpKind::kCopy, {same}, {0}, DType::kI64), {0}));
  expect_agreement(programs);
}

TEST(OpKinds, MatrixProductsInEveryOrderOfOperands) {
  std::deque<TestProgram> programs;
  for (DType dtype : kFloats) {
    TestProgram& t = programs.emplace_back(8);
    const Operand a = t.input(dtype, {3, 14, 10}), b = t.input(dtype, {3, 10, 18});
    const Operand a_turned = permuted(t.input(dtype, {3, 10, 14}), {0, 2, 1}),
                  b_turned = permuted(t.input(dtype, {3, 18, 10}), {0, 2, 1});
    graph::Attributes attributes;
    attributes.alpha = 0.5;
    for (const Operand& left : {a, a_turned}) {
      for (const Operand& right : {b, b_turned})
        t.keep(t.op(OpKind::kMatMul, {left, right}, {3, 14, 18}, dtype, attributes));
    }
    t.keep(t.op(OpKind::kMatMul, {t.input(dtype, {1, 7}), t.input(dtype, {7, 1})}, {1, 1}, dtype));
  }
  expect_agreement(programs);
}

TEST(OpKinds, ConvolutionsAndTheirGradients) {
  std::deque<TestProgram> programs;
  struct Shape {
    std::int64_t groups, kernel, stride, padding, dilation;
  };
  for (const Shape& s : {Shape{1, 3, 1, 1, 1}, Shape{1, 3, 2, 1, 1}, Shape{2, 2, 1, 0, 2}, Shape{1, 1, 2, 0, 1},
                         Shape{4, 3, 3, 2, 1}, Shape{1, 5, 2, 4, 2}}) {
    for (DType dtype : {DType::kF32, DType::kF64}) {
      TestProgram& t = programs.emplace_back(9);
      graph::Attributes a;
      a.groups = s.groups;
      for (int d = 0; d < 2; ++d) a.stride[d] = s.stride, a.padding[d] = s.padding, a.dilation[d] = s.dilation;
      a.padding[1] = s.padding / 2;
      const auto out = [&](int d, std::int64_t in) {
        return (in + 2 * a.padding[d] - a.dilation[d] * (s.kernel - 1) - 1) / s.stride + 1;
      };
      const std::int64_t oh = out(0, 12), ow = out(1, 9);
      const Operand x = t.input(dtype, {2, 4, 12, 9}), w = t.input(dtype, {8, 4 / s.groups, s.kernel, s.kernel}),
                    dy = t.input(dtype, {2, 8, oh, ow});
      t.keep(t.op(OpKind::kConv2d, {x, w}, {2, 8, oh, ow}, dtype, a));
      t.keep(t.op(OpKind::kConv2dBackwardInput, {dy, w}, {2, 4, 12, 9}, dtype, a));
      t.keep(t.op(OpKind::kConv2dBackwardWeight, {dy, x}, {8, 4 / s.groups, s.kernel, s.kernel}, dtype, a));
    }
  }
  expect_agreement(programs);
}

TEST(OpKinds, MaxPoolingAndItsGradient) {
  std::deque<TestProgram> programs;
  struct Shape {
    std::int64_t kernel, stride, padding, dilation, out;
  };
  for (const Shape& s : {Shape{3, 2, 1, 1, 6}, Shape{2, 2, 0, 1, 6}, Shape{3, 1, 1, 2, 10}, Shape{2, 3, 1, 1, 5}}) {
    for (DType dtype : {DType::kF32, DType::kF64, DType::kI32, DType::kU8}) {
      TestProgram& t = programs.emplace_back(10);
      graph::Attributes a;
      for (int d = 0; d < 2; ++d)
        a.kernel[d] = s.kernel, a.stride[d] = s.stride, a.padding[d] = s.padding, a.dilation[d] = s.dilation;
      const Operand x = t.input(dtype, {2, 3, 12, 12}, dtype == DType::kU8 ? 0 : -4, 4);
      if (dtype == DType::kF32) {  // a window of NaN and a plane of -inf
        graph::store_real(dtype, std::numeric_limits<double>::quiet_NaN(), t.values[x.value].data() + 30 * 4);
        for (int i = 144; i < 288; ++i)
          graph::store_real(dtype, -std::numeric_limits<double>::infinity(), t.values[x.value].data() + i * 4);
      }
      const Operand y = t.op(OpKind::kMaxPool2d, {x}, {2, 3, s.out, s.out}, dtype, a);
      const Operand place = t.second_result({2, 3, s.out, s.out}, DType::kI64);
      t.keep(y);
      t.keep(place);
      t.keep(
          t.op(OpKind::kMaxPool2dBackward, {t.input(dtype, {2, 3, s.out, s.out}, 0, 5), place}, {2, 3, 12, 12}, dtype));
    }
  }
  expect_agreement(programs);
}

/// Rows that no stack holds, and windows of more taps than a text should have.
TEST(OpKinds, MaxPoolingOfLongRowsAndWideWindows) {
  std::deque<TestProgram> programs;
  struct Shape {
    std::int64_t width, kernel, stride, padding, dilation, out;
  };
  for (const Shape& s :
       {Shape{20000, 3, 2, 1, 1, 10000}, Shape{300, 70, 3, 30, 1, 97}, Shape{260, 65, 1, 60, 3, 188}}) {
    for (DType dtype : {DType::kF32, DType::kI32}) {
      TestProgram& t = programs.emplace_back(12);
      graph::Attributes a;
      a.kernel[1] = s.kernel, a.stride[1] = s.stride, a.padding[1] = s.padding, a.dilation[1] = s.dilation;
      a.kernel[0] = 2, a.stride[0] = 1, a.padding[0] = 1;
      const Operand x = t.input(dtype, {1, 2, 3, s.width}, -4, 4);
      if (dtype == DType::kF32) {
        graph::store_real(dtype, std::numeric_limits<double>::quiet_NaN(), t.values[x.value].data() + 30 * 4);
        for (std::int64_t i = 3 * s.width; i < 6 * s.width; ++i)
          graph::store_real(dtype, -std::numeric_limits<double>::infinity(), t.values[x.value].data() + i * 4);
      }
      t.keep(t.op(OpKind::kMaxPool2d, {x}, {1, 2, 4, s.out}, dtype, a));
      t.keep(t.second_result({1, 2, 4, s.out}, DType::kI64));
    }
  }
  expect_agreement(programs);
}

TEST(OpKinds, EmptyTensors) {
  std::deque<TestProgram> programs;
  TestProgram& t = programs.emplace_back(11);
  const Operand none = t.input(DType::kF32, {0, 4});
  const Operand more = t.op(OpKind::kAdd, {none, t.scalar(1)}, {0, 4});
  t.keep(t.reduce(OpKind::kReduceSum, more, {0}));
  t.keep(t.op(OpKind::kMatMul, {t.input(DType::kF32, {3, 0}), none}, {3, 4}));
  expect_agreement(programs);
}

}  // namespace
}  // namespace crucible::kernel
