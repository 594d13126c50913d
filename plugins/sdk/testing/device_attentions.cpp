// The cases of DeviceAttentions: see device_attentions.hpp.
#include "plugins/sdk/testing/device_attentions.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "plugins/sdk/testing/library_call.hpp"
#include "plugins/sdk/testing/number_bytes.hpp"

namespace crucible::backend {

using ::testing::HasSubstr;

namespace {

crucible_view view_of(const std::array<std::int64_t, 4>& sizes, bool across, std::uint32_t dtype, std::int64_t offset) {
  crucible_view view = {};
  view.rank = 4, view.dtype = dtype, view.offset = offset;
  std::int64_t stride = 1;
  for (const std::size_t i : across ? std::array<std::size_t, 4>{3, 1, 2, 0} : std::array<std::size_t, 4>{3, 2, 1, 0}) {
    view.sizes[i] = sizes[i];
    view.strides[i] = stride;
    stride *= sizes[i];
  }
  return view;
}

std::size_t place(const crucible_view& v, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  return static_cast<std::size_t>(v.offset + a * v.strides[0] + b * v.strides[1] + c * v.strides[2] + d * v.strides[3]);
}
std::size_t extent(const crucible_view& v) {
  return place(v, v.sizes[0] - 1, v.sizes[1] - 1, v.sizes[2] - 1, v.sizes[3] - 1) + 1;
}
const crucible_view& view(const crucible_library_desc& desc, std::size_t i) {
  return i < 3 ? desc.views[i] : desc.extra;
}

/// The result's buffer: what it had, with the view overwritten by the formula in double.
std::vector<double> expected_of(const crucible_library_desc& desc, const std::array<std::vector<double>, 4>& values) {
  const crucible_view &q = desc.views[0], &k = desc.views[1], &v = desc.views[2], &o = desc.extra;
  const double scale = std::bit_cast<double>(desc.alpha_f64_bits);
  std::vector<double> result = values[3];
  for (std::int64_t b = 0; b < q.sizes[0]; ++b)
    for (std::int64_t h = 0; h < q.sizes[1]; ++h)
      for (std::int64_t i = 0; i < q.sizes[2]; ++i) {
        const std::int64_t seen = desc.mask == CRUCIBLE_MASK_CAUSAL ? std::min(i + 1, k.sizes[2]) : k.sizes[2];
        std::vector<double> weights;
        double total = 0;
        for (std::int64_t j = 0; j < seen; ++j) {
          double score = 0;
          for (std::int64_t d = 0; d < q.sizes[3]; ++d)
            score += values[0][place(q, b, h, i, d)] * values[1][place(k, b, h, j, d)];
          weights.push_back(std::exp(scale * score));
          total += weights.back();
        }
        for (std::int64_t d = 0; d < o.sizes[3]; ++d) {
          double sum = 0;
          for (std::int64_t j = 0; j < seen; ++j)
            sum += weights[static_cast<std::size_t>(j)] / total * values[2][place(v, b, h, j, d)];
          result[place(o, b, h, i, d)] = sum;
        }
      }
  return result;
}

}  // namespace

crucible_library_desc attention_of(const AttentionShape& s, std::uint32_t dtype, std::int64_t offset) {
  crucible_library_desc desc = {};
  desc.struct_size = sizeof(desc);
  desc.kind = CRUCIBLE_LIB_ATTENTION;
  desc.alpha_f64_bits = std::bit_cast<std::uint64_t>(s.scale);
  desc.mask = s.is_causal ? CRUCIBLE_MASK_CAUSAL : CRUCIBLE_MASK_NONE;
  desc.views[0] = view_of({s.batch, s.heads, s.rows, s.width}, s.across, dtype, offset);
  desc.views[1] = view_of({s.batch, s.heads, s.keys, s.width}, s.across, dtype, offset);
  desc.views[2] = view_of({s.batch, s.heads, s.keys, s.values}, s.across, dtype, offset);
  desc.extra = view_of({s.batch, s.heads, s.rows, s.values}, s.across, dtype, offset);
  return desc;
}

std::string run_attention(const std::shared_ptr<Device>& device, const crucible_library_desc& desc, std::size_t shift,
                          bool gives_scratch) {
  std::array<std::vector<double>, 4> values;
  for (std::size_t i = 0; i < 4; ++i) values[i] = numbers(extent(view(desc, i)), static_cast<unsigned>(i) + 1);
  const double tolerance = desc.views[0].dtype == kF16 ? 2e-3 : 1.6e-2;  // probabilities and the result are rounded
  return run_library_call(device, {.desc = desc,
                                   .values = {values.begin(), values.end()},
                                   .result = 3,
                                   .expected = [&] { return expected_of(desc, values); },
                                   .absolute = tolerance,
                                   .shift = shift,
                                   .gives_scratch = gives_scratch});
}

std::string run_attention_under_faults(const PluginUnderTest& plugin, const char* rules) {
  setenv("CRUCIBLE_EMU_FAULTS", rules, 1);
  const auto device = try_open(plugin);
  return device ? run_attention(*device, attention_of({})) : device.error().message;
}

void DeviceAttentions::SetUp() {
  auto opened = try_open(GetParam());
  if (!opened) GTEST_SKIP() << opened.error().message;
  device_ = *opened;
}

TEST_P(DeviceAttentions, EveryTypeMaskWidthAndLayout) {
  const AttentionShape shapes[] = {{},
                                   {.batch = 1, .heads = 1, .rows = 1, .keys = 1, .width = 8, .values = 8},
                                   {.rows = 9, .keys = 4, .width = 64, .values = 64},
                                   {.heads = 1, .rows = 16, .keys = 16, .width = 128, .values = 128, .scale = 0.08},
                                   {.width = 8, .values = 24},
                                   {.batch = 3, .heads = 4, .rows = 17, .keys = 17, .width = 40, .values = 40}};
  for (AttentionShape shape : shapes) {
    for (const std::uint32_t dtype : {kF16, kBF16}) {
      for (const bool is_causal : {false, true}) {
        for (const bool across : {false, true}) {
          shape.is_causal = is_causal, shape.across = across;
          EXPECT_EQ(run_attention(device_, attention_of(shape, dtype, 8)), "")
              << shape.width << " causal " << is_causal << " across " << across << " type " << dtype;
        }
      }
    }
  }
}

TEST_P(DeviceAttentions, WhatIsNotTakenIsUnsupported) {
  EXPECT_THAT(run_attention(device_, attention_of({}, 9)), HasSubstr("attention: only f16, bf16 and f32"));
  crucible_library_desc desc = attention_of({});
  desc.mask = 2;
  EXPECT_THAT(run_attention(device_, desc), HasSubstr("mask 2 is not known"));
  desc = attention_of({});
  desc.extra.sizes[2] = 4;
  EXPECT_THAT(run_attention(device_, desc), HasSubstr("rows or widths do not match"));
  desc = attention_of({});
  desc.views[1].sizes[1] = 1;
  EXPECT_THAT(run_attention(device_, desc), HasSubstr("batches or heads do not match"));
  desc = attention_of({});
  desc.views[2].strides[3] = 2;
  EXPECT_THAT(run_attention(device_, desc), HasSubstr("do not lie side by side"));
  EXPECT_THAT(run_attention(device_, attention_of({.scale = -1})), HasSubstr("a scale that is no positive number"));
}

}  // namespace crucible::backend
