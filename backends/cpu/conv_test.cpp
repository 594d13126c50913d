// Convolutions through the plugin's library, forward and both gradients, against sums in double; views have offsets,
// and the workspace starts as NaN with a guard behind it.
#include <gmock/gmock.h>

#include <cmath>

#include "backends/cpu/testing.hpp"

namespace crucible::backend {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t kF32 = 8;

struct Shape {
  std::int64_t n, c, h, w, o, kh, kw;
  std::int64_t stride[2] = {1, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1}, groups = 1;
  std::int64_t out(int i) const {
    const std::int64_t size = i == 0 ? h : w, kernel = i == 0 ? kh : kw;
    return (size + 2 * padding[i] - (kernel - 1) * dilation[i] - 1) / stride[i] + 1;
  }
  std::int64_t x_count() const { return n * c * h * w; }
  std::int64_t weight_count() const { return o * (c / groups) * kh * kw; }
  std::int64_t y_count() const { return n * o * out(0) * out(1); }
};

/// Calls visit(index in x, in weight, in y) for every product of the convolution.
template <class Visit>
void for_each_product(const Shape& s, Visit&& visit) {
  const std::int64_t per_group = s.c / s.groups, oh = s.out(0), ow = s.out(1);
  for (std::int64_t n = 0; n < s.n; ++n) {
    for (std::int64_t o = 0; o < s.o; ++o) {
      const std::int64_t first = o / (s.o / s.groups) * per_group;
      for (std::int64_t y = 0; y < oh; ++y) {
        for (std::int64_t x = 0; x < ow; ++x) {
          for (std::int64_t c = 0; c < per_group; ++c) {
            for (std::int64_t i = 0; i < s.kh; ++i) {
              const std::int64_t row = y * s.stride[0] - s.padding[0] + i * s.dilation[0];
              if (row < 0 || row >= s.h) continue;
              for (std::int64_t j = 0; j < s.kw; ++j) {
                const std::int64_t column = x * s.stride[1] - s.padding[1] + j * s.dilation[1];
                if (column < 0 || column >= s.w) continue;
                visit(((n * s.c + first + c) * s.h + row) * s.w + column, ((o * per_group + c) * s.kh + i) * s.kw + j,
                      ((n * s.o + o) * oh + y) * ow + x);
              }
            }
          }
        }
      }
    }
  }
}

crucible_view dense(std::vector<std::int64_t> sizes, std::int64_t offset) {
  crucible_view view{};
  view.rank = 4;
  view.dtype = kF32;
  view.offset = offset;
  std::int64_t stride = 1;
  for (int i = 3; i >= 0; --i) {
    view.sizes[i] = sizes[static_cast<std::size_t>(i)];
    view.strides[i] = stride;
    stride *= view.sizes[i];
  }
  return view;
}

constexpr std::int64_t kOffsets[3] = {5, 0, 16};  // of the three views, so that offsets are not forgotten

crucible_library_desc describe(const Shape& s, std::uint32_t kind) {
  crucible_library_desc desc{};
  desc.struct_size = sizeof(desc);
  desc.kind = kind;
  const std::vector<std::int64_t> x = {s.n, s.c, s.h, s.w}, weight = {s.o, s.c / s.groups, s.kh, s.kw},
                                  y = {s.n, s.o, s.out(0), s.out(1)};
  const auto* order = &x;
  for (int i = 0; i < 3; ++i) {
    if (kind == CRUCIBLE_LIB_CONV2D) order = i == 0 ? &x : i == 1 ? &weight : &y;
    if (kind == CRUCIBLE_LIB_CONV2D_BACKWARD_INPUT) order = i == 0 ? &y : i == 1 ? &weight : &x;
    if (kind == CRUCIBLE_LIB_CONV2D_BACKWARD_WEIGHT) order = i == 0 ? &y : i == 1 ? &x : &weight;
    desc.views[i] = dense(*order, kOffsets[i]);
  }
  for (int i = 0; i < 2; ++i) {
    desc.stride[i] = s.stride[i], desc.padding[i] = s.padding[i], desc.dilation[i] = s.dilation[i];
  }
  desc.groups = s.groups;
  return desc;
}

class CpuConv : public CpuTest {
 protected:
  void SetUp() override {
    device_ = open();
    if (!has_onednn(*device_)) GTEST_SKIP() << library_note(*device_);
  }
  Result<std::uint64_t> claim(const crucible_library_desc& desc) {
    std::uint64_t scratch = 0;
    CRUCIBLE_TRY_VOID(to_result(device_->backend().library_table().claim(device_->handle(), &desc, &scratch), "claim"));
    return scratch;
  }

