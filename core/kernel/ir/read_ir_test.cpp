// The serialised kernel IR: every kernel of random programs comes back field by field, equal kernels have equal bytes,
// and no changed, cut or lengthened text is taken.
#include "core/kernel/ir/read_ir.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/hash.hpp"
#include "core/graph/random_program.hpp"
#include "core/kernel/ir/ir_builder.hpp"
#include "core/kernel/schedule.hpp"

namespace crucible::kernel {
namespace {

using ::testing::HasSubstr;

/// Every kind of statement and the values that are easily lost on the way.
KernelIr example() {
  IrBuilder b;
  const BufferId x = b.add_buffer(DType::kF32, false), y = b.add_buffer(DType::kBool, true);
  b.ir().buffers[y].may_alias = true;
  const ArrayId array = b.add_array(DType::kF64, 5);
  const std::uint32_t scalar = b.add_scalar();
  b.let(b.convert(b.scalar(scalar, DType::kF64), DType::kI64));
  const ExprId item = b.open_grid(LoopMode::kSerial);
  const VariableId sum = b.declare(b.real(-0.0, DType::kF64));
  const ExprId k =
      b.open_for(b.integer(0), b.assume(item, -3, std::numeric_limits<std::int64_t>::max()), LoopMode::kUnrolled);
  b.store_element(array, k, b.real(std::numeric_limits<double>::quiet_NaN(), DType::kF64));
  b.set(sum, b.add(b.variable(sum), b.element(array, k)));
  b.close();
  b.add_array(DType::kF64, 16);
  b.tile({.sums = 1,
          .base = b.integer(0),
          .rows = 2,
          .columns = 8,
          .start = TileStart::kGoOn,
          .left = {.is_array = true, .id = array, .base = b.integer(1), .row_step = 2, .step = 1},
          .right = {.is_array = true, .id = array, .base = b.integer(3), .step = 5}},
         b.integer(6));
  const ArrayId turned = b.add_array(DType::kF32, 64);
  b.transpose(
      {.to = turned, .from = x, .columns = 3, .to_base = b.integer(2), .from_base = item, .to_step = 4, .from_step = 7},
      b.integer(6));
  b.prefetch(y, item);
  b.open_if(
      b.unary(Operation::kNot, b.binary(Operation::kLess, item, b.integer(std::numeric_limits<std::int64_t>::min()))));
  b.store(y, item, b.binary(Operation::kLess, b.convert(b.load(x, item), DType::kF64), b.variable(sum)));
  b.close();
  b.close();
  return b.finish();
}

bool equal(const std::vector<Stmt>& a, const std::vector<Stmt>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].kind != b[i].kind || a[i].id != b[i].id || a[i].a != b[i].a || a[i].b != b[i].b || a[i].mode != b[i].mode)
      return false;
    if (!equal(a[i].body, b[i].body)) return false;
  }
  return true;
}

void expect_equal(const KernelIr& a, const KernelIr& b) {
  EXPECT_EQ(a.scalars, b.scalars);
  ASSERT_EQ(a.buffers.size(), b.buffers.size());
  for (std::size_t i = 0; i < a.buffers.size(); ++i) {
    EXPECT_TRUE(a.buffers[i].type == b.buffers[i].type && a.buffers[i].written == b.buffers[i].written &&
                a.buffers[i].may_alias == b.buffers[i].may_alias);
  }
  ASSERT_EQ(a.arrays.size(), b.arrays.size());
  for (std::size_t i = 0; i < a.arrays.size(); ++i)
    EXPECT_TRUE(a.arrays[i].type == b.arrays[i].type && a.arrays[i].size == b.arrays[i].size);
  ASSERT_EQ(a.variables.size(), b.variables.size());
  for (std::size_t i = 0; i < a.variables.size(); ++i) {
    EXPECT_TRUE(a.variables[i].type == b.variables[i].type && a.variables[i].is_mutable == b.variables[i].is_mutable);
  }
  ASSERT_EQ(a.exprs.size(), b.exprs.size());
  for (std::size_t i = 0; i < a.exprs.size(); ++i) {
    Expr left = a.exprs[i], right = b.exprs[i];
    EXPECT_EQ(std::bit_cast<std::uint64_t>(left.real), std::bit_cast<std::uint64_t>(right.real));  // NaN and -0 too
    left.real = right.real = 0;
    EXPECT_TRUE(left == right) << i;
  }
  EXPECT_EQ(a.tiles, b.tiles);
  EXPECT_EQ(a.transposes, b.transposes);
  EXPECT_TRUE(equal(a.body, b.body));
}

std::string refusal(std::span<const std::byte> bytes) {
  const Result<KernelIr> result = read_ir(bytes);
  return result ? "" : result.error().message;
}

