// Kernels written by hand for what random programs do not have: tiles, transposed copies, buffers in a table, scalars
// in each type.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "plugins/sdk/error.hpp"
#include "plugins/spirv/testing.hpp"

namespace crucible::spirv {
namespace {

using namespace crucible;
using sdk::Expr;
using sdk::StmtKind;
using sdk::Type;
using Bytes = std::vector<std::byte>;

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
template <class T>
std::vector<T> values_of(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::uint32_t integer(testing::OneKernel& one, std::int64_t value) {
  return one.add({.operation = sdk::Op::kInteger, .type = Type::kI64, .integer = value});
}

/// One item: a tile of 3 x 32 over 5 steps, its right operand first copied to an array, transposed.
template <class T>
sdk::Kernel tile_kernel(Type type, sdk::TileStart start) {
  const Type types[] = {type, type, type};
  testing::OneKernel one(types);
  constexpr std::int64_t kRows = 3, kColumns = 32, kSteps = 5;
  one.kernel.arrays = {{type, kRows * kColumns}, {type, kColumns * kSteps}};
  const std::uint32_t zero = integer(one, 0), steps = integer(one, kSteps), all = integer(one, kRows * kColumns);
  one.kernel.transposes = {{.to = 1,
                            .from = 1,
                            .columns = kColumns,
                            .to_base = zero,
                            .from_base = zero,
                            .to_step = kColumns,
                            .from_step = kSteps}};
  one.kernel.tiles = {{.sums = 0,
                       .base = zero,
                       .rows = kRows,
                       .columns = kColumns,
                       .start = start,
                       .left = {.is_array = false, .id = 0, .base = zero, .row_step = kSteps, .step = 1},
                       .right = {.is_array = true, .id = 1, .base = zero, .row_step = 0, .step = kColumns}}};
  one.kernel.variables.push_back({Type::kI64, false});
  one.kernel.variables.push_back({Type::kI64, false});
  const std::uint32_t i = one.add({.operation = sdk::Op::kVariable, .type = Type::kI64, .id = 1}),
                      j = one.add({.operation = sdk::Op::kVariable, .type = Type::kI64, .id = 2});
  const std::uint32_t seven = one.add({.operation = sdk::Op::kReal, .type = type, .real = 7}),
                      sum = one.add(
                          {.operation = sdk::Op::kElement, .type = type, .in = {j, sdk::kNoId, sdk::kNoId}, .id = 0});
  one.kernel.body[0].body = {{.kind = StmtKind::kFor,
                              .id = 1,
                              .a = zero,
                              .b = all,
                              .body = {{.kind = StmtKind::kElement, .id = 0, .a = i, .b = seven, .body = {}}}},
                             {.kind = StmtKind::kTranspose, .id = 0, .a = steps, .body = {}},
                             {.kind = StmtKind::kTile, .id = 0, .a = steps, .body = {}},
                             {.kind = StmtKind::kFor,
                              .mode = sdk::LoopMode::kUnrolled,
                              .id = 2,
                              .a = zero,
                              .b = all,
                              .body = {{.kind = StmtKind::kStore, .id = 2, .a = j, .b = sum, .body = {}}}}};
  sdk::check_kernel(one.kernel);
  return one.kernel;
}

template <class T>
void check_tile(Type type, sdk::TileStart start) {
  KernelModule module;
  const std::vector<Parameter> parameters = module.add(tile_kernel<T>(type, start), "tile");
  if (testing::no_validator().empty()) {
    EXPECT_EQ(testing::validate(module.words()), "");
  }
  if (const std::string reason = testing::DeviceProgram::no_device(); !reason.empty()) GTEST_SKIP() << reason;
  std::vector<T> left(15), right(160), expected(96);
  for (std::size_t i = 0; i < left.size(); ++i) left[i] = std::sin(static_cast<T>(i + 1));
  for (std::size_t i = 0; i < right.size(); ++i) right[i] = std::cos(static_cast<T>(i));
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 32; ++j) {
      T sum = start == sdk::TileStart::kGoOn ? T(7) : T(0);
      for (std::size_t q = 0; q < 5; ++q) sum = std::fma(left[i * 5 + q], right[j * 5 + q], sum);
      expected[i * 32 + j] = start == sdk::TileStart::kAdd ? T(7) + sum : sum;
    }
  }
  Bytes a = bytes_of(left), b = bytes_of(right), c = bytes_of(std::vector<T>(96));
  Bytes* buffers[] = {&a, &b, &c};
  testing::DeviceProgram program(module.words());
  program.run("tile", parameters, buffers, {}, 0, 1, 4);
  EXPECT_EQ(values_of<T>(c), expected);
}

TEST(SpirvKernel, TilesRoundOncePerStep) {
  for (const sdk::TileStart start : {sdk::TileStart::kZero, sdk::TileStart::kGoOn, sdk::TileStart::kAdd}) {
    check_tile<float>(Type::kF32, start);
    check_tile<double>(Type::kF64, start);
  }
}

template <class T>
void check_fma(Type type) {
  const Type types[] = {type, type};
  testing::OneKernel one(types);
  const std::uint32_t x =
      one.add({.operation = sdk::Op::kLoad, .type = type, .in = {one.item, sdk::kNoId, sdk::kNoId}, .id = 0});
  const std::uint32_t less = one.add({.operation = sdk::Op::kReal, .type = type, .real = -1});
  one.store(one.add({.operation = sdk::Op::kFma, .type = type, .in = {x, x, less}}));
  KernelModule module;
  const std::vector<Parameter> parameters = module.add(one.kernel, "fused");
  if (testing::no_validator().empty()) {
    EXPECT_EQ(testing::validate(module.words()), "");
  }
  if (const std::string reason = testing::DeviceProgram::no_device(); !reason.empty()) GTEST_SKIP() << reason;
  std::vector<T> values(100), expected(100);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 1 + std::sin(static_cast<T>(i)) / 1000;
    expected[i] = std::fma(values[i], values[i], T(-1));
  }
  Bytes a = bytes_of(values), b = bytes_of(std::vector<T>(100));
  Bytes* buffers[] = {&a, &b};
  testing::DeviceProgram program(module.words());
  program.run("fused", parameters, buffers, {}, 0, 100, 10);
  EXPECT_EQ(values_of<T>(b), expected);
}

