// Convolutions read from the ABI's descriptions: which view is what, sizes that belong together, what is declined,
// extents and alignment, and which dense layout the tensors have.
#include "plugins/sdk/convolution.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/sdk/error.hpp"

namespace crucible::sdk {
namespace {

using ::testing::HasSubstr;

crucible_view view(std::array<std::int64_t, 4> sizes, std::array<std::int64_t, 4> strides, std::int64_t offset = 0) {
  crucible_view result = {};
  result.rank = 4;
  result.dtype = 8;
  result.offset = offset;
  std::copy(sizes.begin(), sizes.end(), result.sizes);
  std::copy(strides.begin(), strides.end(), result.strides);
  return result;
}

const crucible_view kX = view({2, 4, 9, 7}, {252, 63, 7, 1}, 5), kWeight = view({6, 2, 3, 2}, {12, 6, 2, 1}),
                    kY = view({2, 6, 5, 6}, {180, 30, 6, 1}, 3);

/// x and weight of two groups; by a stride of 2 and a padding of 1 in height.
crucible_library_desc describe(std::uint32_t kind, const crucible_view& a, const crucible_view& b,
                               const crucible_view& c) {
  crucible_library_desc desc = {};
  desc.struct_size = sizeof(desc);
  desc.kind = kind;
  desc.views[0] = a, desc.views[1] = b, desc.views[2] = c;
  desc.stride[0] = 2, desc.stride[1] = 1, desc.padding[0] = 1, desc.dilation[0] = desc.dilation[1] = 1;
  desc.groups = 2;
  return desc;
}

const crucible_library_desc kForward = describe(CRUCIBLE_LIB_CONV2D, kX, kWeight, kY);

std::string declined(const crucible_library_desc& desc) {
  try {
    (void)read_convolution(&desc);
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), CRUCIBLE_E_UNSUPPORTED) << failure.what();
    return failure.what();
  }
  return "";
}

/// What is declined when a copy of kForward is changed.
template <class Change>
std::string declined_with(Change change) {
  crucible_library_desc desc = kForward;
  change(desc);
  return declined(desc);
}

TEST(Convolution, EachKindHasItsViewsInItsOrder) {
  const Convolution forward = read_convolution(&kForward);
  const auto data_desc = describe(CRUCIBLE_LIB_CONV2D_BACKWARD_INPUT, kY, kWeight, kX),
             filter_desc = describe(CRUCIBLE_LIB_CONV2D_BACKWARD_WEIGHT, kY, kX, kWeight);
  const Convolution data = read_convolution(&data_desc), filter = read_convolution(&filter_desc);
  EXPECT_EQ(forward.shape(),
            "conv2d f32 2x4x9x7 by 252x63x7x1 6x2x3x2 by 12x6x2x1 2x6x5x6 by 180x30x6x1 stride 2x1 padding 1x0 "
            "dilation 1x1 groups 2");
  EXPECT_THAT(data.shape(), HasSubstr("conv2d_backward_input f32 2x4x9x7 by"));
  EXPECT_THAT(filter.shape(), HasSubstr("conv2d_backward_weight f32 2x4x9x7 by"));
  const auto views = [](const Convolution& c) { return std::array{c.x.view, c.weight.view, c.y.view}; };
  EXPECT_EQ(views(forward), (std::array{0, 1, 2}));
  EXPECT_EQ(views(data), (std::array{2, 1, 0}));
  EXPECT_EQ(views(filter), (std::array{1, 2, 0}));
  EXPECT_EQ(&data.tensor(0), &data.y);
  EXPECT_EQ(&filter.tensor(2), &filter.weight);
}

TEST(Convolution, OnlyConvolutionsAreOnes) {
  EXPECT_TRUE(is_convolution(&kForward));
  crucible_library_desc desc = kForward;
  desc.kind = CRUCIBLE_LIB_MATMUL;
  EXPECT_FALSE(is_convolution(&desc));
  EXPECT_THAT(declined(desc), HasSubstr("is none"));
  desc.struct_size = 16;
  EXPECT_THROW((void)is_convolution(&desc), Failure);
  EXPECT_THROW((void)is_convolution(nullptr), Failure);
}

TEST(Convolution, ExtentsAndAlignmentsHaveTheOffset) {
  const Convolution c = read_convolution(&kForward);
  EXPECT_EQ(convolution_extent_bytes(c, 0), 4u * (5 + 2 * 252));
  EXPECT_EQ(convolution_extent_bytes(c, 1), 4u * 72);
  EXPECT_EQ(convolution_extent_bytes(c, 2), 4u * (3 + 2 * 180));
  EXPECT_EQ(convolution_alignment(c, 0, 0), 4u);
  EXPECT_EQ(convolution_alignment(c, 0, 12), 16u);
  EXPECT_EQ(convolution_alignment(c, 1, 256), 16u);
  EXPECT_EQ(convolution_alignment(c, 1, 8), 8u);
  auto desc = kForward;
  for (crucible_view& each : desc.views) each.dtype = 6;
  EXPECT_EQ(convolution_extent_bytes(read_convolution(&desc), 1), 2u * 72);
  EXPECT_EQ(convolution_alignment(read_convolution(&desc), 0, 0), 2u);
}

