// Which loops a thread does by several turns, and what of a kernel keeps it from that. That they compute the same is
// for the tests of teams (team_kernel_test.cpp) and of dialects, which run the texts.
#include "plugins/sdk/wide_loops.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/kernel/schedule.hpp"
#include "core/kernel/testing/test_program.hpp"
#include "plugins/sdk/c_dialect.hpp"
#include "plugins/sdk/kernel_index.hpp"
#include "plugins/sdk/thread_kernel.hpp"

namespace crucible::sdk {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// The only kernel of a program, in fast numerics.
ThreadKernel kernel_of(const kernel::TestProgram& test, std::uint32_t lanes) {
  const auto scheduled =
      kernel::schedule(test.program, {.device = {.workers = 4096, .register_bytes = 1020, .lanes = lanes}});
  EXPECT_EQ(scheduled->kernels.size(), 1u);
  const kernel::Kernel& source = scheduled->kernels[0];
  return print_thread_kernel(read_kernel(source.ir.data(), source.ir.size()), dialect_cuda(), "k", lanes);
}

TEST(SdkWideLoops, AThreadDoesItemsBySixteenBytes) {
  const auto exponentials = [](DType type) {
    kernel::TestProgram test;
    test.keep(test.op(graph::OpKind::kExp, {test.input(type, {5000})}, {5000}, type));
    return kernel_of(test, 32);
  };
  const ThreadKernel single = exponentials(DType::kF32), half = exponentials(DType::kBF16),
                     wide = exponentials(DType::kF64);
  EXPECT_EQ(single.items, 4u);
  EXPECT_THAT(single.text, HasSubstr("crucible_read(4, "));
  EXPECT_THAT(single.text, HasSubstr("crucible_write(4, "));
  EXPECT_THAT(single.text, HasSubstr("is_aligned"));
  EXPECT_EQ(single.alignment, 1u) << "it looks at the addresses";
  EXPECT_EQ(half.items, 8u);
  EXPECT_THAT(half.text, HasSubstr("crucible_read(8, "));
  EXPECT_EQ(wide.items, 2u);
}

TEST(SdkWideLoops, TheNarrowestTypeSaysHowManyAndWiderOnesAreReadInParts) {
  kernel::TestProgram test;
  const auto half = test.input(DType::kBF16, {5000});
  const auto single = test.op(graph::OpKind::kCopy, {half}, {5000}, DType::kF32);
  test.keep(test.op(graph::OpKind::kAdd, {single, test.input(DType::kF32, {5000})}, {5000}));
  const ThreadKernel kernel = kernel_of(test, 32);
  EXPECT_EQ(kernel.items, 8u);
  EXPECT_THAT(kernel.text, HasSubstr("crucible_read(8, "));
  EXPECT_THAT(kernel.text, HasSubstr("+ 4, &b"));  // the second half of eight f32
}

/// An item of a team: for the turns v1 of a vector loop over 1024: v2 = b0[INDEX], b1[item * 1024 + v1] = v2.
struct Row {
  Kernel kernel;
  std::uint32_t item, turn;
  Row() {
    kernel.buffers = {{Type::kF32, false, false}, {Type::kF32, true, false}};
    kernel.variables = {{Type::kI64, false}, {Type::kI64, false}, {Type::kF32, false}};
    item = variable(0), turn = variable(1);
    Stmt loop{
        .kind = StmtKind::kFor, .mode = LoopMode::kVector, .id = 1, .a = integer(0), .b = integer(1024), .body = {}};
    loop.body = {{.kind = StmtKind::kLet, .id = 2, .a = load(0, row(1024)), .body = {}}, store(1, row(1024))};
    kernel.body = {{.kind = StmtKind::kGrid, .id = 0, .body = {loop}}};
  }
  std::vector<Stmt>& in_loop() { return kernel.body[0].body[0].body; }
  std::uint32_t add(const Expr& expr) {
    kernel.exprs.push_back(expr);
    return static_cast<std::uint32_t>(kernel.exprs.size() - 1);
  }
  std::uint32_t integer(std::int64_t value) {
    return add({.operation = Op::kInteger, .type = Type::kI64, .integer = value});
  }
  std::uint32_t variable(std::uint32_t id) { return add({.operation = Op::kVariable, .type = Type::kI64, .id = id}); }
  std::uint32_t binary(Op op, std::uint32_t a, std::uint32_t b) {
    return add({.operation = op, .type = Type::kI64, .in = {a, b, kNoId}});
  }
  std::uint32_t row(std::int64_t width) { return binary(Op::kAdd, binary(Op::kMultiply, item, integer(width)), turn); }
  std::uint32_t load(std::uint32_t buffer, std::uint32_t index) {
    return add({.operation = Op::kLoad, .type = Type::kF32, .in = {index, kNoId, kNoId}, .id = buffer});
  }
  Stmt store(std::uint32_t buffer, std::uint32_t index) {
    return {.kind = StmtKind::kStore,
            .id = buffer,
            .a = index,
            .b = add({.operation = Op::kVariable, .type = Type::kF32, .id = 2}),
            .body = {}};
  }
  /// With another index of the load.
  std::string reading(std::uint32_t index) {
    in_loop()[0].a = load(0, index);
    return print();
  }
  std::string print() const {
    check_kernel(kernel);  // else the test is wrong
    return print_thread_kernel(kernel, dialect_cuda(), "k", 32).text;
  }
};

TEST(SdkWideLoops, LanesReadSideBySideWhereEverythingIsAMultiple) {
  Row plain;
  EXPECT_THAT(plain.print(), HasSubstr("const int32_t first = t * 512 + lane * 4;"));
  EXPECT_EQ(print_thread_kernel(plain.kernel, dialect_cuda(), "k", 32).alignment, kWideBytes);
  Row odd, even, shifted, twice;
  EXPECT_THAT(odd.reading(odd.row(1023)), Not(HasSubstr("lane * 4")));
  EXPECT_THAT(odd.print(), Not(HasSubstr("lane * 2")));
  EXPECT_THAT(even.reading(even.row(1022)), HasSubstr("lane * 2;"));
  EXPECT_THAT(shifted.reading(shifted.binary(Op::kAdd, shifted.row(1024), shifted.integer(2))), HasSubstr("lane * 2;"));
  // Every second element is read one by one, and written by four.
  const std::string text = twice.reading(twice.binary(Op::kMultiply, twice.turn, twice.integer(2)));
  EXPECT_THAT(text, HasSubstr("crucible_write(4, "));
  EXPECT_THAT(text, Not(HasSubstr("crucible_read(")));
}

TEST(SdkWideLoops, AGroupBetweenMultiplesOfADivisorIsOneRow) {
  Row rows;
  const auto of = [&](std::int64_t by) {
    return rows.binary(
        Op::kAdd, rows.binary(Op::kMultiply, rows.binary(Op::kDivide, rows.turn, rows.integer(by)), rows.integer(64)),
        rows.binary(Op::kRemainder, rows.turn, rows.integer(by)));
  };
  EXPECT_THAT(rows.reading(of(32)), HasSubstr("crucible_read(4, "));
  EXPECT_THAT(rows.reading(of(6)), HasSubstr("crucible_read(2, "));
  EXPECT_THAT(rows.reading(of(7)), Not(HasSubstr("crucible_read(2, ")));
  // Rows of six, one behind the other with a gap: a group of four would lie in two of them.
  const auto gaps = rows.binary(
      Op::kAdd, rows.binary(Op::kMultiply, rows.binary(Op::kDivide, rows.turn, rows.integer(6)), rows.integer(64)),
      rows.turn);
  EXPECT_THAT(rows.reading(gaps), Not(HasSubstr("crucible_read(4, ")));
}

TEST(SdkWideLoops, NothingIsLoadedBeforeItsOwnTurnStoresIt) {
  Row again;  // the same memory, read behind the store
  again.kernel.buffers[0].may_alias = again.kernel.buffers[1].may_alias = true;
  EXPECT_THAT(again.print(), HasSubstr("crucible_read(4, ")) << "load, then store: in place";
  again.kernel.variables.push_back({Type::kF32, false});
  again.in_loop().push_back({.kind = StmtKind::kLet, .id = 3, .a = again.load(0, again.row(1024)), .body = {}});
  EXPECT_THAT(again.print(), Not(HasSubstr("crucible_read(")));
  Row mixed;  // one buffer by neighbours and otherwise: the order of the two would change
  mixed.in_loop().push_back(mixed.store(1, mixed.integer(0)));
  EXPECT_THAT(mixed.print(), Not(HasSubstr("crucible_write(")));
}

TEST(SdkWideLoops, ShortLoopsKeepAllLanesBusy) {
  Row test;
  const auto with_turns = [&](std::int64_t turns) {
    test.kernel.body[0].body[0].b = test.integer(turns);
    return test.print();
  };
  EXPECT_THAT(with_turns(128), HasSubstr("lane * 4"));
  EXPECT_THAT(with_turns(64), HasSubstr("lane * 2"));
  EXPECT_THAT(with_turns(32), Not(HasSubstr("lane * ")));
  EXPECT_THAT(with_turns(130), HasSubstr("lane * 2"));
  EXPECT_THAT(with_turns(130), HasSubstr("if (first < 130) {"));
}

TEST(SdkWideLoops, TurnsAreCountedIn32BitsAndProductsWidenWhereTheyMayNeedIt) {
  Row test;
  EXPECT_THAT(test.print(), HasSubstr("(b0 + ((v0 * 1024)))[v1]"));
  EXPECT_THAT(test.reading(test.binary(Op::kMultiply, test.turn, test.integer(2000000))), HasSubstr("(v1 * 2000000)"));
  EXPECT_THAT(test.reading(test.binary(Op::kMultiply, test.turn, test.integer(2200000))),
              HasSubstr("((int64_t)v1 * 2200000)"));
  // An address in front of the buffer would be none.
  EXPECT_THAT(test.reading(test.binary(Op::kAdd, test.row(1024), test.integer(-4))), Not(HasSubstr("(b0 + (")));
}

TEST(SdkWideLoops, ItemsAreDividedAsWhatTheyAre) {
  Row test;
  const auto by = [&](std::int64_t number) {
    return test.reading(test.binary(Op::kDivide, test.item, test.integer(number)));
  };
  EXPECT_THAT(by(128), HasSubstr("(int64_t)((uint64_t)v0 / 128)"));
  EXPECT_THAT(by(12), HasSubstr("crucible_quotient(v0, 12)"));
  EXPECT_THAT(by(std::int64_t{1} << 33), HasSubstr("(v0 / 8589934592ll)"));
}

}  // namespace
}  // namespace crucible::sdk
