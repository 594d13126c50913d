// The cases of DeviceConvolutions: see device_convolutions.hpp.
#include "plugins/sdk/testing/device_convolutions.hpp"

#include <algorithm>
#include <cmath>

#include "plugins/sdk/testing/library_call.hpp"
#include "plugins/sdk/testing/number_bytes.hpp"

namespace crucible::backend {

using ::testing::HasSubstr;

namespace {

constexpr std::uint32_t kKinds[] = {CRUCIBLE_LIB_CONV2D, CRUCIBLE_LIB_CONV2D_BACKWARD_INPUT,
                                    CRUCIBLE_LIB_CONV2D_BACKWARD_WEIGHT};

crucible_view view_of(std::array<std::int64_t, 4> sizes, bool is_channels_last, std::uint32_t dtype,
                      std::int64_t offset) {
  crucible_view view = {};
  view.rank = 4, view.dtype = dtype, view.offset = offset;
  std::int64_t stride = 1;
  for (const std::size_t i :
       is_channels_last ? std::array<std::size_t, 4>{1, 3, 2, 0} : std::array<std::size_t, 4>{3, 2, 1, 0}) {
    view.sizes[i] = sizes[i];
    view.strides[i] = stride;
    stride *= sizes[i];
  }
  return view;
}

}  // namespace

crucible_library_desc convolution_of(const ConvolutionShape& s, std::uint32_t kind, std::uint32_t dtype,
                                     bool is_channels_last, std::int64_t offset) {
  crucible_library_desc desc = {};
  desc.struct_size = sizeof(desc);
  desc.kind = kind;
  std::array<std::int64_t, 2> out;
  const std::array<std::int64_t, 2> in = {s.height, s.width};
  for (std::size_t i = 0; i < 2; ++i) {
    out[i] = (in[i] + 2 * s.padding[i] - (s.kernel[i] - 1) * s.dilation[i] - 1) / s.stride[i] + 1;
    desc.stride[i] = s.stride[i], desc.padding[i] = s.padding[i], desc.dilation[i] = s.dilation[i];
  }
  desc.groups = s.groups;
  const auto x = view_of({s.n, s.channels, s.height, s.width}, is_channels_last, dtype, offset);
  const auto weight =
      view_of({s.outputs, s.channels / s.groups, s.kernel[0], s.kernel[1]}, is_channels_last, dtype, offset);
  const auto y = view_of({s.n, s.outputs, out[0], out[1]}, is_channels_last, dtype, offset);
  desc.views[0] = kind == CRUCIBLE_LIB_CONV2D ? x : y;
  desc.views[1] = kind == CRUCIBLE_LIB_CONV2D_BACKWARD_WEIGHT ? x : weight;
  desc.views[2] = kind == CRUCIBLE_LIB_CONV2D ? y : kind == CRUCIBLE_LIB_CONV2D_BACKWARD_INPUT ? x : weight;
  return desc;
}

namespace {

std::size_t place(const crucible_view& v, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  return static_cast<std::size_t>(v.offset + a * v.strides[0] + b * v.strides[1] + c * v.strides[2] + d * v.strides[3]);
}
std::size_t extent(const crucible_view& v) {
  return place(v, v.sizes[0] - 1, v.sizes[1] - 1, v.sizes[2] - 1, v.sizes[3] - 1) + 1;
}

/// The result's buffer: what it had, with the view overwritten by sums in double.
std::vector<double> expected_of(const crucible_library_desc& desc, const std::vector<double>& a,
                                const std::vector<double>& b, std::vector<double> c) {
  const bool is_forward = desc.kind == CRUCIBLE_LIB_CONV2D, is_input = desc.kind == CRUCIBLE_LIB_CONV2D_BACKWARD_INPUT;
  const crucible_view &x = desc.views[is_forward ? 0
                                      : is_input ? 2
                                                 : 1],
                      &y = desc.views[is_forward ? 2 : 0], &w = desc.views[is_forward || is_input ? 1 : 2];
  const crucible_view& r = desc.views[2];
  for (std::int64_t p = 0; p < r.sizes[0]; ++p)
    for (std::int64_t q = 0; q < r.sizes[1]; ++q)
      for (std::int64_t i = 0; i < r.sizes[2]; ++i)
        for (std::int64_t j = 0; j < r.sizes[3]; ++j) c[place(r, p, q, i, j)] = 0;
  const std::int64_t per_group = w.sizes[0] / desc.groups;
  for (std::int64_t n = 0; n < y.sizes[0]; ++n)
    for (std::int64_t o = 0; o < y.sizes[1]; ++o)
      for (std::int64_t h = 0; h < y.sizes[2]; ++h)
        for (std::int64_t v = 0; v < y.sizes[3]; ++v)
          for (std::int64_t i = 0; i < w.sizes[1]; ++i)
            for (std::int64_t p = 0; p < w.sizes[2]; ++p)
              for (std::int64_t q = 0; q < w.sizes[3]; ++q) {
                const std::int64_t row = h * desc.stride[0] + p * desc.dilation[0] - desc.padding[0];
                const std::int64_t column = v * desc.stride[1] + q * desc.dilation[1] - desc.padding[1];
                if (row < 0 || column < 0 || row >= x.sizes[2] || column >= x.sizes[3]) continue;
                const std::size_t at_x = place(x, n, o / per_group * w.sizes[1] + i, row, column),
                                  at_w = place(w, o, i, p, q), at_y = place(y, n, o, h, v);
                if (is_forward) c[at_y] += a[at_x] * b[at_w];
                if (is_input) c[at_x] += a[at_y] * b[at_w];
                if (!is_forward && !is_input) c[at_w] += a[at_y] * b[at_x];
              }
  return c;
}

}  // namespace

std::string run_convolution(const std::shared_ptr<Device>& device, const crucible_library_desc& desc, std::size_t shift,
                            bool gives_scratch) {
  const std::uint32_t dtype = desc.views[0].dtype;
  const std::vector<double> a = numbers(extent(desc.views[0]), 1), b = numbers(extent(desc.views[1]), 2),
                            c = numbers(extent(desc.views[2]), 3);
  const double tolerance = dtype == kF32 ? 1e-5 : dtype == kF16 ? 1e-3 : 8e-3;
  return run_library_call(device, {.desc = desc,
                                   .values = {a, b, c},
                                   .result = 2,
                                   .expected = [&] { return expected_of(desc, a, b, c); },
                                   .absolute = tolerance,
                                   .relative = tolerance,
                                   .shift = shift,
                                   .gives_scratch = gives_scratch});
}

std::string run_convolution_under_faults(const PluginUnderTest& plugin, const char* rules, std::uint32_t kind,
                                         std::uint32_t dtype) {
  setenv("CRUCIBLE_EMU_FAULTS", rules, 1);
  const auto device = try_open(plugin);
  return device ? run_convolution(*device, convolution_of({}, kind, dtype)) : device.error().message;
}

void DeviceConvolutions::SetUp() {
  auto opened = try_open(GetParam());
  if (!opened) GTEST_SKIP() << opened.error().message;
  device_ = *opened;
}

TEST_P(DeviceConvolutions, EveryKindTypeLayoutAndGeometry) {
  const ConvolutionShape shapes[] = {{},
                          {.padding = {1, 1}},
                          {.stride = {2, 2}, .padding = {1, 1}},
                          {.stride = {2, 1}, .padding = {0, 2}, .dilation = {2, 1}},
                          {.kernel = {1, 1}},
                          {.n = 1, .channels = 1, .outputs = 1, .kernel = {3, 1}, .stride = {3, 2}},
                          {.groups = 2, .padding = {1, 1}},
                          {.outputs = 8, .groups = 4, .kernel = {3, 2}, .stride = {1, 2}},
                          {.channels = 32, .outputs = 4, .padding = {1, 1}},
                          {.height = 3, .width = 3}};
  for (const ConvolutionShape& shape : shapes) {
    for (const std::uint32_t kind : kKinds) {
      for (const std::uint32_t dtype : {kF32, kF16, kBF16}) {
        for (const bool is_channels_last : {false, true}) {
          const std::string told = run_convolution(device_, convolution_of(shape, kind, dtype, is_channels_last, 5));
          EXPECT_EQ(told, "") << "shape " << &shape - shapes << " kind " << kind << " type " << dtype << " "
                              << is_channels_last;
        }
      }
    }
  }
}

TEST_P(DeviceConvolutions, WorsePlacesAndLessScratchThanWereClaimedWorkToo) {
  const crucible_library_desc desc = convolution_of({.channels = 32}, CRUCIBLE_LIB_CONV2D, kF32);
  std::uint64_t scratch = 0;
  EXPECT_TRUE(to_result(device_->backend().library_table().claim(device_->handle(), &desc, &scratch), "claim"));
  EXPECT_EQ(scratch, 4096u);  // the emulated library's own rule
  for (const std::size_t shift : {0, 1, 3}) {
    EXPECT_EQ(run_convolution(device_, desc, shift), "");
    EXPECT_EQ(run_convolution(device_, desc, shift, false), "");
  }
}

TEST_P(DeviceConvolutions, WhatIsNotTakenIsUnsupported) {
  crucible_library_desc desc = convolution_of({}, CRUCIBLE_LIB_CONV2D, 9);
  EXPECT_THAT(run_convolution(device_, desc), HasSubstr("only f16, bf16 and f32"));
  desc = convolution_of({}, CRUCIBLE_LIB_CONV2D, kF32);
  desc.views[0].strides[0] = 0;
  EXPECT_THAT(run_convolution(device_, desc), HasSubstr("a stride below 1"));
  desc.views[0].strides[0] = 4;
  EXPECT_THAT(run_convolution(device_, desc), HasSubstr("a tensor overlaps itself"));
  desc = convolution_of({}, CRUCIBLE_LIB_CONV2D, kF32);
  desc.stride[1] = 2;
  EXPECT_THAT(run_convolution(device_, desc), HasSubstr("the result's size does not fit"));
}

}  // namespace crucible::backend
