// The plugin's reader and printer against the host's: the same kernels from the same bytes, the same text in C, and no
// damaged kernel taken.
#include "plugins/sdk/kernel_ir.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/graph/random_program.hpp"
#include "core/kernel/ir/ir_builder.hpp"
#include "core/kernel/schedule.hpp"
#include "plugins/kernel_ir/math_prelude.hpp"
#include "plugins/kernel_ir/serialize.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/mathematics.hpp"
#include "plugins/sdk/module_sources.hpp"

namespace crucible::sdk {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// All kernels of some random programs.
const std::vector<kernel::Kernel>& corpus() {
  static const std::vector<kernel::Kernel> kernels = [] {
    std::vector<kernel::Kernel> all;
    for (std::uint64_t seed = 100; seed < 160; ++seed) {
      const graph::RandomProgram random = graph::random_program({.seed = seed});
      for (const bool fuse : {true, false}) {
        const auto scheduled = kernel::schedule(random.program, {.claims = nullptr, .fuse = fuse});
        EXPECT_TRUE(static_cast<bool>(scheduled));
        all.insert(all.end(), scheduled->kernels.begin(), scheduled->kernels.end());
      }
    }
    return all;
  }();
  return kernels;
}

/// y[i] = x[i] + s for every item i, where x and y may be one buffer.
kernel::KernelIr small_kernel() {
  kernel::IrBuilder b;
  const auto x = b.add_buffer(DType::kF32, false), y = b.add_buffer(DType::kF32, true);
  const auto scalar = b.add_scalar();
  const auto i = b.open_grid(kernel::LoopMode::kVector);
  b.store(y, i, b.add(b.load(x, i), b.scalar(scalar, DType::kF32)));
  b.close();
  return b.finish();
}

/// A tile of two rows from a buffer and an array.
kernel::KernelIr tile_kernel() {
  kernel::IrBuilder b;
  const auto x = b.add_buffer(DType::kF32, false), y = b.add_buffer(DType::kF32, true);
  const auto sums = b.add_array(DType::kF32, 64), packed = b.add_array(DType::kF32, 128);
  const auto i = b.open_grid(kernel::LoopMode::kSerial);
  b.tile({.sums = sums,
          .rows = 2,
          .columns = 32,
          .start = kernel::TileStart::kAdd,
          .left = {.is_array = false, .id = x, .base = i, .row_step = 4, .step = 1},
          .right = {.is_array = true, .id = packed, .base = b.integer(0), .step = 32}},
         b.integer(4));
  b.transpose({.to = packed, .from = x, .columns = 32, .to_base = i, .from_base = i, .to_step = 32, .from_step = 4},
              b.integer(4));
  b.prefetch(y, i);
  b.store(y, i, b.let(b.element(sums, b.integer(5))));
  b.close();
  return b.finish();
}

/// "" when the kernel is taken, else the code and the message.
std::string refusal(const std::vector<std::byte>& bytes) {
  try {
    (void)read_kernel(bytes.data(), bytes.size());
    return "";
  } catch (const Failure& failure) {
    return std::to_string(failure.code()) + " " + failure.what();
  }
}

void seal(std::vector<std::byte>& bytes) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (std::size_t i = 0; i + 8 < bytes.size(); ++i)
    hash = (hash ^ std::to_integer<std::uint64_t>(bytes[i])) * 0x100000001b3ull;
  for (std::size_t i = 0; i < 8; ++i) bytes[bytes.size() - 8 + i] = static_cast<std::byte>(hash >> (8 * i));
}

TEST(SdkKernelIr, ThePreludeHasEachFunction) {
  for (const auto& function : kFunctions)
    EXPECT_THAT(std::string(kernel::math_prelude()), HasSubstr(std::string(function.name)));
}

