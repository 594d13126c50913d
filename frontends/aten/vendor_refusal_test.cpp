// What the lowerings of image ops, norms and attention refuse, and what they say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontends/aten/lower.hpp"
#include "frontends/aten/testing/vendor_case.hpp"

namespace crucible::aten {
namespace {

using testing::HasSubstr;

constexpr const char* kFlash =
    "aten::_flash_attention_forward(Tensor query, Tensor key, Tensor value, Tensor? cum_seq_q, Tensor? cum_seq_k, "
    "SymInt max_q, "
    "SymInt max_k, float dropout_p, bool is_causal, bool return_debug_mask, *, float? scale=None, SymInt? "
    "window_size_left=None, "
    "SymInt? window_size_right=None, Tensor? seqused_k=None, Tensor? alibi_slopes=None, Tensor? block_table=None, "
    "SymInt? "
    "num_splits=None) -> (Tensor output, Tensor softmax_logsumexp, Tensor rng_state, Tensor unused, Tensor "
    "debug_attn_mask)";

/// Flash attention in which argument `index` is something else.
Case flash_with(std::size_t index, std::function<trace::Arg(const Ids&)> other, Shape key = {1, 3, 2, 4}) {
  return {kFlash,
          {{1, 3, 2, 4}, std::move(key), {2}},
          [=](const Ids& in) {
            Args arguments{t(in[0]),      t(in[1]),     t(in[1]),          B::none(),         B::none(), B::integer(3),
                           B::integer(3), B::number(0), B::boolean(false), B::boolean(false), B::none(), B::none(),
                           B::none(),     B::none(),    B::none(),         B::none(),         B::none()};
            arguments[index] = other(in);
            return arguments;
          },
          {{1, 3, 2, 4}, {1, 2, 3}}};
}

TEST(Refusals, Attention) {
  const auto second = [](const Ids& in) { return t(in[2]); };
  EXPECT_THAT(refusal_of(flash_with(7, [](const Ids&) { return B::number(0.1); })),
              HasSubstr("attention with dropout"));
  EXPECT_THAT(refusal_of(flash_with(13, second)), HasSubstr("attention with seqused_k"));
  EXPECT_THAT(refusal_of(flash_with(14, second)), HasSubstr("attention with alibi_slopes"));
  EXPECT_THAT(refusal_of(flash_with(15, second)), HasSubstr("attention with block_table"));
  EXPECT_THAT(refusal_of(flash_with(3, second)), HasSubstr("sequences of different lengths"));
  const auto nothing = [](const Ids&) { return B::none(); };
  EXPECT_THAT(refusal_of(flash_with(10, nothing, {1, 3, 3, 4})),
              HasSubstr("the heads of query, key and value do not fit"));
  const Case windowed{
      "aten::_efficient_attention_forward(Tensor query, Tensor key, Tensor value, Tensor? bias, Tensor? cu_seqlens_q, "
      "Tensor? "
      "cu_seqlens_k, SymInt? max_seqlen_q, SymInt? max_seqlen_k, float dropout_p, int custom_mask_type, bool "
      "compute_log_sumexp=False, *, float? scale=None, Tensor? seqlen_k=None, int? window_size=None) -> (Tensor "
      "output, Tensor "
      "logsumexp, Tensor philox_seed, Tensor philox_offset, SymInt max_seqlen_batch_q, SymInt max_seqlen_batch_k)",
      {{1, 3, 2, 4}},
      [](const Ids& in) {
        return Args{t(in[0]),  t(in[0]),     t(in[0]),      B::none(),         B::none(), B::none(), B::none(),
                    B::none(), B::number(0), B::integer(1), B::boolean(true), B::none(), B::none(), B::integer(2)};
      },
      {{1, 3, 2, 4}, {1, 2, 3}}};
  EXPECT_THAT(refusal_of(windowed), HasSubstr("attention with a window"));
  const auto
      composed =
          [](Shape query, bool dropped) {
            return Case{
                "aten::_scaled_dot_product_attention_math(Tensor query, Tensor key, Tensor value, Tensor? "
                "attn_mask=None, float "
                "dropout_p=0., bool is_causal=False, Tensor? dropout_mask=None, *, float? scale=None, bool "
                "enable_gqa=False) -> "
                "(Tensor, Tensor)",
                {query},
                [=](const Ids& in) {
                  return Args{t(in[0]),          t(in[0]),  t(in[0]), B::none(), B::number(0), B::boolean(false),
                              dropped ? t(in[0]) : B::none(), B::none(), B::boolean(false)};
                },
                {query}};
          };
  EXPECT_THAT(refusal_of(composed({3, 4}, false)), HasSubstr("needs 4 dimensions"));
  EXPECT_THAT(refusal_of(composed({1, 1, 3, 4}, true)), HasSubstr("a mask of its caller for dropout"));
}

TEST(Refusals, Convolutions) {
  const auto over = [](Shape x, Shape w, Shape stride) {
    return Case{
        "aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] "
        "dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
        {x, std::move(w)},
        [=](const Ids& in) {
          return Args{t(in[0]),  t(in[1]),          B::none(), list(stride), list({0}),
                      list({1}), B::boolean(false), list({0}), B::integer(1)};
        },
        {x}};
  };
  EXPECT_THAT(refusal_of(over({1, 1, 2, 2, 2, 2}, {1, 1, 1, 1, 1, 1}, {1})), HasSubstr("over 4 dimensions"));
  EXPECT_THAT(refusal_of(over({1, 1, 2, 2}, {1, 1, 1, 1}, {1, 1, 1})),
              HasSubstr("argument stride has 3 entries for 2 sides"));
}

TEST(Refusals, IntegersAndMissingStatistics) {
  const auto integers = [](std::string schema, Args rest) {
    Case test{std::move(schema), {{1, 1, 2, 2}}, [=](const Ids& in) {
                Args arguments{t(in[0])};
                arguments.insert(arguments.end(), rest.begin(), rest.end());
                return arguments;
              }, {{1, 1, 2, 2}}};
    test.integers = true;
    return test;
  };
  for (const std::string name : {"upsample_bilinear2d", "_upsample_bilinear2d_aa"}) {
    EXPECT_THAT(refusal_of(integers("aten::" + name + "(Tensor self, SymInt[2] output_size, bool align_corners, float? "
                                    "scales_h=None, float? scales_w=None) -> Tensor",
                                    {list({2, 2}), B::boolean(false), B::none(), B::none()})),
                HasSubstr("resampling integers"));
  }
  const Case norm{
      "aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
      "bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
      {{2, 3}},
      [](const Ids& in) {
        return Args{t(in[0]),  B::none(),         B::none(),      B::none(),
                    B::none(), B::boolean(false), B::number(0.1), B::number(1e-5)};
      },
      {{2, 3}}};
  EXPECT_THAT(refusal_of(norm), HasSubstr("without statistics"));
}

}  // namespace
}  // namespace crucible::aten
