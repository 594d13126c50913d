// Products, losses and grids that only a device's build of the framework has, against what they mean in f64 or against
// the op of the processor that means the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "frontends/aten/testing/lowered_trace.hpp"
#include "frontends/aten/testing/vendor_case.hpp"

namespace crucible::aten {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

constexpr std::uint16_t kOne = 0x3C00, kSmall = 0x1400;  // 1 and 1/1024 in f16

trace::TensorId half_tensor(TraceBuilder& b, const Shape& sizes, const std::vector<std::uint16_t>& content) {
  const auto id = b.fresh(sizes, DType::kF16);
  b.external_bytes(b.storage_of(id), std::as_bytes(std::span(content)), trace::Role::kInput, "half");
  return id;
}

/// The sum of 1 and 1/1048576 has no f16: what comes out shows where it was rounded.
TEST(Vendors, ProductsOfHalvesInF32) {
  constexpr float kExact = 1 + 0x1p-20F;
  for (const bool is_batch : {false, true}) {
    for (const bool is_added : {false, true}) {
      SCOPED_TRACE(testing::Message() << "batch " << is_batch << " added " << is_added);
      TraceBuilder b;
      const Shape row = is_batch ? Shape{1, 1, 2} : Shape{1, 2}, column = is_batch ? Shape{1, 2, 1} : Shape{2, 1},
                  one = is_batch ? Shape{1, 1, 1} : Shape{1, 1};
      const auto left = half_tensor(b, row, {kOne, kSmall}), right = half_tensor(b, column, {kOne, kSmall});
      const auto state = b.fresh(one), out = b.fresh(one);
      b.external(b.storage_of(state), {0.5F}, trace::Role::kParameter, "state");
      b.final_state(b.storage_of(state), {0}, "state");
      const std::string packet = is_batch ? is_added ? "baddbmm" : "bmm" : is_added ? "addmm" : "mm";
      const std::string names = is_batch ? "Tensor batch1, Tensor batch2" : "Tensor mat1, Tensor mat2";
      if (is_added) {
        b.op("aten::" + packet + ".dtype(Tensor self, " + names +
                 ", ScalarType out_dtype, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
             {B::tensor(state), B::tensor(left), B::tensor(right), B::integer(6), B::number(2), B::number(3)},
             {B::tensor(out)});
      } else {
        b.op("aten::" + packet + ".dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor",
             {B::tensor(left), B::tensor(right), B::integer(6)}, {B::tensor(out)});
      }
      b.op(kCopyInPlace, {B::tensor(state), B::tensor(out), B::boolean(false)}, {B::tensor(state)});
      b.end_iteration();
      EXPECT_THAT(final_state(b, lowered(b)), ElementsAre(is_added ? 2 * 0.5F + 3 * kExact : kExact));
    }
  }
}

/// On devices the activation is the approximation by tanh, on the processor the function itself.
TEST(Vendors, AnActivationBehindAProductIsTheDevices) {
  for (const std::string device : {"cpu", "cuda:0"}) {
    TraceBuilder b;
    const auto x = b.fresh({1, 1}), y = b.fresh({1, 1}), out = b.fresh({1, 1});
    b.external(b.storage_of(x), {0}, trace::Role::kParameter, "x");
    b.external(b.storage_of(y), {1}, trace::Role::kInput, "y");
    b.op(
        "aten::_addmm_activation(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, bool "
        "use_gelu=False) -> Tensor",
        {B::tensor(x), B::tensor(y), B::tensor(y), B::integer(1), B::integer(1), B::boolean(true)}, {B::tensor(out)});
    b.op(kCopyInPlace, {B::tensor(x), B::tensor(out), B::boolean(false)}, {B::tensor(x)});
    b.end_iteration();
    trace::Trace recorded = b.trace();
    for (trace::Storage& storage : recorded.storages) storage.device = device;
    const auto program = lower(recorded);
    ASSERT_TRUE(program) << program.error().message;
    const double exact = 0.5 * (1 + std::erf(std::sqrt(0.5)));
    const double curved = 0.5 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * 1.044715));
    const auto found = final_state(b, *program);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_NEAR(found[0], device == "cpu" ? exact : curved, 1e-7) << device;
    EXPECT_GT(std::abs(exact - curved), 1e-4);
  }
}

struct Loss {
  Floats loss, gradient;
};

constexpr std::int64_t kTimes = 6, kSamples = 3, kClasses = 5;