TEST(SpirvKernel, FusedMultiplyAddsRoundOnce) {
  check_fma<float>(Type::kF32);
  check_fma<double>(Type::kF64);
}

/// Items that sum up (multiply, ...) 20 numbers each, whose turns are free: v = 3; for (j) v = v op x[item * 20 + j].
template <class T>
void check_joined(Type type, sdk::Op op, T (*combine)(T, T)) {
  constexpr std::int64_t kItems = 7, kTerms = 20;
  const Type types[] = {type, type};
  testing::OneKernel one(types);
  one.kernel.variables.push_back({type, true});
  one.kernel.variables.push_back({Type::kI64, false});
  const std::uint32_t zero = integer(one, 0), terms = integer(one, kTerms);
  const std::uint32_t three = is_floating(type) ? one.add({.operation = sdk::Op::kReal, .type = type, .real = 3})
                                                : one.add({.operation = sdk::Op::kInteger, .type = type, .integer = 3});
  const std::uint32_t sum = one.add({.operation = sdk::Op::kVariable, .type = type, .id = 1}),
                      j = one.add({.operation = sdk::Op::kVariable, .type = Type::kI64, .id = 2});
  const std::uint32_t row =
      one.add({.operation = sdk::Op::kMultiply, .type = Type::kI64, .in = {one.item, terms, sdk::kNoId}});
  const std::uint32_t at = one.add({.operation = sdk::Op::kAdd, .type = Type::kI64, .in = {row, j, sdk::kNoId}});
  const std::uint32_t term =
      one.add({.operation = sdk::Op::kLoad, .type = type, .in = {at, sdk::kNoId, sdk::kNoId}, .id = 0});
  const std::uint32_t next = one.add({.operation = op, .type = type, .in = {sum, term, sdk::kNoId}});
  one.kernel.body[0].body = {{.kind = StmtKind::kLet, .id = 1, .a = three, .body = {}},
                             {.kind = StmtKind::kFor,
                              .mode = sdk::LoopMode::kVector,
                              .id = 2,
                              .a = zero,
                              .b = terms,
                              .body = {{.kind = StmtKind::kSet, .id = 1, .a = next, .body = {}}}}};
  one.store(sum);
  const sdk::Team team = sdk::plan_team(one.kernel, 8);
  ASSERT_EQ(team.lanes, 8u);
  KernelModule module;
  const std::vector<Parameter> parameters = module.add(one.kernel, "joined", {.team = &team});
  if (testing::no_validator().empty()) {
    EXPECT_EQ(testing::validate(module.words()), "");
  }
  if (const std::string reason = testing::DeviceProgram::no_device(); !reason.empty()) GTEST_SKIP() << reason;
  std::vector<T> values(kItems * kTerms), expected(kItems, T(3));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = T(i % 7 == 0 ? 2 : i % 3 == 0 ? -1 : 1);  // every product and sum of them is exact
    expected[i / kTerms] = combine(expected[i / kTerms], values[i]);
  }
  Bytes a = bytes_of(values), b = bytes_of(std::vector<T>(kItems));
  Bytes* buffers[] = {&a, &b};
  testing::DeviceProgram(module.words()).run("joined", parameters, buffers, {}, 0, kItems, 3 * 8, 8);
  EXPECT_EQ(values_of<T>(b), expected) << name(type) << " " << static_cast<int>(op);
}

