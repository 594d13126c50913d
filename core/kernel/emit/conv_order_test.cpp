// Generated convolutions by tiles have the bits of their named order (docs/numerics.md): one ascending chain of fused
// multiply-adds per chunk of 256 terms, chunks added in order, padding counted as zeros. The order is written down here
// once more, term by term.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "core/kernel/emit/conv_tiles.hpp"
#include "core/kernel/testing/test_program.hpp"

namespace crucible::kernel {
namespace {

using graph::Operand;
using graph::OpKind;

struct Case {
  std::int64_t images, channels, outputs, height, width;
  std::int64_t kernel = 3, stride = 1, padding = 1, dilation = 1, groups = 1;
  bool channels_last = false;
};

std::string describe(const Case& c) {
  return fmt::format("{} x {} x {} x {} to {} channels, kernel {}, stride {}, padding {}, dilation {}, groups {}{}",
                     c.images, c.channels, c.height, c.width, c.outputs, c.kernel, c.stride, c.padding, c.dilation,
                     c.groups, c.channels_last ? ", channels last" : "");
}

/// Takes terms one by one.
class Chain {
 public:
  void add(float a, float b) {
    sum_ = std::fma(a, b, sum_);
    is_empty_ = false;
    if (++steps_ % 256 == 0) close();
  }
  float result() {
    if (steps_ % 256 != 0) close();
    return is_empty_ ? 0 : total_;  // no term: 0
  }

 private:
  void close() {
    total_ += sum_;
    sum_ = 0;
  }
  float total_ = -0.0f, sum_ = 0;
  std::int64_t steps_ = 0;
  bool is_empty_ = true;
};

/// A tensor of four dimensions; zero outside of it.
struct Tensor {
  const graph::Bytes& bytes;
  const graph::View& view;
  float at(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) const {
    const std::int64_t point[4] = {a, b, c, d};
    std::int64_t place = view.offset;
    for (std::size_t i = 0; i < 4; ++i) {
      if (point[i] < 0 || point[i] >= view.sizes[i]) return 0;
      place += point[i] * view.strides[i];
    }
    float value;
    std::memcpy(&value, bytes.data() + static_cast<std::size_t>(place) * sizeof value, sizeof value);
    return value;
  }
};

class Convolution {
 public:
  explicit Convolution(const Case& c)
      : c_(c),
        t_(static_cast<std::uint64_t>(c.channels * 131 + c.width)),
        oh_(out(c.height)),
        ow_(out(c.width)),
        x_(input({c.images, c.channels, c.height, c.width})),
        w_(t_.input(DType::kF32, {c.outputs, c.channels / c.groups, c.kernel, c.kernel})),
        dy_(input({c.images, c.outputs, oh_, ow_})) {
    graph::Attributes a;
    a.groups = c.groups;
    for (int d = 0; d < 2; ++d) a.stride[d] = c.stride, a.padding[d] = c.padding, a.dilation[d] = c.dilation;
    y_ = t_.op(OpKind::kConv2d, {x_, w_}, {c.images, c.outputs, oh_, ow_}, DType::kF32, a);
    dx_ = t_.op(OpKind::kConv2dBackwardInput, {dy_, w_}, {c.images, c.channels, c.height, c.width}, DType::kF32, a);
    dw_ = t_.op(OpKind::kConv2dBackwardWeight, {dy_, x_}, w_.view.sizes, DType::kF32, a);
    for (const Operand& result : {y_, dx_, dw_}) t_.keep(result);
  }

  void expect_bits(const DeviceShape& device = {}) {
    const auto scheduled = schedule(t_.program, {.claims = nullptr, .numerics = Numerics::kStrict, .device = device});
    ASSERT_TRUE(scheduled) << scheduled.error().message;
    const auto kernels = HostKernels::compile({&*scheduled});
    ASSERT_TRUE(kernels) << kernels.error().message;
    for (const int pieces : {1, 3}) {
      const auto got = run_on_host(t_.program, *scheduled, *kernels, t_.values, t_.slots, {.pieces = pieces});
      ASSERT_TRUE(got) << got.error().message;
      expect_equal("y", y_, *got, [&](auto... at) { return forward(at...); });
      expect_equal("dx", dx_, *got, [&](auto... at) { return input_gradient(at...); });
      expect_equal("dw", dw_, *got, [&](auto... at) { return weight_gradient(at...); });
    }
  }