TEST(SdkKernelIr, PrintsOneCFunctionWhoseTextHoldsNoSizeOfAFlatGrid) {
  EXPECT_EQ(print_kernel(small_kernel(), dialect_c(), "k"),
            "void k(void* const* buffers, const double* scalars, int64_t begin, int64_t end) {\n"
            "  const float* restrict b0 = (const float*)buffers[0];\n"
            "  float* restrict b1 = (float*)buffers[1];\n"
            "  #pragma clang loop vectorize(assume_safety) interleave(enable)\n"
            "  for (int64_t v0 = begin; v0 < end; ++v0) {\n"
            "    b1[v0] = (b0[v0] + (float)scalars[0]);\n"
            "  }\n"
            "}\n");
}

/// What passes under a right checksum must be safe to print: nothing is out of range.
TEST(SdkKernelIr, WhatIsTakenCanBePrinted) {
  std::size_t taken = 0, refused = 0;
  for (const kernel::Kernel& kernel : corpus()) {
    if (kernel.ir.size() > 3000 || taken + refused > 60000) continue;
    for (std::size_t i = 40; i + 8 < kernel.ir.size(); ++i) {
      std::vector<std::byte> changed = kernel.ir;
      changed[i] = static_cast<std::byte>(i * 37 + taken);
      seal(changed);
      try {
        const Kernel read = read_kernel(changed.data(), changed.size());
        for (const Dialect* dialect : {&dialect_c(), &dialect_opencl()})
          EXPECT_NE(print_kernel(read, *dialect, "k"), "");
        ++taken;
      } catch (const Failure& failure) {
        EXPECT_EQ(failure.code(), CRUCIBLE_E_DATA_CORRUPT);
        ++refused;
      }
    }
  }
  EXPECT_GT(taken, 1000u);
  EXPECT_GT(refused, 1000u);
}