  /// Runs one kind of call on the operands and returns the result, `count` floats.
  std::vector<float> run(const Shape& s, std::uint32_t kind, const std::vector<float>& first,
                         const std::vector<float>& second, std::int64_t count) {
    const crucible_library_desc desc = describe(s, kind);
    const std::uint64_t scratch = take(claim(desc));
    const auto shifted = [&](const std::vector<float>& values, std::int64_t offset) {
      std::vector<float> all(static_cast<std::size_t>(offset), 1e30f);
      all.insert(all.end(), values.begin(), values.end());
      return upload(device_, all);
    };
    const std::vector<float> junk(static_cast<std::size_t>(count), 1e30f);
    const Buffer a = shifted(first, kOffsets[0]), b = shifted(second, kOffsets[1]), c = shifted(junk, kOffsets[2]);
    Buffer workspace = make_buffer(device_, scratch + 64);
    EXPECT_TRUE(static_cast<bool>(workspace.fill(0, scratch + 64, 0xff)));  // NaN: what is not written first shows
    OpList list;
    list.library(desc, {a.address(), b.address(), c.address(), workspace.address()}, scratch);
    Plan plan = take(Plan::build(device_, list.ops(), 0));
    EXPECT_TRUE(static_cast<bool>(plan.replay()));
    EXPECT_TRUE(static_cast<bool>(plan.replay()));
    EXPECT_EQ(download<std::uint8_t>(workspace, scratch + 64).back(), 0xff) << "wrote behind its scratch";
    const std::vector<float> all = download<float>(c, static_cast<std::size_t>(kOffsets[2] + count));
    EXPECT_EQ(all[15], 1e30f) << "wrote before its view";
    return {all.begin() + kOffsets[2], all.end()};
  }

  void expect_near(const std::vector<float>& result, const std::vector<double>& expected, const char* what) {
    double largest = 1e-3;
    for (const double value : expected) largest = std::max(largest, std::abs(value));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(result[i], expected[i], largest * 1e-5) << what << ", element " << i;
    }
  }

  /// All three calls against sums in double.
  void check(const Shape& s) {
    SCOPED_TRACE(testing::Message() << s.n << "x" << s.c << "x" << s.h << "x" << s.w << " -> " << s.o << " kernel "
                                    << s.kh << "x" << s.kw << " stride " << s.stride[0] << "," << s.stride[1]
                                    << " padding " << s.padding[0] << "," << s.padding[1] << " dilation "
                                    << s.dilation[0] << " groups " << s.groups);
    const auto x = random_floats(static_cast<std::size_t>(s.x_count()), 1);
    const auto weight = random_floats(static_cast<std::size_t>(s.weight_count()), 2);
    const auto dy = random_floats(static_cast<std::size_t>(s.y_count()), 3);
    std::vector<double> y(dy.size()), dx(x.size()), dweight(weight.size());
    for_each_product(s, [&](std::int64_t i, std::int64_t j, std::int64_t k) {
      const auto xi = static_cast<std::size_t>(i), wi = static_cast<std::size_t>(j), yi = static_cast<std::size_t>(k);
      y[yi] += double{x[xi]} * double{weight[wi]};
      dx[xi] += double{dy[yi]} * double{weight[wi]};
      dweight[wi] += double{dy[yi]} * double{x[xi]};
    });
    expect_near(run(s, CRUCIBLE_LIB_CONV2D, x, weight, s.y_count()), y, "forward");
    expect_near(run(s, CRUCIBLE_LIB_CONV2D_BACKWARD_INPUT, dy, weight, s.x_count()), dx, "gradient of the input");
    expect_near(run(s, CRUCIBLE_LIB_CONV2D_BACKWARD_WEIGHT, dy, x, s.weight_count()), dweight,
                "gradient of the weight");
  }
  std::shared_ptr<Device> device_;
};

