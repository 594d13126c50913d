// The cases of DeviceAttentions: see device_attentions.hpp.
#include "plugins/sdk/testing/device_attentions.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

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
/// In the order of the buffers.
const crucible_view& view(const crucible_library_desc& desc, std::size_t i) {
  return i < 3 ? desc.views[i] : i == 3 ? desc.extra : desc.more[i - 4];
}
std::size_t count_of(const crucible_library_desc& desc) {
  return desc.kind == CRUCIBLE_LIB_ATTENTION ? 4 : desc.kind == CRUCIBLE_LIB_ATTENTION_FORWARD ? 5 : 9;
}

constexpr std::uint32_t kKinds[] = {CRUCIBLE_LIB_ATTENTION, CRUCIBLE_LIB_ATTENTION_FORWARD,
                                    CRUCIBLE_LIB_ATTENTION_BACKWARD};
enum Tensor : std::size_t { kQ, kK, kV, kO, kLogs, kDO, kDQ, kDK, kDV };
using Buffers = std::vector<std::vector<double>>;

double dot(const crucible_view& a, const std::vector<double>& x, std::int64_t i, const crucible_view& b,
           const std::vector<double>& y, std::int64_t j, std::int64_t batch, std::int64_t head) {
  double sum = 0;
  for (std::int64_t d = 0; d < a.sizes[3]; ++d) sum += x[place(a, batch, head, i, d)] * y[place(b, batch, head, j, d)];
  return sum;
}

/// The formulas in double, of one batch and head: results overwrite their places.
void attend(const crucible_library_desc& desc, Buffers& x, std::int64_t b, std::int64_t h, bool is_backward) {
  const auto at = [&](std::size_t tensor, std::int64_t i, std::int64_t d) -> double& {
    return x[tensor][place(view(desc, tensor), b, h, i, d)];
  };
  const auto product = [&](std::size_t left, std::int64_t i, std::size_t right, std::int64_t j) {
    return dot(view(desc, left), x[left], i, view(desc, right), x[right], j, b, h);
  };
  const crucible_view &q = desc.views[0], &k = desc.views[1], &o = desc.extra;
  const double scale = std::bit_cast<double>(desc.alpha_f64_bits);
  if (is_backward) {
    for (std::int64_t j = 0; j < k.sizes[2]; ++j) {
      for (std::int64_t d = 0; d < k.sizes[3]; ++d) at(kDK, j, d) = 0;
      for (std::int64_t d = 0; d < o.sizes[3]; ++d) at(kDV, j, d) = 0;
    }
  }
  for (std::int64_t i = 0; i < q.sizes[2]; ++i) {
    const std::int64_t seen = desc.mask == CRUCIBLE_MASK_CAUSAL ? std::min(i + 1, k.sizes[2]) : k.sizes[2];
    std::vector<double> weights;
    double total = 0;
    for (std::int64_t j = 0; j < seen; ++j) total += weights.emplace_back(std::exp(scale * product(kQ, i, kK, j)));
    for (double& weight : weights) weight /= total;
    if (!is_backward) {
      for (std::int64_t d = 0; d < o.sizes[3]; ++d) {
        double sum = 0;
        for (std::int64_t j = 0; j < seen; ++j) sum += weights[static_cast<std::size_t>(j)] * at(kV, j, d);
        at(kO, i, d) = sum;
      }
      if (count_of(desc) > kLogs) at(kLogs, i, 0) = std::log(total);
      continue;
    }
    const double inner = product(kDO, i, kO, i);
    for (std::int64_t d = 0; d < q.sizes[3]; ++d) at(kDQ, i, d) = 0;
    for (std::int64_t j = 0; j < seen; ++j) {
      const double p = weights[static_cast<std::size_t>(j)], slope = scale * p * (product(kDO, i, kV, j) - inner);
      for (std::int64_t d = 0; d < q.sizes[3]; ++d) at(kDQ, i, d) += slope * at(kK, j, d);
      for (std::int64_t d = 0; d < q.sizes[3]; ++d) at(kDK, j, d) += slope * at(kQ, i, d);
      for (std::int64_t d = 0; d < o.sizes[3]; ++d) at(kDV, j, d) += p * at(kDO, i, d);
    }
  }
}

void attend(const crucible_library_desc& desc, Buffers& x, bool is_backward) {
  for (std::int64_t b = 0; b < desc.views[0].sizes[0]; ++b)
    for (std::int64_t h = 0; h < desc.views[0].sizes[1]; ++h) attend(desc, x, b, h, is_backward);
}

}  // namespace