  /// Each access watched by the interpreter.
  void expect_one_store(const DeviceShape& device) {
    const auto scheduled = schedule(t_.program, {.claims = nullptr, .numerics = Numerics::kStrict, .device = device});
    ASSERT_TRUE(scheduled) << scheduled.error().message;
    const auto interpreter = ScheduleInterpreter::create(t_.program, *scheduled);
    ASSERT_TRUE(interpreter) << interpreter.error().message;
    const auto done = interpreter->run(t_.program, *scheduled, t_.values, t_.slots, {}, true);
    EXPECT_TRUE(done) << done.error().message;
  }

 private:
  std::int64_t out(std::int64_t in) const {
    return (in + 2 * c_.padding - c_.dilation * (c_.kernel - 1) - 1) / c_.stride + 1;
  }
  Operand input(const Sizes& sizes) {
    if (!c_.channels_last) return t_.input(DType::kF32, sizes);
    return permuted(t_.input(DType::kF32, {sizes[0], sizes[2], sizes[3], sizes[1]}), {0, 3, 1, 2});
  }
  Tensor tensor(const Operand& operand) const { return {t_.values[operand.value], operand.view}; }

  /// `want` gives an element of a result. Devices and ways to cut are many, so it is asked once for each.
  template <class Want>
  void expect_equal(const char* what, const Operand& result, const std::vector<graph::Bytes>& got, Want want) {
    const Tensor found{got[result.value], result.view};
    const Sizes& sizes = result.view.sizes;
    std::vector<float>& wanted = wanted_[result.value];
    const bool is_known = !wanted.empty();
    std::size_t next = 0;
    std::int64_t different = 0;
    for (std::int64_t a = 0; a < sizes[0]; ++a)
      for (std::int64_t b = 0; b < sizes[1]; ++b)
        for (std::int64_t c = 0; c < sizes[2]; ++c)
          for (std::int64_t d = 0; d < sizes[3]; ++d) {
            if (!is_known) wanted.push_back(want(a, b, c, d));
            const float x = found.at(a, b, c, d), y = wanted[next++];
            different += std::memcmp(&x, &y, sizeof x) != 0;
          }
    EXPECT_EQ(different, 0) << what << ", of " << result.view.elements();
  }

  float forward(std::int64_t n, std::int64_t o, std::int64_t oh, std::int64_t ow) const {
    const std::int64_t per_group = c_.channels / c_.groups, first = o / (c_.outputs / c_.groups) * per_group;
    Chain chain;
    for (std::int64_t c = 0; c < per_group; ++c)
      for (std::int64_t kh = 0; kh < c_.kernel; ++kh)
        for (std::int64_t kw = 0; kw < c_.kernel; ++kw)
          chain.add(tensor(w_).at(o, c, kh, kw), under(n, first + c, oh, ow, kh, kw));
    return chain.result();
  }
  float input_gradient(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) const {
    const std::int64_t per_group = c_.outputs / c_.groups, channels = c_.channels / c_.groups,
                       first = c / channels * per_group;
    Chain chain;
    for (std::int64_t o = 0; o < per_group; ++o)
      for (std::int64_t kh = 0; kh < c_.kernel; ++kh)
        for (std::int64_t kw = 0; kw < c_.kernel; ++kw) {
          const std::int64_t down = h + c_.padding - kh * c_.dilation, right = w + c_.padding - kw * c_.dilation;
          const bool is_of_phase = down % c_.stride == 0 && right % c_.stride == 0;
          if (!is_of_phase && c_.height % c_.stride == 0 && c_.width % c_.stride == 0) continue;  // no term
          const bool meets = down >= 0 && right >= 0 && is_of_phase;
          const float dy = meets ? tensor(dy_).at(n, first + o, down / c_.stride, right / c_.stride) : 0;
          chain.add(tensor(w_).at(first + o, c % channels, kh, kw), dy);
        }
    return chain.result();
  }
  float weight_gradient(std::int64_t o, std::int64_t c, std::int64_t kh, std::int64_t kw) const {
    const std::int64_t first = o / (c_.outputs / c_.groups) * (c_.channels / c_.groups);
    Chain chain;
    for (std::int64_t n = 0; n < c_.images; ++n)
      for (std::int64_t oh = 0; oh < oh_; ++oh)
        for (std::int64_t ow = 0; ow < ow_; ++ow)
          chain.add(tensor(dy_).at(n, o, oh, ow), under(n, first + c, oh, ow, kh, kw));
    return chain.result();
  }
  float under(std::int64_t n, std::int64_t c, std::int64_t oh, std::int64_t ow, std::int64_t kh,
              std::int64_t kw) const {
    return tensor(x_).at(n, c, oh * c_.stride - c_.padding + kh * c_.dilation,
                         ow * c_.stride - c_.padding + kw * c_.dilation);
  }