/// `pair`: the processor's two ops; else the one of this name. `as_tensors`: lengths are tensors.
Loss ctc(const std::string& name, bool as_tensors, bool pair) {
  TraceBuilder b;
  const auto scores = b.fresh({kTimes, kSamples, kClasses}), loss = b.fresh({kSamples});
  Floats content;
  for (std::int64_t row = 0; row < kTimes * kSamples; ++row) {
    std::array<double, kClasses> x{};
    double total = 0;
    for (std::int64_t k = 0; k < kClasses; ++k)
      total += std::exp(x[static_cast<std::size_t>(k)] = std::sin(static_cast<double>(row * 7 + k * 3)));
    for (const double number : x) content.push_back(static_cast<float>(number - std::log(total)));
  }
  b.external(b.storage_of(scores), content, trace::Role::kInput, "scores");
  const auto whole = [&](const std::vector<std::int64_t>& numbers) {
    const auto id = b.fresh({static_cast<std::int64_t>(numbers.size())}, DType::kI64);
    b.external_bytes(b.storage_of(id), std::as_bytes(std::span(numbers)), trace::Role::kInput, "numbers");
    return id;
  };
  const auto targets = whole({1, 1, 2, 3, 2, 4});
  const Shape inputs{6, 5, 6}, labels{3, 2, 1};
  const auto lengths = [&](const Shape& numbers) { return as_tensors ? t(whole(numbers)) : list(numbers); };
  const auto of_inputs = lengths(inputs), of_labels = lengths(labels);
  const std::string kind = as_tensors ? "Tensor input_lengths, Tensor target_lengths"
                                      : "int[] input_lengths, int[] "
                                        "target_lengths";
  const auto gradient = b.fresh({kTimes, kSamples, kClasses});
  if (pair) {
    const auto kept = b.fresh({kSamples, kTimes, 7}), ones = b.fresh({kSamples});
    b.external(b.storage_of(ones), {1, 1, 1}, trace::Role::kInput, "ones");
    b.op(
        "aten::_ctc_loss(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0, "
        "bool zero_infinity=False) -> (Tensor, Tensor)",
        {t(scores), t(targets), of_inputs, of_labels, B::integer(0), B::boolean(false)}, {t(loss), t(kept)});
    b.op(
        "aten::_ctc_loss_backward(Tensor grad, Tensor log_probs, Tensor targets, int[] input_lengths, int[] "
        "target_lengths, Tensor neg_log_likelihood, Tensor log_alpha, int blank, bool zero_infinity=False) -> Tensor",
        {t(ones), t(scores), t(targets), of_inputs, of_labels, t(loss), t(kept), B::integer(0), B::boolean(false)},
        {t(gradient)});
  } else {
    b.op("aten::" + name + "(Tensor log_probs, Tensor targets, " + kind +
             ", int blank, bool deterministic, bool zero_infinity) -> (Tensor, Tensor)",
         {t(scores), t(targets), of_inputs, of_labels, B::integer(0), B::boolean(true), B::boolean(false)},
         {t(loss), t(gradient)});
  }
  for (const auto& [result, count] : {std::pair{loss, kSamples}, {gradient, kTimes * kSamples * kClasses}}) {
    const auto state = b.fresh(b.tensor_of(result).sizes);
    b.external(b.storage_of(state), Floats(static_cast<std::size_t>(count), 9), trace::Role::kParameter, "s");
    b.final_state(b.storage_of(state), Floats(static_cast<std::size_t>(count), 0), "s");
    b.op(kCopyInPlace, {t(state), t(result), B::boolean(false)}, {t(state)});
  }
  b.end_iteration();
  const auto program = lowered(b);
  return {final_state(b, program, 0), final_state(b, program, 1)};
}

TEST(Vendors, LossesOfLibrariesOverAlignments) {
  const Loss wanted = ctc("", false, true);
  ASSERT_EQ(wanted.loss.size(), 3u);
  for (const std::string name :
       {"_cudnn_ctc_loss", "_cudnn_ctc_loss.Tensor", "miopen_ctc_loss", "miopen_ctc_loss.Tensor"}) {
    SCOPED_TRACE(name);
    const Loss found = ctc(name, name.ends_with(".Tensor"), false);
    EXPECT_THAT(found.loss, Pointwise(FloatNear(1e-6F), wanted.loss));
    EXPECT_THAT(found.gradient, Pointwise(FloatNear(1e-6F), wanted.gradient));
  }
}

/// Against sums in f64: each place of the picture times the gradient there.
TEST(Vendors, TheGradientOfAnAffineGrid) {
  const Case test{
      "aten::cudnn_affine_grid_generator_backward(Tensor grad, int N, int C, int H, int W) -> Tensor "
      "grad_theta",
      {{2, 3, 4, 2}},
      [](const Ids& in) {
        return Args{t(in[0]), B::integer(2), B::integer(1), B::integer(3), B::integer(4)};
      },
      {{2, 2, 3}}};
  std::vector<float> wanted;
  for (std::size_t n = 0; n < 2; ++n) {
    for (std::size_t side = 0; side < 2; ++side) {
      std::array<double, 3> sum{};
      for (std::size_t y = 0; y < 3; ++y) {
        for (std::size_t x = 0; x < 4; ++x) {
          const double g = content_of(0, ((n * 3 + y) * 4 + x) * 2 + side);
          sum[0] += g * (-1 + 2.0 * static_cast<double>(x) / 3);
          sum[1] += g * (-1 + static_cast<double>(y));
          sum[2] += g;
        }
      }
      for (const double number : sum) wanted.push_back(static_cast<float>(number));
    }
  }
  expect_near(numbers_of(test).at("result 0"), wanted);
}

}  // namespace
}  // namespace crucible::aten
