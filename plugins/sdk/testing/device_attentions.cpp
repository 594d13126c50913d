// The cases of DeviceAttentions: see device_attentions.hpp.
#include "plugins/sdk/testing/device_attentions.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "plugins/sdk/testing/number_bytes.hpp"

namespace crucible::backend {

using ::testing::HasSubstr;

namespace {

constexpr std::uint8_t kUntouched = 0x5a;

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
std::size_t extent(const crucible_view& v) { return place(v, v.sizes[0] - 1, v.sizes[1] - 1, v.sizes[2] - 1, v.sizes[3] - 1) + 1; }
const crucible_view& view(const crucible_library_desc& desc, std::size_t i) { return i < 3 ? desc.views[i] : desc.extra; }

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
          for (std::int64_t d = 0; d < q.sizes[3]; ++d) score += values[0][place(q, b, h, i, d)] * values[1][place(k, b, h, j, d)];
          weights.push_back(std::exp(scale * score));
          total += weights.back();
        }
        for (std::int64_t d = 0; d < o.sizes[3]; ++d) {
          double sum = 0;
          for (std::int64_t j = 0; j < seen; ++j) sum += weights[static_cast<std::size_t>(j)] / total * values[2][place(v, b, h, j, d)];
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

std::string run_attention(const std::shared_ptr<Device>& device, const crucible_library_desc& desc, std::size_t shift, bool gives_scratch) {
  const std::uint32_t dtype = desc.views[0].dtype;
  std::uint64_t scratch = 0;
  if (const auto claimed = to_result(device->backend().library_table().claim(device->handle(), &desc, &scratch), "claim"); !claimed) return claimed.error().message;
  const std::uint64_t moved = shift * size_of(dtype);
  std::array<std::vector<double>, 4> values;
  std::vector<Buffer> buffers;
  std::vector<std::uint64_t> places;
  for (std::size_t i = 0; i < 4; ++i) {
    values[i] = numbers(extent(view(desc, i)), static_cast<unsigned>(i) + 1);
    buffers.push_back(take(Buffer::allocate(device, moved + values[i].size() * size_of(dtype), 256)));
    EXPECT_TRUE(buffers.back().write(moved, bytes_of(values[i], dtype)));
    places.push_back(buffers.back().address() + moved);
  }
  buffers.push_back(take(Buffer::allocate(device, scratch + 1, 256)));
  places.push_back(buffers.back().address());
  // Behind another op, so that the call is not all there is.
  std::array<crucible_op, 2> ops = {};
  for (crucible_op& op : ops) op.struct_size = sizeof(op);
  ops[0].kind = CRUCIBLE_OP_FILL;
  ops[0].buffers = &places[4];
  ops[0].buffer_count = 1;
  ops[0].size = scratch + 1;
  ops[0].pattern = kUntouched;
  ops[1].kind = CRUCIBLE_OP_LIBRARY;
  ops[1].library = &desc;
  ops[1].buffers = places.data();
  ops[1].buffer_count = 5;
  ops[1].scratch_bytes = gives_scratch ? scratch : 0;
  auto plan = Plan::build(device, ops, 0);
  if (!plan) return plan.error().message;
  const std::vector<double> expected = expected_of(desc, values);
  const double tolerance = dtype == kF16 ? 2e-3 : 1.6e-2;  // probabilities and the result are rounded
  for (const char* how : {"plan", "plan again", "op by op"}) {
    if (std::string(how) == "op by op") {
      EXPECT_TRUE(plan->profile());
    } else if (const auto replayed = plan->replay(); !replayed) {
      return replayed.error().message;
    }
    std::vector<std::byte> bytes(expected.size() * size_of(dtype));
    EXPECT_TRUE(buffers[3].read(moved, bytes));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (std::fabs(number_at(bytes, i, dtype) - expected[i]) > tolerance)
        return std::string("wrong result, ") + how + ": element " + std::to_string(i) + " is " + std::to_string(number_at(bytes, i, dtype)) + ", expected " + std::to_string(expected[i]);
    }
    std::vector<std::byte> rest(1);
    EXPECT_TRUE(buffers[4].read(gives_scratch ? scratch : 0, rest));
    if (rest[0] != std::byte{kUntouched}) return std::string("scratch that was not given is written, ") + how;
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
          EXPECT_EQ(run_attention(device_, attention_of(shape, dtype, 8)), "") << shape.width << " causal " << is_causal << " across " << across << " type " << dtype;
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
