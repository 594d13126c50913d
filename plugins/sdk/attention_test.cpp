// Attentions read from the ABI's descriptions: what is declined, extents and alignment, and lists of ops that have one.
#include "plugins/sdk/attention.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <memory>

#include "plugins/sdk/error.hpp"
#include "plugins/sdk/op_list.hpp"
#include "plugins/sdk/op_order.hpp"

namespace crucible::sdk {
namespace {

using ::testing::HasSubstr;

crucible_view view(std::array<std::int64_t, 4> sizes, std::array<std::int64_t, 4> strides, std::int64_t offset = 0) {
  crucible_view result = {};
  result.rank = 4, result.dtype = 7, result.offset = offset;
  std::copy(sizes.begin(), sizes.end(), result.sizes);
  std::copy(strides.begin(), strides.end(), result.strides);
  return result;
}

/// q, k and v packed side by side, the result by itself.
crucible_library_desc packed() {
  crucible_library_desc desc = {};
  desc.struct_size = sizeof(desc);
  desc.kind = CRUCIBLE_LIB_ATTENTION;
  desc.alpha_f64_bits = std::bit_cast<std::uint64_t>(0.25);
  desc.mask = CRUCIBLE_MASK_CAUSAL;
  for (int i = 0; i < 3; ++i) desc.views[i] = view({2, 3, 5, 8}, {360, 8, 72, 1}, 24 * i);
  desc.extra = view({2, 3, 5, 8}, {120, 8, 24, 1});
  return desc;
}

std::string refusal(const crucible_library_desc& desc) {
  try {
    (void)read_attention(&desc);
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

TEST(SdkAttention, IsReadWithItsExtentsAndAlignments) {
  const crucible_library_desc desc = packed();
  ASSERT_TRUE(is_attention(&desc));
  const Attention a = read_attention(&desc);
  EXPECT_TRUE(a.is_causal);
  EXPECT_EQ(a.scale, 0.25);
  EXPECT_EQ(attention_extent_bytes(a, 0), 2u * (360 + 16 + 4 * 72 + 7 + 1));
  EXPECT_EQ(attention_extent_bytes(a, 2), 2u * (48 + 360 + 16 + 4 * 72 + 7 + 1));
  EXPECT_EQ(attention_extent_bytes(a, 3), 480u);
  EXPECT_EQ(attention_alignment(a, 1, 256), 16u);
  EXPECT_EQ(attention_alignment(a, 1, 4), 4u);
  crucible_library_desc open = desc;
  open.mask = CRUCIBLE_MASK_NONE;
  EXPECT_NE(read_attention(&open).shape(), a.shape());
}

TEST(SdkAttention, SaysWhatItDeclines) {
  crucible_library_desc desc = packed();
  desc.struct_size = 504;  // of ABI 0.1, which has no place for the result
  EXPECT_THAT(refusal(desc), HasSubstr("only tensors of four dimensions"));
  desc = packed();
  desc.views[2].dtype = 6;
  EXPECT_THAT(refusal(desc), HasSubstr("operands of different types"));
  desc = packed();
  desc.views[0].sizes[2] = 0;
  EXPECT_THAT(refusal(desc), HasSubstr("an empty tensor"));
  desc = packed();
  desc.views[1].strides[1] = 0;
  EXPECT_THAT(refusal(desc), HasSubstr("a stride below 1"));
  desc = packed();
  desc.kind = CRUCIBLE_LIB_REDUCE;
  EXPECT_FALSE(is_attention(&desc));
}

crucible_library_desc gradient() {
  crucible_library_desc desc = packed();
  desc.kind = CRUCIBLE_LIB_ATTENTION_BACKWARD;
  desc.more[0] = view({2, 3, 5, 1}, {15, 5, 1, 1}, 2);
  desc.more[0].dtype = 8;
  desc.more[1] = desc.extra;
  for (int i = 0; i < 3; ++i) desc.more[2 + i] = view({2, 3, 5, 8}, {120, 40, 8, 1}, 8 * i);
  return desc;
}

TEST(SdkAttention, HasTheTensorsOfTraining) {
  crucible_library_desc desc = gradient();
  ASSERT_TRUE(is_attention(&desc));
  Attention a = read_attention(&desc);
  EXPECT_EQ(a.part, AttentionPart::kBackward);
  EXPECT_EQ(a.count(), 9u);
  EXPECT_EQ(attention_extent_bytes(a, kLogSums), 4u * 32) << "f32 behind two";
  EXPECT_EQ(attention_alignment(a, kLogSums, 256), 8u);
  EXPECT_EQ(attention_extent_bytes(a, kDV), 2u * (240 + 16));
  for (std::size_t i = 0; i < a.count(); ++i) EXPECT_EQ(a.is_result(i), i >= kDQ) << i;
  desc.kind = CRUCIBLE_LIB_ATTENTION_FORWARD;
  const Attention forward = read_attention(&desc);
  EXPECT_EQ(forward.count(), 5u);
  EXPECT_NE(forward.shape(), a.shape());
  for (std::size_t i = 0; i < forward.count(); ++i) EXPECT_EQ(forward.is_result(i), i == kO || i == kLogSums) << i;
  desc = gradient();
  desc.more[0].dtype = 7;
  EXPECT_THAT(refusal(desc), HasSubstr("operands of different types"));
  desc = gradient();
  desc.more[0].sizes[2] = 4;
  EXPECT_THAT(refusal(desc), HasSubstr("not one for each row"));
  for (int i = 1; i < 5; ++i) {
    desc = gradient();
    desc.more[i].sizes[2] = 4;
    EXPECT_THAT(refusal(desc), HasSubstr("gradients have other sizes")) << i;
  }
  desc = gradient();
  desc.struct_size = 656;  // of ABI 0.4, which has no place for them
  EXPECT_THAT(refusal(desc), HasSubstr("only tensors of four dimensions"));
}

/// Whoever reads a gradient waits for it, and it waits for what its operands are made by.
TEST(SdkAttention, WritesItsThreeResultsAlone) {
  const crucible_library_desc desc = gradient();
  ListedOp op;
  op.kind = CRUCIBLE_OP_LIBRARY;
  op.attention = std::make_unique<const Attention>(read_attention(&desc));
  for (std::uint64_t i = 0; i < 10; ++i) op.addresses.push_back(0x1000 * (i + 1));
  op.scratch_bytes = 64;
  const std::vector<TouchedBytes> touched = touched_bytes(op, {});
  ASSERT_EQ(touched.size(), 10u);
  for (std::size_t i = 0; i < touched.size(); ++i) {
    EXPECT_EQ(touched[i].is_written, i >= kDQ) << i;
    EXPECT_EQ(touched[i].begin, 0x1000 * (i + 1));
  }
  EXPECT_EQ(touched[kLogSums].end - touched[kLogSums].begin, 4u * 32);
}

TEST(SdkAttention, HasFourBuffersInAList) {
  const crucible_library_desc desc = packed();
  const std::uint64_t places[] = {1000, 1000, 1000, 5000, 9000};
  crucible_op op = {};
  op.struct_size = sizeof(op);
  op.kind = CRUCIBLE_OP_LIBRARY;
  op.library = &desc;
  op.buffers = places;
  op.buffer_count = 5;
  op.scratch_bytes = 64;
  std::uint64_t room_of_result = 480;
  const auto read = [&](bool takes) -> std::string {
    try {
      const auto find = [&](std::uint64_t address) { return Place{.left = address == 5000 ? room_of_result : 4096}; };
      const OpList list = read_ops(&op, 1, 0, {nullptr, find, true, true, Epilogues::kDeclined, takes});
      EXPECT_NE(list.ops[0].attention, nullptr);
      EXPECT_EQ(list.ops[0].addresses.size(), op.scratch_bytes == 0 ? 4u : 5u);
    } catch (const Failure& failure) {
      return failure.what();
    }
    return "";
  };
  EXPECT_EQ(read(true), "");
  EXPECT_THAT(read(false), HasSubstr("op 0 is an attention, and this plugin claims none"));
  room_of_result = 479;
  EXPECT_THAT(read(true), HasSubstr("480 bytes, where buffer 3 has 479 left"));
  room_of_result = 480;
  op.buffer_count = 4;
  EXPECT_THAT(read(true), HasSubstr("it has 4 buffers and needs 5"));
  op.scratch_bytes = 0;
  EXPECT_EQ(read(true), "");
}

}  // namespace
}  // namespace crucible::sdk