TEST(SdkKernelIr, ChangedTilesAreRefusedOrCanBePrinted) {
  const std::vector<std::byte> good = kernel::serialize_ir(tile_kernel());
  EXPECT_EQ(refusal(good), "");
  std::size_t refused = 0;
  for (std::size_t i = 8; i + 8 < good.size(); ++i) {
    for (int value = 0; value < 256; value += 7) {
      std::vector<std::byte> changed = good;
      changed[i] = static_cast<std::byte>(value);
      seal(changed);
      try {
        const Kernel read = read_kernel(changed.data(), changed.size());
        for (const Dialect* dialect : {&dialect_c(), &dialect_opencl(), &dialect_cuda()})
          EXPECT_NE(print_kernel(read, *dialect, "k"), "");
      } catch (const Failure&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 1000u);
  const auto broken = [](auto change) {
    kernel::KernelIr ir = tile_kernel();
    change(ir.tiles[0]);
    return refusal(kernel::serialize_ir(ir));
  };
  EXPECT_THAT(broken([](auto& tile) { tile.columns = 24; }), HasSubstr("a tile of 2 x 24"));
  EXPECT_THAT(broken([](auto& tile) { tile.rows = 3; }), HasSubstr("a tile of 3 x 32 with 64 sums"));
  EXPECT_THAT(broken([](auto& tile) { tile.left.id = 1; }), HasSubstr("a tile reads buffer 1, which is written"));
  EXPECT_THAT(broken([](auto& tile) { tile.right.id = 0; }), HasSubstr("a tile reads its own sums"));
  EXPECT_THAT(broken([](auto& tile) { tile.base = 1000; }), HasSubstr("expression 1000"));
  const auto broken_copy = [](auto change) {
    kernel::KernelIr ir = tile_kernel();
    change(ir.transposes[0]);
    return refusal(kernel::serialize_ir(ir));
  };
  EXPECT_THAT(broken_copy([](auto& copy) { copy.columns = 33; }),
              HasSubstr("a transposed copy of 33 columns, 32 apart"));
  EXPECT_THAT(broken_copy([](auto& copy) { copy.from = 1; }),
              HasSubstr("a transposed copy reads buffer 1, which is written"));
  EXPECT_THAT(broken_copy([](auto& copy) { copy.to = 2; }), HasSubstr("array 2 of 2"));
  EXPECT_THAT(broken_copy([](auto& copy) { copy.from_step = -1; }), HasSubstr("lead backwards"));
}

TEST(SdkKernelIr, NamesWhatIsWrong) {
  const std::vector<std::byte> good = kernel::serialize_ir(small_kernel());
  EXPECT_THAT(refusal({}), HasSubstr("0 bytes, a kernel has at least 52"));
  std::vector<std::byte> bytes = good;
  bytes[4] = std::byte{3};
  EXPECT_THAT(refusal(bytes), AllOf(HasSubstr("5 "), HasSubstr("the host writes version 3.5, this plugin reads 1.5")));
  const auto broken = [](auto change) {
    kernel::KernelIr ir = small_kernel();
    change(ir);
    return refusal(kernel::serialize_ir(ir));
  };
  EXPECT_THAT(broken([](auto& ir) { ir.buffers[1].written = false; }), HasSubstr("not marked as written"));
  EXPECT_THAT(broken([](auto& ir) { ir.scalars.clear(); }), HasSubstr("scalar 0 of 0"));
  EXPECT_THAT(broken([](auto& ir) { ir.scalars.resize(4097, DType::kI64); }), HasSubstr("4097 scalars"));
  EXPECT_THAT(broken([](auto& ir) { ir.scalars[0] = DType::kF32; }), HasSubstr("a scalar of f32, it is f64 or i64"));
  EXPECT_THAT(broken([](auto& ir) { ir.buffers[0].type = DType::kF64; }), HasSubstr("another type than its buffer"));
  EXPECT_THAT(broken([](auto& ir) { ir.body.push_back(ir.body[0]); }), HasSubstr("2 grid loops, needs 1"));
  EXPECT_THAT(broken([](auto& ir) { ir.body.clear(); }), HasSubstr("0 grid loops"));
  EXPECT_THAT(broken([](auto& ir) { ir.body[0].body[0].id = 7; }), HasSubstr("buffer 7 of 2"));
  EXPECT_THAT(broken([](auto& ir) { ir.body[0].body[0].a = 99; }), HasSubstr("expression 99 of"));
  EXPECT_THAT(broken([](auto& ir) { ir.exprs.back().in[0] = 50; }), HasSubstr("does not stand before it"));
  EXPECT_THAT(broken([](auto& ir) { ir.body[0].a = 0; }), HasSubstr("an expression that it does not use"));
  EXPECT_THAT(broken([](auto& ir) { ir.body[0].body[0].body.emplace_back(); }),
              HasSubstr("a statement without a block has one"));
  EXPECT_THAT(
      broken([](auto& ir) {  // item i is loaded from memory, and said to be below 9
        ir.exprs.push_back({.operation = Op::kConvert, .type = Type::kI64, .in = {ir.body[0].body[0].b, kNoId, kNoId}});
        ir.exprs.push_back({.operation = Op::kAssume,
                            .type = Type::kI64,
                            .in = {static_cast<std::uint32_t>(ir.exprs.size() - 1), kNoId, kNoId},
                            .high = 9});
      }),
      HasSubstr("guard it"));
  EXPECT_THAT(broken([](auto& ir) { ir.body.insert(ir.body.begin(), ir.body[0].body[0]); }),
              HasSubstr("used outside its block"));
  EXPECT_THAT(broken([](auto& ir) {
                ir.arrays.push_back({DType::kF32, std::int64_t{1} << 40});
              }),
              HasSubstr("an array of"));
}

/// An expression whose text would have 2^40 operands.
kernel::KernelIr fusing_kernel() {
  kernel::IrBuilder b;
  const auto x = b.add_buffer(DType::kF32, false), y = b.add_buffer(DType::kF32, true);
  const auto i = b.open_grid(kernel::LoopMode::kVector);
  const auto value = b.let(b.load(x, i));
  b.store(y, i, b.fma(value, value, b.real(1, DType::kF32)));
  b.close();
  return b.finish();
}

TEST(SdkKernelIr, FusedMultiplyAddsAreOfOneType) {
  const auto print = [](const kernel::KernelIr& ir, const Dialect& dialect) {
    const std::vector<std::byte> bytes = kernel::serialize_ir(ir);
    return print_kernel(read_kernel(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()), dialect, "k");
  };
  EXPECT_THAT(print(fusing_kernel(), dialect_c()), HasSubstr("__builtin_fmaf(v1, v1, 0x1p+0f)"));
  EXPECT_THAT(print(fusing_kernel(), dialect_opencl()), HasSubstr("__builtin_fmaf(v1, v1, 0x1p+0f)"));
  // Where numbers lie is stated for kernels that multiply matrices, and for no others.
  EXPECT_THAT(print(fusing_kernel(), dialect_cuda()), HasSubstr("crucible_assume_aligned(b0, 16);"));
  EXPECT_THAT(print(small_kernel(), dialect_cuda()), Not(HasSubstr("crucible_assume_aligned")));
  EXPECT_THAT(print(fusing_kernel(), dialect_hip()), Not(HasSubstr("crucible_assume_aligned")));
  kernel::KernelIr mixed = fusing_kernel();
  for (auto& expr : mixed.exprs) {
    if (expr.operation == kernel::Operation::kReal) expr.type = DType::kF64;
  }
  EXPECT_THAT(refusal(kernel::serialize_ir(mixed)), HasSubstr("it fuses three values of f32 or f64"));
}

TEST(SdkKernelIr, RefusesWhatWouldNotEndWhenPrinted) {
  kernel::KernelIr ir = small_kernel();
  const auto first = static_cast<kernel::ExprId>(ir.exprs.size());
  ir.exprs.push_back({.operation = kernel::Operation::kReal, .type = DType::kF32});
  for (kernel::ExprId i = first; i < first + 40; ++i) {
    ir.exprs.push_back({.operation = kernel::Operation::kAdd, .type = DType::kF32, .in = {i, i, kernel::kNoId}});
  }
  EXPECT_THAT(refusal(kernel::serialize_ir(ir)), HasSubstr("too large to be written out"));
}

TEST(SdkDialects, SpellTheSameKernelForEachLanguage) {
  const std::vector<std::byte> bytes = kernel::serialize_ir(small_kernel());
  const Kernel kernel = read_kernel(bytes.data(), bytes.size());
  EXPECT_THAT(
      print_kernel(kernel, dialect_cuda(), "k"),
      HasSubstr(
          "extern \"C\" __global__ void k(const float* __restrict__ b0, float* __restrict__ b1, double s0, int64_t "
          "begin, int64_t end) {\n  #pragma unroll 1\n  for (int64_t v0 = begin + (int64_t)blockIdx.x * blockDim.x + "
          "threadIdx.x; v0 "
          "< end; v0 += (int64_t)gridDim.x * blockDim.x) {\n    b1[v0] = (b0[v0] + (float)s0);\n  }\n}\n"));
  EXPECT_THAT(print_kernel(kernel, dialect_hip(), "k"),
              HasSubstr("__attribute__((global)) void k(const float* __restrict__ b0"));
  EXPECT_THAT(
      print_kernel(kernel, dialect_opencl(), "k"),
      HasSubstr(
          "__kernel void k(__global const float* restrict b0, __global float* restrict b1, double s0, int64_t begin"));
}

TEST(SdkDialects, TheMathematicsGetAnotherHead) {
  for (const Dialect* dialect : {&dialect_cuda(), &dialect_hip(), &dialect_opencl()}) {
    const std::string text = math_text(*dialect);
    EXPECT_TRUE(text.starts_with(dialect->preamble)) << dialect->name;
    EXPECT_TRUE(text.ends_with(math_functions())) << dialect->name;
    EXPECT_THAT(text, AllOf(Not(HasSubstr("__INT8_TYPE__")), HasSubstr("crucible_exp_f32"))) << dialect->name;
  }
  EXPECT_EQ(math_text(dialect_c()), kernel::math_prelude());
  EXPECT_THAT(math_text(dialect_c()), HasSubstr("__INT8_TYPE__"));
}

// What a device tells is what the host compares with: one text, one identity.
TEST(SdkMathematics, TheIdentityIsThatOfTheHost) {
  EXPECT_EQ(math_identity(), kernel::math_identity());
  EXPECT_THAT(std::string(math_identity()), ::testing::MatchesRegex("[0-9a-f]{16}"));
  const crucible_kv item = math_item();
  EXPECT_EQ(view(item.key), "math");
  EXPECT_EQ(view(item.s), kernel::math_identity());
}

std::string words_of(crucible_code code, const std::function<void()>& call, std::string* kernel = nullptr) {
  try {
    call();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), code);
    for (const auto& [key, value] : failure.payload()) {
      if (kernel != nullptr && key == "kernel") *kernel = value;
    }
    return failure.what();
  }
  ADD_FAILURE() << "it was taken";
  return "";
}

