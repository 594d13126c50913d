// Batch norm, RMS norm and sampling under names that only a device's build of the framework uses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "frontends/aten/testing/vendor_case.hpp"

namespace crucible::aten {
namespace {

const Shape kImage{2, 3, 2, 2}, kRow{3};

Case native(bool training) {
  Case test{
      "aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
      "bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
      {kImage, kRow, kRow, kRow, kRow},
      [=](const Ids& in) {
        return Args{t(in[0]),       t(in[1]),       t(in[2]), t(in[3]), t(in[4]), B::boolean(training),
                    B::number(0.1), B::number(1e-5)};
      },
      {kImage, kRow, kRow}};
  if (training) test.states = {3, 4};
  return test;
}

TEST(Vendors, BatchNormsAreOneProgram) {
  for (const bool training : {true, false}) {
    const Case plain = native(training);
    const std::string wanted = program_of(plain);
    Case cudnn =
        with_schema(plain,
                    "aten::cudnn_batch_norm(Tensor input, Tensor weight, Tensor? bias, Tensor? running_mean, Tensor? "
                    "running_var, bool training, float exponential_average_factor, float epsilon) -> (Tensor, "
                    "Tensor, Tensor, Tensor)",
                    plain.arguments);
    cudnn.ignored = {{16}};
    EXPECT_EQ(program_of(cudnn), wanted);
    const Case miopen =
        with_schema(plain,
                    "aten::miopen_batch_norm(Tensor input, Tensor weight, Tensor? bias, Tensor? running_mean, "
                    "Tensor? running_var, bool training, float exponential_average_factor, float epsilon) -> "
                    "(Tensor, Tensor, Tensor)",
                    plain.arguments);
    EXPECT_EQ(program_of(miopen), wanted);
  }
}

Case native_gradient() {
  return {
      "aten::native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, Tensor? "
      "running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask) -> (Tensor, "
      "Tensor, Tensor)",
      {kImage, kImage, kRow, kRow, kRow},
      [](const Ids& in) {
        const auto yes = B::list({B::boolean(true), B::boolean(true), B::boolean(true)});
        return Args{t(in[0]), t(in[1]), t(in[2]),         B::none(),       B::none(),
                    t(in[3]), t(in[4]), B::boolean(true), B::number(1e-5), yes};
      },
      {kImage, kRow, kRow}};
}

TEST(Vendors, BatchNormGradientsAreOneProgram) {
  const Case plain = native_gradient();
  const std::string wanted = program_of(plain);
  const auto arguments = [](bool reserve) {
    return [=](const Ids& in) {
      Args result{t(in[1]), t(in[0]), t(in[2]), B::none(), B::none(), t(in[3]), t(in[4]), B::number(1e-5)};
      if (reserve) result.push_back(t(in[2]));
      return result;
    };
  };
  const std::string rest =
      "(Tensor input, Tensor grad_output, Tensor weight, Tensor? running_mean, Tensor? running_var, "
      "Tensor? save_mean, Tensor? save_var, float epsilon";
  const std::string results = ") -> (Tensor, Tensor, Tensor)";
  EXPECT_EQ(program_of(with_schema(plain, "aten::miopen_batch_norm_backward" + rest + results, arguments(false))),
            wanted);
  EXPECT_EQ(program_of(with_schema(plain, "aten::cudnn_batch_norm_backward" + rest + ", Tensor reserveSpace" + results,
                                   arguments(true))),
            wanted);
}

TEST(Vendors, ThePiecesOfSynchronisedBatchNormGiveTheSameNumbers) {
  const auto whole = numbers_of(native(true));
  const Case stats{"aten::batch_norm_stats(Tensor input, float eps) -> (Tensor, Tensor)",
                   {kImage},
                   [](const Ids& in) { return Args{t(in[0]), B::number(1e-5)}; },
                   {kRow, kRow}};
  const auto pieces = numbers_of(stats);
  expect_near(pieces.at("result 0"), whole.at("result 1"));
  expect_near(pieces.at("result 1"), whole.at("result 2"));

  // Statistics of two batches, the second three times as large: against sums written out here.
  Case gather{
      "aten::batch_norm_gather_stats_with_counts(Tensor input, Tensor mean, Tensor invstd, Tensor? running_mean, "
      "Tensor? running_var, float momentum, float eps, Tensor counts) -> (Tensor, Tensor)",
      {kImage, {2, 3}, {2, 3}, kRow, kRow, {2}},
      [](const Ids& in) {
        return Args{t(in[0]), t(in[1]), t(in[2]), t(in[3]), t(in[4]), B::number(0.1), B::number(1e-5), t(in[5])};
      },
      {kRow, kRow}};
  gather.states = {3, 4};
  const auto joined = numbers_of(gather);
  std::vector<float> mean(3), scale(3), running_mean(3), running_var(3);
  for (std::size_t c = 0; c < 3; ++c) {
    double n = 0, average = 0, squares = 0;
    for (std::size_t j = 0; j < 2; ++j) {
      const double count = static_cast<double>(content_of(5, j)), m = static_cast<double>(content_of(1, 3 * j + c));
      const double deviation = 1 / static_cast<double>(content_of(2, 3 * j + c));
      const double factor = 1 / (n + count);
      squares += (deviation * deviation - 1e-5) * count + (average - m) * (average - m) * n * count * factor;
      average = n * factor * average + count * factor * m;
      n += count;
    }
    mean[c] = static_cast<float>(average);
    scale[c] = static_cast<float>(1 / std::sqrt(squares / n + 1e-5));
    running_mean[c] = static_cast<float>(0.9 * static_cast<double>(content_of(3, c)) + 0.1 * average);
    running_var[c] = static_cast<float>(0.9 * static_cast<double>(content_of(4, c)) + 0.1 * squares / (n - 1));
  }
  const auto close = [](const std::vector<float>& a, const std::vector<float>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 2e-5f * std::max(1.0f, std::fabs(b[i])));
  };
  close(joined.at("result 0"), mean);
  close(joined.at("result 1"), scale);
  close(joined.at("input 3"), running_mean);
  close(joined.at("input 4"), running_var);
  const Case equal = [&] {
    Case test = with_schema(
        gather,
        "aten::batch_norm_gather_stats(Tensor input, Tensor mean, Tensor invstd, Tensor? running_mean, "
        "Tensor? running_var, float momentum, float eps, int count) -> (Tensor, Tensor)",
        [](const Ids& in) {
          return Args{t(in[0]), t(in[1]), t(in[2]), t(in[3]), t(in[4]), B::number(0.1), B::number(1e-5), B::integer(8)};
        });
    return test;
  }();
  const auto averaged = numbers_of(equal).at("result 0");
  for (std::size_t c = 0; c < 3; ++c) EXPECT_NEAR(averaged[c], (content_of(1, c) + content_of(1, 3 + c)) / 2, 1e-6);
}

TEST(Vendors, TheElementwisePiecesOfSynchronisedBatchNorm) {
  const Case elements{
      "aten::batch_norm_elemt(Tensor input, Tensor? weight, Tensor? bias, Tensor mean, Tensor invstd, float "
      "eps) -> Tensor",
      {kImage, kRow, kRow, kRow, kRow},
      [](const Ids& in) { return Args{t(in[0]), t(in[1]), t(in[2]), t(in[3]), t(in[4]), B::number(1e-5)}; },
      {kImage}};
  std::vector<float> wanted;
  for (std::size_t k = 0; k < 24; ++k) {
    const std::size_t c = k / 4 % 3;
    wanted.push_back((content_of(0, k) - content_of(3, c)) * content_of(4, c) * content_of(1, c) + content_of(2, c));
  }
  expect_near(numbers_of(elements).at("result 0"), wanted);

  // Both halves of the gradient, of one batch, are the whole gradient.
  const auto whole = numbers_of(native_gradient());
  const Case reduce{
      "aten::batch_norm_backward_reduce(Tensor grad_out, Tensor input, Tensor mean, Tensor invstd, Tensor? "
      "weight, bool input_g, bool weight_g, bool bias_g) -> (Tensor, Tensor, Tensor, Tensor)",
      {kImage, kImage, kRow, kRow, kRow},
      [](const Ids& in) {
        return Args{t(in[0]), t(in[1]),         t(in[3]),         t(in[4]),
                    t(in[2]), B::boolean(true), B::boolean(true), B::boolean(true)};
      },
      {kRow, kRow, kRow, kRow}};
  const auto sums = numbers_of(reduce);
  expect_near(sums.at("result 2"), whole.at("result 1"));
  expect_near(sums.at("result 3"), whole.at("result 2"));
  const Case apply{
      "aten::batch_norm_backward_elemt(Tensor grad_out, Tensor input, Tensor mean, Tensor invstd, Tensor? weight, "
      "Tensor sum_dy, Tensor sum_dy_xmu, Tensor count) -> Tensor",
      {kImage, kImage, kRow, kRow, kRow, kRow, kRow, {1}},
      [](const Ids& in) {
        return Args{t(in[0]), t(in[1]), t(in[3]), t(in[4]), t(in[2]), t(in[5]), t(in[6]), t(in[7])};
      },
      {kImage}};
  std::vector<float> gradient;
  for (std::size_t k = 0; k < 24; ++k) {
    const std::size_t c = k / 4 % 3;
    const float count = content_of(7, 0), scale = content_of(4, c);
    const float slope = content_of(6, c) / count * scale * scale;
    const float rest = content_of(0, k) - content_of(5, c) / count - (content_of(1, k) - content_of(3, c)) * slope;
    gradient.push_back(rest * scale * content_of(2, c));
  }
  const auto result = numbers_of(apply).at("result 0");
  ASSERT_EQ(result.size(), gradient.size());
  for (std::size_t k = 0; k < 24; ++k)
    EXPECT_NEAR(result[k], gradient[k], 2e-5f * std::max(1.0f, std::fabs(gradient[k])));
}

TEST(Vendors, RootMeanSquareNormAndItsGradient) {
  const Case forward{
      "aten::_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)",
      {{2, 4}, {4}},
      [](const Ids& in) { return Args{t(in[0]), list({4}), t(in[1]), B::number(0.5)}; },
      {{2, 4}, {2, 1}}};
  std::vector<float> wanted, scales;
  for (std::size_t r = 0; r < 2; ++r) {
    double squares = 0;
    for (std::size_t k = 0; k < 4; ++k) squares += std::pow(static_cast<double>(content_of(0, 4 * r + k)), 2);
    scales.push_back(static_cast<float>(1 / std::sqrt(squares / 4 + 0.5)));
    for (std::size_t k = 0; k < 4; ++k) wanted.push_back(content_of(0, 4 * r + k) * scales[r] * content_of(1, k));
  }
  const auto result = numbers_of(forward);
  expect_near(result.at("result 0"), wanted);
  expect_near(result.at("result 1"), scales);

  // The gradient with a given scale, written out.
  const Case backward{
      "aten::_fused_rms_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor rstd, Tensor? "
      "weight, bool[2] output_mask) -> (Tensor, Tensor)",
      {{2, 4}, {2, 4}, {2, 1}, {4}},
      [](const Ids& in) {
        const auto yes = B::list({B::boolean(true), B::boolean(true)});
        return Args{t(in[0]), t(in[1]), list({4}), t(in[2]), t(in[3]), yes};
      },
      {{2, 4}, {4}}};
  std::vector<float> gx, gw(4, 0);
  for (std::size_t r = 0; r < 2; ++r) {
    const float s = content_of(2, r);
    float mean = 0;
    for (std::size_t k = 0; k < 4; ++k)
      mean += content_of(0, 4 * r + k) * content_of(3, k) * content_of(1, 4 * r + k) * s / 4;
    for (std::size_t k = 0; k < 4; ++k) {
      const float h = content_of(1, 4 * r + k) * s, g = content_of(0, 4 * r + k);
      gx.push_back((g * content_of(3, k) - h * mean) * s);
      gw[k] += g * h;
    }
  }
  const auto gradients = numbers_of(backward);
  expect_near(gradients.at("result 0"), gx);
  expect_near(gradients.at("result 1"), gw);
}

TEST(Vendors, GridSamplingAndAffineGrids) {
  const Case plain{"aten::grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool "
                   "align_corners) -> Tensor",
                   {{1, 2, 3, 4}, {1, 2, 2, 2}},
                   [](const Ids& in) {
                     return Args{t(in[0]), t(in[1]), B::integer(0), B::integer(0), B::boolean(true)};
                   },
                   {{1, 2, 2, 2}}};
  const auto cudnn = with_schema(plain, "aten::cudnn_grid_sampler(Tensor self, Tensor grid) -> Tensor output",
                                 [](const Ids& in) { return Args{t(in[0]), t(in[1])}; });
  EXPECT_EQ(program_of(cudnn), program_of(plain));
  const Case gradient{
      "aten::grid_sampler_2d_backward(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, int "
      "padding_mode, bool align_corners, bool[2] output_mask) -> (Tensor, Tensor)",
      {{1, 2, 3, 4}, {1, 2, 2, 2}, {1, 2, 2, 2}},
      [](const Ids& in) {
        const auto yes = B::list({B::boolean(true), B::boolean(true)});
        return Args{t(in[2]), t(in[0]), t(in[1]), B::integer(0), B::integer(0), B::boolean(true), yes};
      },
      {{1, 2, 3, 4}, {1, 2, 2, 2}}};
  const auto cudnn_gradient = with_schema(
      gradient,
      "aten::cudnn_grid_sampler_backward(Tensor self, Tensor grid, Tensor grad_output) -> (Tensor grad_self, "
      "Tensor grad_grid)",
      [](const Ids& in) { return Args{t(in[0]), t(in[1]), t(in[2])}; });
  EXPECT_EQ(program_of(cudnn_gradient), program_of(gradient));
  const Case affine{"aten::affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor",
                    {{2, 2, 3}},
                    [](const Ids& in) { return Args{t(in[0]), list({2, 1, 3, 4}), B::boolean(true)}; },
                    {{2, 3, 4, 2}}};
  const auto cudnn_affine = with_schema(
      affine, "aten::cudnn_affine_grid_generator(Tensor theta, int N, int C, int H, int W) -> Tensor grid",
      [](const Ids& in) { return Args{t(in[0]), B::integer(2), B::integer(1), B::integer(3), B::integer(4)}; });
  EXPECT_EQ(program_of(cudnn_affine), program_of(affine));
}

}  // namespace
}  // namespace crucible::aten