template <class T>
void check_all_joined(Type type) {
  check_joined<T>(type, sdk::Op::kAdd, [](T a, T b) { return T(a + b); });
  check_joined<T>(type, sdk::Op::kMultiply, [](T a, T b) { return T(a * b); });
  check_joined<T>(type, sdk::Op::kMaximum, [](T a, T b) { return std::max(a, b); });
  check_joined<T>(type, sdk::Op::kMinimum, [](T a, T b) { return std::min(a, b); });
}

TEST(SpirvKernel, TeamsJoinWhatEachLaneSummedUp) {
  check_all_joined<std::int64_t>(Type::kI64);
  check_all_joined<std::int32_t>(Type::kI32);
  check_all_joined<float>(Type::kF32);
  check_all_joined<double>(Type::kF64);
}

/// A compiler that makes vectors of it would change its last bits.
TEST(SpirvKernel, ASerialSumKeepsItsOrder) {
  constexpr std::int64_t kItems = 4, kTerms = 1000;
  const Type types[] = {Type::kF32, Type::kF32};
  testing::OneKernel one(types);
  one.kernel.variables.push_back({Type::kF32, true});
  one.kernel.variables.push_back({Type::kI64, false});
  const std::uint32_t zero = integer(one, 0), terms = integer(one, kTerms),
                      none = one.add({.operation = sdk::Op::kReal, .type = Type::kF32});
  const std::uint32_t sum = one.add({.operation = sdk::Op::kVariable, .type = Type::kF32, .id = 1}),
                      j = one.add({.operation = sdk::Op::kVariable, .type = Type::kI64, .id = 2});
  const std::uint32_t row =
      one.add({.operation = sdk::Op::kMultiply, .type = Type::kI64, .in = {one.item, terms, sdk::kNoId}});
  const std::uint32_t at = one.add({.operation = sdk::Op::kAdd, .type = Type::kI64, .in = {row, j, sdk::kNoId}});
  const std::uint32_t term =
      one.add({.operation = sdk::Op::kLoad, .type = Type::kF32, .in = {at, sdk::kNoId, sdk::kNoId}, .id = 0});
  const std::uint32_t next = one.add({.operation = sdk::Op::kAdd, .type = Type::kF32, .in = {sum, term, sdk::kNoId}});
  one.kernel.body[0].body = {{.kind = StmtKind::kLet, .id = 1, .a = none, .body = {}},
                             {.kind = StmtKind::kFor,
                              .id = 2,
                              .a = zero,
                              .b = terms,
                              .body = {{.kind = StmtKind::kSet, .id = 1, .a = next, .body = {}}}}};
  one.store(sum);
  KernelModule module;
  const std::vector<Parameter> parameters = module.add(one.kernel, "sum");
  if (testing::no_validator().empty()) {
    EXPECT_EQ(testing::validate(module.words()), "");
  }
  if (const std::string reason = testing::DeviceProgram::no_device(); !reason.empty()) GTEST_SKIP() << reason;
  std::vector<float> values(kItems * kTerms), expected(kItems);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  for (std::size_t i = 0; i < values.size(); ++i) expected[i / kTerms] += values[i];
  Bytes in = bytes_of(values), out = bytes_of(std::vector<float>(kItems));
  Bytes* buffers[] = {&in, &out};
  testing::DeviceProgram program(module.words());
  for (const std::size_t width : {1u, 4u}) {
    program.run("sum", parameters, buffers, {}, 0, kItems, width);
    EXPECT_EQ(values_of<float>(out), expected) << width;
  }
}