  const Case c_;
  TestProgram t_;
  std::int64_t oh_, ow_;
  Operand x_, w_, dy_, y_, dx_, dw_;
  std::map<graph::ValueId, std::vector<float>> wanted_;  // row-major, by result
};

const Case kCases[] = {
    Case{2, 8, 8, 14, 14},                       // neighbours in memory, panels across images
    Case{3, 40, 20, 7, 7},                       // 360 steps: a chunk and a part
    Case{2, 16, 24, 8, 8, 1, 1, 0},              // a product of matrices
    Case{2, 12, 16, 15, 11, 3, 2},               // every second one
    Case{1, 5, 7, 30, 33, 7, 2, 3},              // odd numbers, a wide window
    Case{2, 16, 8, 9, 10, 3, 1, 2, 2},           // dilated
    Case{2, 16, 24, 9, 9, 3, 3, 1, 1, 2},        // groups, stride 3
    Case{2, 8, 12, 10, 6, 3, 1, 1, 1, 1, true},  // channels last
    Case{3, 12, 16, 12, 8, 3, 2},                // four phases, of one, two and four taps
    Case{2, 70, 36, 6, 10, 3, 2},                // the same in several chunks
    Case{2, 8, 12, 8, 10, 1, 2, 0},              // phases that no tap meets
    Case{1, 6, 8, 16, 14, 7, 2, 3},              // a wide window
    Case{2, 8, 8, 12, 9, 3, 3, 0},               // a phase for each tap
    Case{2, 8, 6, 12, 12, 3, 2, 2, 2},           // dilated: all taps in one phase
    Case{2, 8, 8, 8, 12, 4, 4, 0, 1, 2},         // groups
    Case{1, 4, 4, 1, 1, 3},                      // nearly everything is border
};

TEST(ConvOrder, ConvolutionsAndTheirGradientsHaveTheBitsOfTheNamedOrder) {
  if (HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  for (const Case& c : kCases) {
    SCOPED_TRACE(describe(c));
    Convolution(c).expect_bits();
  }
}

/// On such a device a work item is a thread with a few elements (thread_product.cpp).
TEST(ConvOrder, ThreadsInStepChangeNoBit) {
  if (HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  for (const Case& c : kCases) {
    SCOPED_TRACE(describe(c));
    Convolution(c).expect_bits({.workers = 64, .lanes = 32});
  }
  Convolution cut_otherwise({3, 40, 20, 7, 7});
  for (std::size_t cut = 1; cut < 4; ++cut) cut_otherwise.expect_bits({.workers = 1, .lanes = 32, .cut = cut});
}

TEST(ConvOrder, ThreadsInStepStoreEachElementOnce) {
  for (const Case& c : {Case{2, 12, 20, 7, 7}, Case{3, 12, 20, 12, 8, 3, 2}, Case{2, 6, 18, 9, 9, 3, 3, 1, 1, 2}}) {
    SCOPED_TRACE(describe(c));
    Convolution(c).expect_one_store({.workers = 1, .lanes = 32});
  }
}

TEST(ConvOrder, TilesOfOtherDevicesChangeNoBit) {
  if (HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  for (const Case& c : {Case{2, 12, 16, 15, 11, 3, 2}, Case{3, 12, 16, 12, 8, 3, 2}, Case{2, 70, 36, 6, 10, 3}}) {
    Convolution convolution(c);
    for (const std::int64_t bytes : {2048, 512, 256}) {  // registers of AVX-512, AVX2 and SSE2
      SCOPED_TRACE(describe(c) + fmt::format(", {} bytes", bytes));
      convolution.expect_bits({.workers = 3, .register_bytes = bytes});
    }
  }
}

TEST(ConvOrder, WaysToCutAConvolutionChangeNoBit) {
  if (HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  for (const Case& c : {Case{2, 70, 36, 6, 10, 3}, Case{3, 12, 16, 12, 8, 3, 2}, Case{4, 30, 50, 16, 16, 3}}) {
    SCOPED_TRACE(describe(c));
    Convolution convolution(c);
    for (std::size_t cut = 1; cut < 5; ++cut)
      convolution.expect_bits({.workers = 3, .register_bytes = 2048, .cut = cut});
  }
}

TEST(ConvOrder, DepthwiseConvolutionsAreNotForTiles) {
  TestProgram t(1);
  graph::Attributes a;
  a.groups = 8;
  const Operand x = t.input(DType::kF32, {1, 8, 6, 6}), w = t.input(DType::kF32, {8, 1, 3, 3});
  t.keep(t.op(OpKind::kConv2d, {x, w}, {1, 8, 4, 4}, DType::kF32, a));
  EXPECT_FALSE(fits_tiles(t.program.ops[0], ConvResult::kForward));
}

}  // namespace
}  // namespace crucible::kernel