/// With the checksum made right again: what lies behind it must be refused or be a kernel.
void seal(std::vector<std::byte>& bytes) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (std::size_t i = 0; i + 8 < bytes.size(); ++i)
    hash = (hash ^ std::to_integer<std::uint64_t>(bytes[i])) * 0x100000001b3ull;
  for (std::size_t i = 0; i < 8; ++i) bytes[bytes.size() - 8 + i] = static_cast<std::byte>(hash >> (8 * i));
}

TEST(SerializeIr, EveryFieldComesBack) {
  const KernelIr kernel = example();
  const std::vector<std::byte> bytes = serialize_ir(kernel);
  const Result<KernelIr> read = read_ir(bytes);
  ASSERT_TRUE(read) << read.error().message;
  expect_equal(kernel, *read);
  EXPECT_EQ(serialize_ir(*read), bytes);
}

TEST(SerializeIr, KernelsOfRandomProgramsComeBack) {
  std::size_t kernels = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const graph::RandomProgram random = graph::random_program({.seed = seed});
    const Result<Schedule> scheduled = schedule(random.program, {});
    ASSERT_TRUE(scheduled) << scheduled.error().message;
    for (const Kernel& kernel : scheduled->kernels) {
      const Result<KernelIr> read = read_ir(kernel.ir);
      ASSERT_TRUE(read) << read.error().message;
      EXPECT_EQ(serialize_ir(*read), kernel.ir);
      EXPECT_EQ(kernel.name, "k_" + sha256(kernel.ir).hex().substr(0, 16));
      ++kernels;
    }
  }
  EXPECT_GT(kernels, 100u);
}

TEST(SerializeIr, EveryChangedByteIsRefused) {
  const std::vector<std::byte> bytes = serialize_ir(example());
  ASSERT_EQ(refusal(bytes), "");
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::vector<std::byte> changed = bytes;
      changed[i] ^= static_cast<std::byte>(flip);
      EXPECT_NE(refusal(changed), "") << "byte " << i << " flipped by " << flip;
    }
  }
}

TEST(SerializeIr, EveryCutAndEveryAdditionIsRefused) {
  std::vector<std::byte> bytes = serialize_ir(example());
  ASSERT_EQ(refusal(bytes), "");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_NE(refusal(std::span(bytes).first(size)), "") << size;
  }
  bytes.push_back(std::byte{0});
  EXPECT_THAT(refusal(bytes), HasSubstr("its counts need"));
}

TEST(SerializeIr, ChangesUnderARightChecksumAreRefusedOrReadAsTheyStand) {
  const std::vector<std::byte> bytes = serialize_ir(example());
  std::size_t refused = 0, taken = 0;
  for (std::size_t i = 0; i + 8 < bytes.size(); ++i) {
    for (int value = 0; value < 256; value += 5) {
      std::vector<std::byte> changed = bytes;
      changed[i] = static_cast<std::byte>(value);
      seal(changed);
      const Result<KernelIr> read = read_ir(changed);
      ++(read ? taken : refused);
    }
  }
  EXPECT_GT(refused, 1000u);
  EXPECT_GT(taken, 1000u);  // numbers of constants and the like: what they mean is the verifier's question
}

TEST(SerializeIr, SaysWhatIsWrong) {
  std::vector<std::byte> bytes = serialize_ir(example());
  EXPECT_THAT(refusal({}), HasSubstr("0 bytes, a kernel has at least 52"));
  std::vector<std::byte> other = bytes;
  other[0] = std::byte{'X'};
  EXPECT_THAT(refusal(other), HasSubstr("the first four bytes are not CKIR"));
  other = bytes;
  other[4] = std::byte{2};
  EXPECT_THAT(refusal(other), HasSubstr("version 2.5, this reader knows 1.5"));
  other = bytes;
  other[100] ^= std::byte{4};
  EXPECT_THAT(refusal(other), HasSubstr("it was changed"));
  other = bytes;
  other[44] = std::byte{10};
  seal(other);
  EXPECT_THAT(refusal(other), HasSubstr("byte 44: 10 is no type"));
  EXPECT_THAT(refusal(std::vector<std::byte>((64u << 20) + 1)), HasSubstr("at most 67108864 are read"));
}

TEST(SerializeIr, RefusesStatementsThatNestTooDeep) {
  KernelIr kernel;
  for (int depth = 0; depth < 70; ++depth) {
    Stmt outer{.kind = StmtKind::kIf, .body = {}};
    outer.body = std::move(kernel.body);
    kernel.body.clear();
    kernel.body.push_back(std::move(outer));
  }
  EXPECT_THAT(refusal(serialize_ir(kernel)), HasSubstr("nest deeper than 64"));
}

}  // namespace
}  // namespace crucible::kernel