/// c[i] = a[i] + scalar, converted.
TEST(SpirvKernel, ScalarsComeInTheTypesThatAreComputedWith) {
  for (const Type type : {Type::kF32, Type::kF64, Type::kI32, Type::kI64, Type::kU8}) {
    const Type types[] = {type, type};
    testing::OneKernel one(types);
    one.kernel.scalars = {is_floating(type) ? Type::kF64 : Type::kI64};
    const std::uint32_t scalar = one.add({.operation = sdk::Op::kScalar, .type = type, .id = 0}), a = one.load(0);
    one.store(one.add({.operation = sdk::Op::kAdd, .type = type, .in = {a, scalar, sdk::kNoId}}));
    KernelModule module;
    const std::vector<Parameter> parameters = module.add(one.kernel, "scalar");
    ASSERT_EQ(parameters.size(), 5u);
    EXPECT_EQ(parameters[2].type, is_floating(type) ? type : Type::kI64);
    if (testing::no_validator().empty()) {
      EXPECT_EQ(testing::validate(module.words()), "") << name(type);
    }
    if (!testing::DeviceProgram::no_device().empty()) continue;
    Bytes in(80 * size_bytes(type)), out = in;
    Bytes* buffers[] = {&in, &out};
    const std::uint64_t scalars[] = {is_floating(type) ? std::bit_cast<std::uint64_t>(0.1) : 41u};
    testing::DeviceProgram(module.words()).run("scalar", parameters, buffers, scalars, 10, 70, 7);
    Bytes expected(size_bytes(type));
    if (type == Type::kF32) expected = bytes_of<float>({0.1f});
    if (type == Type::kF64) expected = bytes_of<double>({0.1});
    if (!is_floating(type)) expected[0] = std::byte{41};
    for (std::size_t i = 0; i < 80; ++i) {
      const Bytes got(out.begin() + static_cast<std::ptrdiff_t>(i * expected.size()),
                      out.begin() + static_cast<std::ptrdiff_t>((i + 1) * expected.size()));
      EXPECT_EQ(got, i >= 10 && i < 70 ? expected : Bytes(expected.size())) << name(type) << " " << i;
    }
  }
}

TEST(SpirvKernel, BuffersInATableAreValid) {
  const Type types[] = {Type::kF32, Type::kF16, Type::kBool, Type::kF64};
  testing::OneKernel one(types);
  one.store(one.add({.operation = sdk::Op::kConvert, .type = Type::kF64, .in = {one.load(1), sdk::kNoId, sdk::kNoId}}));
  KernelModule module;
  const std::vector<Parameter> parameters = module.add(one.kernel, "table", {.buffers = Buffers::kTable});
  ASSERT_EQ(parameters.size(), 3u);
  EXPECT_EQ(parameters[0].kind, ParameterKind::kTable);
  if (const std::string reason = testing::no_validator(); !reason.empty()) GTEST_SKIP() << reason;
  EXPECT_EQ(testing::validate(module.words()), "");
}

/// Memories and offsets, as a driver needs that hands over no addresses; chunks, as processors want them.
TEST(SpirvKernel, EveryFormIsValid) {
  if (const std::string reason = testing::no_validator(); !reason.empty()) GTEST_SKIP() << reason;
  const Type types[] = {Type::kF32, Type::kF16, Type::kBool, Type::kU8, Type::kF64};
  testing::OneKernel one(types);
  one.kernel.scalars = {Type::kF64};
  const std::uint32_t a =
      one.add({.operation = sdk::Op::kConvert, .type = Type::kF64, .in = {one.load(1), sdk::kNoId, sdk::kNoId}});
  one.store(one.add({.operation = sdk::Op::kAdd,
                     .type = Type::kF64,
                     .in = {a, one.add({.operation = sdk::Op::kScalar, .type = Type::kF64, .id = 0}), sdk::kNoId}}));
  KernelModule module;
  const auto count_of = [&](Form form, std::string_view name) { return module.add(one.kernel, name, form).size(); };
  EXPECT_EQ(count_of({.buffers = Buffers::kArguments, .by_chunks = true}, "chunks"), 5u + 1 + 3);
  EXPECT_EQ(count_of({.buffers = Buffers::kOffsets}, "offsets"), 10u + 1 + 2);
  EXPECT_EQ(count_of({.buffers = Buffers::kOffsets, .by_chunks = true}, "offsets_chunks"), 10u + 1 + 3);
  EXPECT_EQ(count_of({.buffers = Buffers::kTable, .by_chunks = true}, "table_chunks"), 1u + 1 + 3);
  EXPECT_EQ(count_of({.buffers = Buffers::kMemoryTable}, "memories"), kTableMemories + 1 + 1 + 2);
  EXPECT_EQ(testing::validate(module.words()), "");
}

TEST(SpirvKernel, AScalarAsF16IsRefused) {
  const Type types[] = {Type::kF16};
  testing::OneKernel one(types);
  one.kernel.scalars = {Type::kF64};
  one.store(one.add({.operation = sdk::Op::kScalar, .type = Type::kF16, .id = 0}));
  KernelModule module;
  EXPECT_THROW(module.add(one.kernel, "half"), sdk::Failure);
}

}  // namespace
}  // namespace crucible::spirv