crucible_library_desc attention_of(const AttentionShape& s, std::uint32_t dtype, std::int64_t offset) {
  crucible_library_desc desc = {};
  desc.struct_size = sizeof(desc);
  desc.kind = s.kind;
  desc.alpha_f64_bits = std::bit_cast<std::uint64_t>(s.scale);
  desc.mask = s.is_causal ? CRUCIBLE_MASK_CAUSAL : CRUCIBLE_MASK_NONE;
  desc.views[0] = view_of({s.batch, s.heads, s.rows, s.width}, s.across, dtype, offset);
  desc.views[1] = view_of({s.batch, s.heads, s.keys, s.width}, s.across, dtype, offset);
  desc.views[2] = view_of({s.batch, s.heads, s.keys, s.values}, s.across, dtype, offset);
  desc.extra = view_of({s.batch, s.heads, s.rows, s.values}, s.across, dtype, offset);
  if (s.kind == CRUCIBLE_LIB_ATTENTION) return desc;
  desc.more[0] = view_of({s.batch, s.heads, s.rows, 1}, false, kF32, offset);
  if (s.kind == CRUCIBLE_LIB_ATTENTION_FORWARD) return desc;
  desc.more[1] = desc.extra;
  for (std::size_t i = 0; i < 3; ++i) desc.more[2 + i] = desc.views[i];
  return desc;
}

std::string run_attention(const std::shared_ptr<Device>& device, const crucible_library_desc& desc, std::size_t shift,
                          bool gives_scratch) {
  const bool is_backward = desc.kind == CRUCIBLE_LIB_ATTENTION_BACKWARD;
  Buffers values(count_of(desc));
  std::vector<std::uint32_t> dtypes;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = numbers(extent(view(desc, i)), static_cast<unsigned>(i) + 1);
    dtypes.push_back(view(desc, i).dtype);
  }
  if (is_backward) attend(desc, values, false);  // o and the logarithms are not any numbers
  Buffers expected = values;
  const std::vector<std::size_t> results = is_backward          ? std::vector<std::size_t>{kDQ, kDK, kDV}
                                           : values.size() == 5 ? std::vector<std::size_t>{kO, kLogs}
                                                                : std::vector<std::size_t>{kO};
  // Probabilities and the results are rounded, of a gradient the slopes and o, too, and sums are of many of them.
  const double tolerance = (desc.views[0].dtype == kF16 ? 2e-3 : 1.6e-2) * (is_backward ? 3 : 1);
  bool is_made = false;
  for (const std::size_t result : results) {
    std::string told = run_library_call(device, {.desc = desc,
                                                 .values = values,
                                                 .result = result,
                                                 .dtypes = dtypes,
                                                 .expected =
                                                     [&] {
                                                       if (!std::exchange(is_made, true))
                                                         attend(desc, expected, is_backward);
                                                       return expected[result];
                                                     },
                                                 .absolute = result == kLogs ? 1e-4 : tolerance,
                                                 .shift = shift,
                                                 .gives_scratch = gives_scratch});
    if (!told.empty()) return results.size() == 1 ? told : "result " + std::to_string(result) + ": " + told;
  }
  return "";
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
          for (const std::uint32_t kind : kKinds) {
            shape.kind = kind;
            EXPECT_EQ(run_attention(device_, attention_of(shape, dtype, 8)), "")
                << shape.width << " causal " << is_causal << " across " << across << " type " << dtype << " kind "
                << kind;
          }
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
  desc = attention_of({.kind = CRUCIBLE_LIB_ATTENTION_FORWARD});
  desc.more[0].sizes[3] = 2;
  EXPECT_THAT(run_attention(device_, desc), HasSubstr("its logarithms of sums are not one for each row"));
  desc = attention_of({.kind = CRUCIBLE_LIB_ATTENTION_FORWARD});
  desc.more[0].dtype = desc.extra.dtype;
  EXPECT_THAT(run_attention(device_, desc), HasSubstr("operands of different types"));
  desc = attention_of({.kind = CRUCIBLE_LIB_ATTENTION_BACKWARD});
  desc.more[3].sizes[2] = 6;
  EXPECT_THAT(run_attention(device_, desc), HasSubstr("gradients have other sizes than what they are of"));
}

}  // namespace crucible::backend