TEST(SdkModuleSources, AreReadByFormAndName) {
  const std::vector<std::byte> ir = kernel::serialize_ir(small_kernel()), other = kernel::serialize_ir(fusing_kernel());
  const auto source = [](std::string_view name, std::uint32_t form, const void* data, std::size_t size) {
    return crucible_kernel_source{sizeof(crucible_kernel_source), form, borrow(name), data, size};
  };
  const std::string op = "{}";
  const crucible_kernel_source a = source("a", CRUCIBLE_FORM_KERNEL_IR, ir.data(), ir.size()),
                               b = source("b", CRUCIBLE_FORM_OPAQUE_OP, op.data(), op.size());
  const auto read = [](const std::vector<crucible_kernel_source>& all, SourceForms forms, std::uint32_t flags = 0) {
    return read_sources(all.data(), static_cast<std::uint32_t>(all.size()), flags, forms);
  };
  const SourceForms ir_alone{}, ops_alone{.kernel_ir = false, .opaque_ops = true},
      both{.kernel_ir = true, .opaque_ops = true};
  const ModuleSources all = read({a, b, a, b}, both, CRUCIBLE_COMPILE_CAREFUL | 0x80000000u);
  EXPECT_EQ(all.kernels.size(), 1u);
  EXPECT_EQ(all.opaque_ops.at("b"), "{}");
  EXPECT_EQ(all.ir_bytes, ir.size());
  EXPECT_TRUE(all.is_careful);
  EXPECT_FALSE(read({a}, ir_alone, 2).is_careful);
  std::string kernel;
  EXPECT_THAT(words_of(
                  CRUCIBLE_E_UNSUPPORTED,
                  [&] {
                    read({a, b}, ir_alone);
                  },
                  &kernel),
              HasSubstr("kernel b is an opaque op, and the device runs kernel IR alone"));
  EXPECT_EQ(kernel, "b");
  EXPECT_THAT(words_of(
                  CRUCIBLE_E_UNSUPPORTED,
                  [&] {
                    read({a, b}, ops_alone);
                  },
                  &kernel),
              HasSubstr("kernel a is kernel IR, and the device runs opaque ops alone"));
  EXPECT_EQ(kernel, "a");
  EXPECT_THAT(words_of(
                  CRUCIBLE_E_UNSUPPORTED, [&] { read({source("c", 7, ir.data(), ir.size())}, both); }, &kernel),
              HasSubstr("kernel c comes in form 7, which this plugin does not know"));
  EXPECT_EQ(kernel, "c");
  EXPECT_THAT(words_of(CRUCIBLE_E_INVALID_ARGUMENT, [&] { read({source("a-b", 1, ir.data(), ir.size())}, both); }),
              HasSubstr("'a-b' is not a C name"));
  EXPECT_THAT(words_of(CRUCIBLE_E_INVALID_ARGUMENT,
                       [&] {
                         read({a, source("a", 1, other.data(), other.size())}, both);
                       }),
              HasSubstr("two different kernels are named a"));
  EXPECT_THAT(words_of(CRUCIBLE_E_INVALID_ARGUMENT,
                       [&] {
                         read({a, source("a", CRUCIBLE_FORM_OPAQUE_OP, ir.data(), ir.size())}, both);
                       }),
              HasSubstr("two different kernels are named a"));
  EXPECT_THAT(words_of(CRUCIBLE_E_DATA_CORRUPT, [&] { read({source("a", 1, nullptr, 99)}, both); }), HasSubstr("0"));
}

}  // namespace
}  // namespace crucible::sdk