TEST(Convolution, TypesAndEpiloguesAreDeclined) {
  EXPECT_THAT(declined_with([](auto& d) { d.views[0].dtype = 9; }), HasSubstr("only f16, bf16 and f32"));
  EXPECT_THAT(declined_with([](auto& d) { d.views[1].dtype = 7; }), HasSubstr("the tensors' types differ"));
  EXPECT_THAT(declined_with([](auto& d) { d.epilogue = CRUCIBLE_EPILOGUE_NONE + 1; }),
              HasSubstr("epilogues are not taken"));
}

TEST(Convolution, TensorsThatAreNoneAreDeclined) {
  EXPECT_THAT(declined_with([](auto& d) { d.views[1].rank = 3; }), HasSubstr("only tensors of four dimensions"));
  EXPECT_THAT(declined_with([](auto& d) { d.views[0].offset = -1; }), HasSubstr("an offset that no buffer has"));
  EXPECT_THAT(declined_with([](auto& d) { d.views[0].sizes[0] = 0; }), HasSubstr("an empty tensor"));
  EXPECT_THAT(declined_with([](auto& d) { d.views[0].sizes[0] = std::int64_t{1} << 31; }),
              HasSubstr("a size of more than 31 bits"));
  EXPECT_THAT(declined_with([](auto& d) { d.views[0].strides[0] = 0; }), HasSubstr("a stride below 1"));
  EXPECT_THAT(declined_with([](auto& d) { d.views[0].strides[0] = std::int64_t{1} << 31; }),
              HasSubstr("a stride of more than 31 bits"));
  EXPECT_THAT(declined_with([](auto& d) { d.views[0].strides[0] = 251; }), HasSubstr("a tensor overlaps itself"));
}

TEST(Convolution, GeometryThatDoesNotFitIsDeclined) {
  EXPECT_THAT(declined_with([](auto& d) { d.groups = 0; }), HasSubstr("channels do not divide"));
  EXPECT_THAT(declined_with([](auto& d) { d.groups = 3; }), HasSubstr("channels do not divide"));
  EXPECT_THAT(declined_with([](auto& d) { d.groups = 1; }), HasSubstr("channels or batch do not match"));
  EXPECT_THAT(declined_with([](auto& d) { d.views[2].sizes[0] = 1; }), HasSubstr("channels or batch do not match"));
  EXPECT_THAT(declined_with([](auto& d) { d.stride[0] = 0; }), HasSubstr("stride, dilation or padding"));
  EXPECT_THAT(declined_with([](auto& d) { d.padding[1] = -1; }), HasSubstr("stride, dilation or padding"));
  EXPECT_THAT(declined_with([](auto& d) { d.dilation[1] = 1 << 30; }), HasSubstr("a dilation of more than 31 bits"));
  EXPECT_THAT(declined_with([](auto& d) { d.dilation[0] = 9; }), HasSubstr("the result's size does not fit"));
  EXPECT_THAT(declined_with([](auto& d) { d.stride[0] = 1; }), HasSubstr("the result's size does not fit"));
}

TEST(Convolution, DimensionsOfOneElementHaveTheStrideOfADenseOne) {
  auto desc =
      describe(CRUCIBLE_LIB_CONV2D, view({1, 4, 9, 7}, {0, 63, 7, 1}), kWeight, view({1, 6, 5, 6}, {7, 30, 6, 1}));
  EXPECT_EQ(read_convolution(&desc).x.strides, (std::array<std::int64_t, 4>{252, 63, 7, 1}));
  EXPECT_EQ(read_convolution(&desc).y.strides, (std::array<std::int64_t, 4>{180, 30, 6, 1}));
}

TEST(Convolution, DenseLayouts) {
  using Strides = std::array<std::int64_t, 4>;
  EXPECT_EQ(dense_strides({2, 4, 9, 7}, DenseLayout::kChannelsFirst), (Strides{252, 63, 7, 1}));
  EXPECT_EQ(dense_strides({2, 4, 9, 7}, DenseLayout::kChannelsLast), (Strides{252, 1, 28, 4}));
  Convolution c = read_convolution(&kForward);
  EXPECT_EQ(dense_layout(c), DenseLayout::kChannelsFirst);
  for (ConvolutionTensor* const tensor : {&c.x, &c.weight, &c.y}) {
    tensor->strides = dense_strides(tensor->sizes, DenseLayout::kChannelsLast);
    EXPECT_EQ(dense_layout(c), tensor == &c.y ? DenseLayout::kChannelsLast : DenseLayout::kNone);
  }
  c.x.strides[0] += 4;
  EXPECT_EQ(dense_layout(c), DenseLayout::kNone);
  // A window of one element lies in both: it goes with the others.
  c.x.strides[0] -= 4;
  c.weight.sizes = {6, 2, 1, 1};
  c.weight.strides = {2, 1, 1, 1};
  EXPECT_EQ(dense_layout(c), DenseLayout::kChannelsLast);
}

}  // namespace
}  // namespace crucible::sdk
