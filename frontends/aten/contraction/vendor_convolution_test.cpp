// Convolutions under names that only a device's build of the framework uses: each must become the program of the
// flavour that tests/aten compares with the framework.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "frontends/aten/testing/vendor_case.hpp"

namespace crucible::aten {
namespace {

TEST(Vendors, ConvolutionsAreOneProgram) {
  const Shape stride{2, 1}, padding{1, 0}, dilation{1, 2};
  const Case plain{
      "aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] "
      "dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
      {{2, 4, 7, 8}, {6, 2, 3, 2}, {6}},
      [&](const Ids& in) {
        return Args{t(in[0]),       t(in[1]),          t(in[2]),     list(stride), list(padding),
                    list(dilation), B::boolean(false), list({0, 0}), B::integer(2)};
      },
      {{2, 6, 4, 6}}};
  const std::string wanted = program_of(plain);
  EXPECT_THAT(wanted, testing::HasSubstr("conv2d"));
  const auto overrideable =
      with_schema(plain, "aten::convolution_overrideable" + plain.schema.substr(17), plain.arguments);
  EXPECT_EQ(program_of(overrideable), wanted);
  const auto miopen = with_schema(
      plain,
      "aten::miopen_convolution(Tensor self, Tensor weight, Tensor? bias, SymInt[] padding, SymInt[] stride, SymInt[] "
      "dilation, SymInt groups, bool benchmark, bool deterministic) -> Tensor",
      [&](const Ids& in) {
        return Args{t(in[0]),       t(in[1]),      t(in[2]),          list(padding),    list(stride),
                    list(dilation), B::integer(2), B::boolean(false), B::boolean(false)};
      });
  EXPECT_EQ(program_of(miopen), wanted);
  const auto depthwise = with_schema(miopen, "aten::miopen_depthwise_convolution" + miopen.schema.substr(24),
                                     miopen.arguments);
  EXPECT_EQ(program_of(depthwise), wanted);

  const auto without_bias = with_schema(plain, plain.schema, [&](const Ids& in) {
    auto arguments = plain.arguments(in);
    arguments[2] = B::none();
    return arguments;
  });
  const auto cudnn = with_schema(
      plain,
      "aten::cudnn_convolution(Tensor self, Tensor weight, SymInt[] padding, SymInt[] stride, SymInt[] dilation, "
      "SymInt "
      "groups, bool benchmark, bool deterministic, bool allow_tf32) -> Tensor",
      [&](const Ids& in) {
        return Args{t(in[0]),      t(in[1]),          list(padding),     list(stride),     list(dilation),
                    B::integer(2), B::boolean(false), B::boolean(false), B::boolean(true)};
      });
  EXPECT_EQ(program_of(cudnn), program_of(without_bias));
}

TEST(Vendors, ConvolutionsWithReluAndSum) {
  const Case relu{
      "aten::cudnn_convolution_relu(Tensor self, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, "
      "SymInt[] dilation, SymInt groups) -> Tensor",
      {{1, 1, 1, 3}, {1, 1, 1, 1}, {1}, {1, 1, 1, 3}},
      [](const Ids& in) {
        return Args{t(in[0]), t(in[1]), t(in[2]), list({1, 1}), list({0, 0}), list({1, 1}), B::integer(1)};
      },
      {{1, 1, 1, 3}}};
  const auto added = with_schema(relu,
                                 "aten::cudnn_convolution_add_relu(Tensor self, Tensor weight, Tensor z, Scalar? "
                                 "alpha, Tensor? bias, SymInt[] stride, "
                                 "SymInt[] padding, SymInt[] dilation, SymInt groups) -> Tensor",
                                 [](const Ids& in) {
                                   return Args{t(in[0]),     t(in[1]),     t(in[3]),     B::number(-2), t(in[2]),
                                               list({1, 1}), list({0, 0}), list({1, 1}), B::integer(1)};
                                 });
  std::vector<float> one, other;
  for (std::size_t k = 0; k < 3; ++k) {
    const float y = content_of(0, k) * content_of(1, 0) + content_of(2, 0);
    one.push_back(std::max(y, 0.0f));
    other.push_back(std::max(y - 2 * content_of(3, k), 0.0f));
  }
  expect_near(numbers_of(relu)["result 0"], one);
  expect_near(numbers_of(added)["result 0"], other);
  const auto miopen = with_schema(relu, "aten::miopen_convolution_relu" + relu.schema.substr(28), relu.arguments);
  EXPECT_EQ(program_of(miopen), program_of(relu));
  const auto miopen_added =
      with_schema(added, "aten::miopen_convolution_add_relu" + added.schema.substr(32), added.arguments);
  EXPECT_EQ(program_of(miopen_added), program_of(added));
}

TEST(Vendors, TransposedAndDepthwiseConvolutions) {
  const Case plain{
      "aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] "
      "dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
      {{2, 4, 5, 4}, {4, 3, 3, 2}},
      [](const Ids& in) {
        return Args{t(in[0]),     t(in[1]),         B::none(),    list({2, 3}), list({1, 0}),
                    list({1, 1}), B::boolean(true), list({1, 2}), B::integer(1)};
      },
      {{2, 3, 10, 13}}};
  const auto cudnn = with_schema(
      plain,
      "aten::cudnn_convolution_transpose(Tensor self, Tensor weight, SymInt[] padding, SymInt[] output_padding, "
      "SymInt[] "
      "stride, SymInt[] dilation, SymInt groups, bool benchmark, bool deterministic, bool allow_tf32) -> Tensor",
      [](const Ids& in) {
        return Args{t(in[0]),     t(in[1]),      list({1, 0}),      list({1, 2}),      list({2, 3}),
                    list({1, 1}), B::integer(1), B::boolean(false), B::boolean(false), B::boolean(true)};
      });
  EXPECT_EQ(program_of(cudnn), program_of(plain));
  const auto miopen = with_schema(
      plain,
      "aten::miopen_convolution_transpose(Tensor self, Tensor weight, Tensor? bias, SymInt[] padding, SymInt[] "
      "output_padding, SymInt[] stride, SymInt[] dilation, SymInt groups, bool benchmark, bool deterministic) -> "
      "Tensor",
      [](const Ids& in) {
        return Args{t(in[0]),     t(in[1]),     B::none(),     list({1, 0}),      list({1, 2}),
                    list({2, 3}), list({1, 1}), B::integer(1), B::boolean(false), B::boolean(false)};
      });
  EXPECT_EQ(program_of(miopen), program_of(plain));

  const auto grouped = [](Shape x, Shape w, Shape y, std::int64_t groups, std::size_t sides) {
    return Case{
        "aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] "
        "dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
        {std::move(x), std::move(w)},
        [=](const Ids& in) {
          const Shape ones(sides, 1), zeros(sides, 0);
          return Args{t(in[0]),   t(in[1]),          B::none(),   list(ones),        list(zeros),
                      list(ones), B::boolean(false), list(zeros), B::integer(groups)};
        },
        {std::move(y)}};
  };
  const auto arguments = [](std::size_t sides) {
    return [=](const Ids& in) {
      const Shape ones(sides, 1), zeros(sides, 0), twos(sides, 2);
      return Args{t(in[0]), t(in[1]), list(twos), B::none(), list(ones), list(zeros), list(ones)};
    };
  };
  const auto flat = grouped({1, 3, 4, 4}, {3, 1, 2, 2}, {1, 3, 3, 3}, 3, 2);
  const auto deep = grouped({1, 3, 4, 4, 3}, {3, 1, 2, 2, 2}, {1, 3, 3, 3, 2}, 3, 3);
  EXPECT_EQ(program_of(with_schema(flat,
                                   "aten::_conv_depthwise2d(Tensor self, Tensor weight, SymInt[2] kernel_size, Tensor? "
                                   "bias, SymInt[2] stride, SymInt[2] padding, SymInt[2] dilation) -> Tensor",
                                   arguments(2))),
            program_of(flat));
  EXPECT_EQ(program_of(with_schema(deep,
                                   "aten::conv_depthwise3d(Tensor self, Tensor weight, SymInt[3] kernel_size, Tensor? "
                                   "bias, SymInt[3] stride, SymInt[3] padding, SymInt[3] dilation) -> Tensor",
                                   arguments(3))),
            program_of(deep));
}

TEST(Vendors, ConvolutionGradients) {
  const Case plain{
      "aten::convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] "
      "stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, "
      "bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
      {{1, 2, 3, 3}, {1, 2, 4, 4}, {2, 2, 2, 2}},
      [](const Ids& in) {
        const auto yes = B::list({B::boolean(true), B::boolean(true), B::boolean(true)});
        return Args{t(in[0]),     t(in[1]),          t(in[2]),     list({2}),     list({1, 1}), list({0, 0}),
                    list({1, 1}), B::boolean(false), list({0, 0}), B::integer(1), yes};
      },
      {{1, 2, 4, 4}, {2, 2, 2, 2}, {2}}};
  const auto overrideable = with_schema(plain,
                                        "aten::convolution_backward_overrideable(Tensor grad_output, Tensor input, "
                                        "Tensor weight, SymInt[] stride, SymInt[] "
                                        "padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt "
                                        "groups, bool[3] output_mask) -> (Tensor "
                                        "grad_input, Tensor grad_weight, Tensor grad_bias)",
                                        [&](const Ids& in) {
                                          auto arguments = plain.arguments(in);
                                          arguments.erase(arguments.begin() + 3);
                                          return arguments;
                                        });
  EXPECT_EQ(program_of(overrideable), program_of(plain));
}

/// torch 1 recorded gradients of im2col and col2im under names of their own.
TEST(Vendors, GradientsOfColumnsAreColumns) {
  const Shape image{1, 2, 4, 4}, columns{1, 8, 9}, two{2, 2}, one{1, 1}, none{0, 0};
  const Case to_image{
      "aten::col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] "
      "stride) -> Tensor",
      {columns},
      [=](const Ids& in) { return Args{t(in[0]), list({4, 4}), list(two), list(one), list(none), list(one)}; },
      {image}};
  const Case to_columns{
      "aten::im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor",
      {image},
      [=](const Ids& in) { return Args{t(in[0]), list(two), list(one), list(none), list(one)}; },
      {columns}};
  EXPECT_EQ(program_of(with_schema(
                to_image,
                "aten::im2col_backward(Tensor grad_output, int[2] input_size, int[2] kernel_size, int[2] dilation, "
                "int[2] padding, int[2] stride) -> Tensor",
                to_image.arguments)),
            program_of(to_image));
  EXPECT_EQ(program_of(with_schema(
                to_columns,
                "aten::col2im_backward(Tensor grad_output, int[2] kernel_size, int[2] dilation, int[2] padding, "
                "int[2] stride) -> Tensor",
                to_columns.arguments)),
            program_of(to_columns));
}

}  // namespace
}  // namespace crucible::aten
