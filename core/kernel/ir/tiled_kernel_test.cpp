// A sample of a product's results has the bits that all of them have, whatever the tiles, the copies and the chunks;
// and it is small.
#include "core/kernel/ir/tiled_kernel.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "core/kernel/emit/conv_tiles.hpp"
#include "core/kernel/ir/interpreter.hpp"
#include "core/kernel/ir/read_ir.hpp"
#include "core/kernel/testing/test_program.hpp"
#include "core/kernel/ir/trial_data.hpp"

namespace crucible::kernel {
namespace {

using graph::Operand;
using graph::OpKind;

struct Memory {
  std::vector<std::unique_ptr<TouchedMemory>> memories;
  std::vector<InterpretedBuffer> buffers;

  Memory(const graph::Program& program, const Step& step, const KernelIr& ir) {
    for (std::size_t i = 0; i < ir.buffers.size(); ++i) {
      const DType type = ir.buffers[i].type;
      const std::int64_t elements = program.values[step.buffers[i].value].elements;
      memories.push_back(std::make_unique<TouchedMemory>(static_cast<std::uint64_t>(elements) * size_bytes(type),
                                                         trial_numbers(type, i, TrialNumbers::kModerate, {}),
                                                         ir.buffers[i].written));
      buffers.push_back({memories.back()->data(), elements, nullptr, memories.back().get()});
    }
  }
};

/// Every item of every step, whole and as a sample.
void expect_equal_bits(const TestProgram& t, const DeviceShape& device, std::uint64_t budget, bool is_sampled) {
  const auto scheduled = schedule(t.program, {.claims = nullptr, .numerics = Numerics::kStrict, .device = device});
  ASSERT_TRUE(scheduled) << scheduled.error().message;
  for (const Step& step : scheduled->steps) {
    const auto ir = read_ir(scheduled->kernels[step.kernel].ir);
    ASSERT_TRUE(ir);
    if (ir->tiles.empty()) continue;
    EXPECT_TRUE(TiledKernel(*ir).may_sample());
    const std::vector<std::uint64_t> scalars = scalars_of(step, t.slots);
    for (std::int64_t item = 0; item < step.grid; item += std::max<std::int64_t>(1, step.grid / 5)) {
      SCOPED_TRACE(fmt::format("item {} of {}", item, step.grid));
      Memory whole(t.program, step, *ir), sample(t.program, step, *ir);
      std::uint64_t pass = 0;
      const auto all = interpret(*ir, whole.buffers, scalars, item, item + 1, {0, &pass});
      ASSERT_TRUE(all) << all.error().message;
      const auto some = interpret(*ir, sample.buffers, scalars, item, item + 1, {0, &pass}, budget);
      ASSERT_TRUE(some) << some.error().message;
      EXPECT_FALSE(all->is_sampled);
      if (is_sampled) {
        EXPECT_LT(2 * some->multiply_adds, all->multiply_adds);
      }
      for (std::size_t i = 0; i < ir->buffers.size(); ++i) {
        if (!ir->buffers[i].written) continue;
        const std::size_t size = size_bytes(ir->buffers[i].type);
        const auto &wanted = whole.memories[i]->written(), &found = sample.memories[i]->written();
        ASSERT_FALSE(found.empty());
        EXPECT_EQ(found.size() < wanted.size(), some->is_sampled);
        EXPECT_EQ(found.front(), wanted.front());
        EXPECT_EQ(found.back(), wanted.back());
        std::size_t wrong = 0;
        for (const std::uint64_t at : found)
          wrong += std::memcmp(whole.memories[i]->data() + at, sample.memories[i]->data() + at, size) != 0;
        EXPECT_EQ(wrong, 0u) << "of " << found.size() << " of " << wanted.size();
      }
    }
  }
}

struct Product {
  std::int64_t batch, m, k, n;
  bool left_across = false, right_across = false;
  DType dtype = DType::kF32;
};

void expect_product(const Product& c, const DeviceShape& device, std::uint64_t budget, bool is_sampled) {
  SCOPED_TRACE(fmt::format("{} x ({} x {} by {}){}{} {}, budget {}", c.batch, c.m, c.k, c.n,
                           c.left_across ? ", left across" : "", c.right_across ? ", right across" : "", name(c.dtype),
                           budget));
  TestProgram t;
  const auto matrix = [&](std::int64_t rows, std::int64_t columns, bool across) {
    return across ? permuted(t.input(c.dtype, {c.batch, columns, rows}), {0, 2, 1})
                  : t.input(c.dtype, {c.batch, rows, columns});
  };
  const Operand left = matrix(c.m, c.k, c.left_across), right = matrix(c.k, c.n, c.right_across);
  t.keep(t.op(OpKind::kMatMul, {left, right}, {c.batch, c.m, c.n}, c.dtype));
  expect_equal_bits(t, device, budget, is_sampled);
}

constexpr DeviceShape kNarrow{.register_bytes = 16 * 32};

TEST(TiledKernel, ASampleOfAProductHasItsBits) {
  for (const bool left : {false, true}) {
    for (const bool right : {false, true}) {
      for (const std::uint64_t budget : {100, 2000, 1000000}) {
        expect_product({1, 300, 300, 300, left, right}, {}, budget, budget < 1000000);
        expect_product({1, 300, 777, 170, left, right}, kNarrow, budget, budget < 1000000);
      }
      expect_product({3, 13, 17, 33, left, right}, {}, 100, false);
      expect_product({1, 800, 20, 1000, left, right}, {}, 300, false);
      expect_product({1, 100, 257, 90, left, right, DType::kF64}, {}, 300, true);
      expect_product({1, 90, 256, 100, left, right, DType::kBF16}, {}, 300, true);
    }
  }
  expect_product({1, 300, 20, 10}, {}, 100, false);
  expect_product({1, 2, 300, 130, false, true}, {}, 100, false);
}

TEST(TiledKernel, ASampleOfAConvolutionHasItsBits) {
  struct Case {
    std::int64_t images, channels, outputs, side, kernel = 3, stride = 1, padding = 1, groups = 1;
    bool channels_last = false;
  };
  for (const Case& c : {Case{2, 64, 64, 16}, Case{2, 32, 64, 15, 3, 2}, Case{1, 3, 16, 32}, Case{2, 64, 32, 8, 1, 1, 0},
                        Case{2, 64, 128, 8, 1, 2, 0}, Case{4, 64, 64, 4}, Case{2, 64, 64, 12, 3, 1, 1, 2},
                        Case{2, 16, 16, 16, 4, 2, 1}, Case{2, 32, 32, 10, 3, 1, 1, 1, true}}) {
    for (const std::uint64_t budget : {100, 4000}) {
      SCOPED_TRACE(fmt::format("{} x {} x {} to {}, kernel {}, stride {}, budget {}", c.images, c.channels, c.side,
                               c.outputs, c.kernel, c.stride, budget));
      TestProgram t;
      graph::Attributes a;
      a.groups = c.groups;
      for (int d = 0; d < 2; ++d) a.stride[d] = c.stride, a.padding[d] = c.padding, a.dilation[d] = 1;
      const std::int64_t out = (c.side + 2 * c.padding - c.kernel) / c.stride + 1;
      const auto picture = [&](std::int64_t channels, std::int64_t side) {
        return c.channels_last ? permuted(t.input(DType::kF32, {c.images, side, side, channels}), {0, 3, 1, 2})
                               : t.input(DType::kF32, {c.images, channels, side, side});
      };
      const Operand x = picture(c.channels, c.side), dy = picture(c.outputs, out),
                    w = t.input(DType::kF32, {c.outputs, c.channels / c.groups, c.kernel, c.kernel});
      t.keep(t.op(OpKind::kConv2d, {x, w}, {c.images, c.outputs, out, out}, DType::kF32, a));
      t.keep(t.op(OpKind::kConv2dBackwardInput, {dy, w}, {c.images, c.channels, c.side, c.side}, DType::kF32, a));
      t.keep(t.op(OpKind::kConv2dBackwardWeight, {dy, x}, w.view.sizes, DType::kF32, a));
      for (const DeviceShape& device : {DeviceShape{}, kNarrow}) expect_equal_bits(t, device, budget, false);
    }
  }
}

}  // namespace
}  // namespace crucible::kernel