TEST_F(CpuConv, AgreesWithSumsInDouble) {
  check({1, 1, 4, 4, 1, 3, 3});
  check({2, 3, 9, 7, 5, 3, 3, {1, 1}, {1, 1}});
  check({2, 16, 8, 8, 32, 3, 3, {1, 1}, {1, 1}});
  check({2, 16, 9, 9, 16, 3, 3, {2, 2}, {1, 1}});
  check({2, 32, 8, 8, 16, 1, 1});
  check({2, 16, 8, 8, 32, 1, 1, {2, 2}});                      // the last row and column are not read
  check({2, 3, 32, 32, 64, 7, 7, {2, 2}, {3, 3}});             // the stem of a residual network
  check({1, 4, 10, 12, 6, 5, 3, {2, 1}, {2, 0}});              // nothing square
  check({1, 4, 12, 12, 4, 3, 3, {1, 1}, {2, 2}, {2, 2}});      // dilated
  check({2, 8, 6, 6, 12, 3, 3, {1, 1}, {1, 1}, {1, 1}, 4});    // groups
  check({2, 32, 6, 6, 32, 3, 3, {1, 1}, {1, 1}, {1, 1}, 32});  // depthwise
  check({2, 32, 2, 2, 32, 3, 3, {1, 1}, {1, 1}});              // mostly padding
  check({1, 5, 3, 3, 7, 3, 3});                                // one position
}

TEST_F(CpuConv, GivesTheSameFromOneThreadAndTwoUpToRounding) {
  const Shape s{2, 16, 8, 8, 32, 3, 3, {1, 1}, {1, 1}};
  const auto x = random_floats(static_cast<std::size_t>(s.x_count()), 1);
  const auto weight = random_floats(static_cast<std::size_t>(s.weight_count()), 2);
  const std::vector<float> many = run(s, CRUCIBLE_LIB_CONV2D, x, weight, s.y_count());
  device_.reset();
  device_ = open({{"threads", "1"}});
  const std::vector<float> one = run(s, CRUCIBLE_LIB_CONV2D, x, weight, s.y_count());
  expect_near(many, std::vector<double>(one.begin(), one.end()), "two threads against one");
}

TEST_F(CpuConv, DeclinesWhatItCannotDo) {
  const Shape s{2, 4, 6, 6, 8, 3, 3, {1, 1}, {1, 1}};
  const auto reason = [&](auto&& change) {
    crucible_library_desc desc = describe(s, CRUCIBLE_LIB_CONV2D);
    change(desc);
    const auto result = claim(desc);
    return result ? "taken" : result.error().message;
  };
  EXPECT_EQ(reason([](auto&) {}), "taken");
  EXPECT_THAT(reason([](auto& d) { d.views[0].strides[3] = 2; }), HasSubstr("dense"));
  EXPECT_THAT(reason([](auto& d) { d.views[1].dtype = 9; }), HasSubstr("dense f32"));
  EXPECT_THAT(reason([](auto& d) { d.views[2].rank = 3; }), HasSubstr("four dimensions"));
  EXPECT_THAT(reason([](auto& d) { d.groups = 3; }), HasSubstr("do not divide"));
  EXPECT_THAT(reason([](auto& d) { d.groups = 2; }), HasSubstr("do not match"));
  EXPECT_THAT(reason([](auto& d) { d.padding[0] = 3; }), HasSubstr("size does not fit"));
  EXPECT_THAT(reason([](auto& d) { d.stride[1] = 0; }), HasSubstr("stride, dilation or padding"));
}

TEST_F(CpuConv, RefusesAPlanWithoutItsScratch) {
  const Shape s{2, 16, 8, 8, 32, 3, 3, {1, 1}, {1, 1}};
  const crucible_library_desc desc = describe(s, CRUCIBLE_LIB_CONV2D);
  const std::uint64_t scratch = take(claim(desc));
  if (scratch == 0) GTEST_SKIP() << "oneDNN takes these views as they are on this processor";
  Buffer buffer = make_buffer(device_, 1 << 20);
  OpList three, few;
  three.library(desc, {buffer.address(), buffer.address(), buffer.address()}, scratch);
  EXPECT_FALSE(Plan::build(device_, three.ops(), 0));
  few.library(desc, {buffer.address(), buffer.address(), buffer.address(), buffer.address()}, scratch - 1);
  const auto plan = Plan::build(device_, few.ops(), 0);
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().message, HasSubstr("bytes of scratch and needs"));
}

}  // namespace
}  // namespace crucible::backend
