// Attention under the names of kernels that only a device's build of the framework has: the CPU flavour's program, or
// its numbers where a kernel keeps tensors in another layout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/graph/meaning.hpp"
#include "core/graph/reference_composite.hpp"
#include "frontends/aten/testing/vendor_case.hpp"

namespace crucible::aten {
namespace {

const Shape kQuery{2, 2, 3, 4}, kKey{2, 2, 5, 4}, kLog{2, 2, 3}, kMask{2, 2, 3, 5};

constexpr const char* kOutputs =
    "(Tensor output, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, Tensor a, "
    "Tensor b, "
    "Tensor debug_attn_mask)";

Case on_cpu(bool causal, bool masked) {
  Case test{
      "aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0., "
      "bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)",
      {kQuery, kKey, kKey},
      [=](const Ids& in) {
        return Args{t(in[0]),        t(in[1]),           t(in[2]),
                    B::number(0),    B::boolean(causal), masked ? t(in[3]) : B::none(),
                    B::number(0.375)};
      },
      {kQuery, kLog}};
  if (masked) test.inputs.push_back(kMask);
  return test;
}

Case on_cpu_backward(bool causal) {
  return {
      "aten::_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, Tensor key, Tensor "
      "value, "
      "Tensor out, Tensor logsumexp, float dropout_p, bool is_causal, *, Tensor? attn_mask=None, float? scale=None) -> "
      "(Tensor grad_query, Tensor grad_key, Tensor grad_value)",
      {kQuery, kKey, kKey, kQuery, kQuery, kLog},
      [=](const Ids& in) {
        return Args{t(in[3]), t(in[0]),     t(in[1]),           t(in[2]),  t(in[4]),
                    t(in[5]), B::number(0), B::boolean(causal), B::none(), B::number(0.375)};
      },
      {kQuery, kKey, kKey}};
}

TEST(Vendors, AttentionKernelsAreOneProgram) {
  for (const bool causal : {false, true}) {
    const std::string wanted = program_of(on_cpu(causal, false));
    const auto is_causal = B::boolean(causal);
    Case flash = with_schema(
        on_cpu(causal, false),
        std::string("aten::_scaled_dot_product_flash_attention(Tensor query, Tensor key, Tensor value, float "
                    "dropout_p=0., bool is_causal=False, bool return_debug_mask=False, *, float? scale=None) "
                    "-> ") +
            kOutputs,
        [=](const Ids& in) {
          return Args{t(in[0]), t(in[1]), t(in[2]), B::number(0), is_causal, B::boolean(false), B::number(0.375)};
        });
    flash.ignored = {{2}, {1}};
    EXPECT_EQ(program_of(flash), wanted);
    const Case composed = with_schema(
        on_cpu(causal, false),
        "aten::_scaled_dot_product_attention_math(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
        "float "
        "dropout_p=0., bool is_causal=False, Tensor? dropout_mask=None, *, float? scale=None, bool enable_gqa=False) "
        "-> (Tensor, "
        "Tensor)",
        [=](const Ids& in) {
          return Args{t(in[0]),  t(in[1]),  t(in[2]),  B::none(),       B::number(0),
                      is_causal, B::none(), B::number(0.375), B::boolean(false)};
        });
    Case probabilities = composed;
    probabilities.results = {kQuery, kMask};
    const auto numbers = numbers_of(probabilities);
    expect_near(numbers.at("result 0"), numbers_of(on_cpu(causal, false)).at("result 0"));
    for (std::size_t row = 0; row < 12; ++row) {
      float sum = 0;
      for (std::size_t k = 0; k < 5; ++k) sum += numbers.at("result 1")[5 * row + k];
      EXPECT_NEAR(sum, 1, 1e-6);
      if (causal) {  // 3 queries see at most 3 keys
        EXPECT_EQ(numbers.at("result 1")[5 * row + 4], 0);
      }
    }
    const auto mps =
        with_schema(probabilities,
                    "aten::_scaled_dot_product_attention_math_for_mps(Tensor query, Tensor key, Tensor value, "
                    "Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, Tensor? dropout_mask=None, "
                    "*, float? scale=None) -> (Tensor, Tensor)",
                    [=](const Ids& in) {
                      auto arguments = composed.arguments(in);
                      arguments.pop_back();
                      return arguments;
                    });
    EXPECT_EQ(program_of(mps), program_of(probabilities));
  }
}

TEST(Vendors, AttentionWithABiasIsOneProgram) {
  const Case plain = on_cpu(false, true);
  const std::string wanted = program_of(plain);
  const auto efficient = with_schema(
      plain,
      "aten::_scaled_dot_product_efficient_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool "
      "compute_log_sumexp, float dropout_p=0., bool is_causal=False, *, float? scale=None) -> (Tensor output, Tensor "
      "log_sumexp, Tensor philox_seed, Tensor philox_offset)",
      [](const Ids& in) {
        return Args{t(in[0]),         t(in[1]),     t(in[2]),          t(in[3]),
                    B::boolean(true), B::number(0), B::boolean(false), B::number(0.375)};
      });
  EXPECT_EQ(program_of(efficient), wanted);
  Case padded = efficient;
  padded.results[1] = {2, 2, 32};
  const auto kept = numbers_of(padded).at("result 1"), exact = numbers_of(plain).at("result 1");
  for (std::size_t row = 0; row < 4; ++row) {
    for (std::size_t k = 0; k < 32; ++k) {
      const float wanted_here = k < 3 ? exact[3 * row + k] : std::numeric_limits<float>::infinity();
      EXPECT_EQ(kept[32 * row + k], wanted_here);
    }
  }
  const auto with_debug = [&](const std::string& name) {
    return with_schema(
        plain,
        "aten::" + name +
            "(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool compute_log_sumexp, float "
            "dropout_p=0., bool is_causal=False, bool return_debug_mask=False, *, float? scale=None) -> " +
            kOutputs,
        [](const Ids& in) {
          return Args{t(in[0]),     t(in[1]),          t(in[2]),          t(in[3]),        B::boolean(true),
                      B::number(0), B::boolean(false), B::boolean(false), B::number(0.375)};
        });
  };
  EXPECT_EQ(program_of(with_debug("_scaled_dot_product_cudnn_attention")), wanted);
  Case column = with_debug("_scaled_dot_product_cudnn_attention");
  column.results[1] = {2, 2, 3, 1};
  EXPECT_EQ(numbers_of(column).at("result 1"), exact);
  const auto overrideable = with_schema(
      plain,
      std::string(
          "aten::_scaled_dot_product_fused_attention_overrideable(Tensor query, Tensor key, Tensor value, Tensor? "
          "attn_bias=None, float dropout_p=0., bool is_causal=False, bool return_debug_mask=False, *, float? "
          "scale=None) -> ") +
          kOutputs,
      [](const Ids& in) {
        return Args{t(in[0]),     t(in[1]),          t(in[2]),          t(in[3]),
                    B::number(0), B::boolean(false), B::boolean(false), B::number(0.375)};
      });
  EXPECT_EQ(program_of(overrideable), wanted);
  const auto cudnn = with_schema(
      plain,
      std::string("aten::_cudnn_attention_forward(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, Tensor? "
                  "cum_seq_q, "
                  "Tensor? cum_seq_k, SymInt max_q, SymInt max_k, bool compute_log_sumexp, float dropout_p=0., bool "
                  "is_causal=False, bool return_debug_mask=False, *, float? scale=None) -> ") +
          kOutputs,
      [](const Ids& in) {
        return Args{t(in[0]),          t(in[1]),          t(in[2]),        t(in[3]),         B::none(),
                    B::none(),         B::integer(3),     B::integer(5),   B::boolean(true), B::number(0),
                    B::boolean(false), B::boolean(false), B::number(0.375)};
      });
  EXPECT_EQ(program_of(cudnn), wanted);
}

TEST(Vendors, AttentionGradientsAreOneProgram) {
  for (const bool causal : {false, true}) {
    const Case plain = on_cpu_backward(causal);
    const std::string wanted = program_of(plain);
    const auto is_causal = B::boolean(causal);
    const auto flash =
        with_schema(plain,
                    "aten::_scaled_dot_product_flash_attention_backward(Tensor grad_out, Tensor query, Tensor key, "
                    "Tensor value, Tensor out, "
                    "Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, float "
                    "dropout_p, bool is_causal, "
                    "Tensor philox_seed, Tensor philox_offset, *, float? scale=None) -> (Tensor, Tensor, Tensor)",
                    [=](const Ids& in) {
                      return Args{t(in[3]),     t(in[0]),  t(in[1]),  t(in[2]),      t(in[4]),
                                  t(in[5]),     B::none(), B::none(), B::integer(3), B::integer(5),
                                  B::number(0), is_causal, B::none(), B::none(),     B::number(0.375)};
                    });
    EXPECT_EQ(program_of(flash), wanted);
    const auto mask = B::list({B::boolean(true), B::boolean(true), B::boolean(true), B::boolean(false)});
    const auto efficient = with_schema(
        plain,
        "aten::_scaled_dot_product_efficient_attention_backward(Tensor grad_out_, Tensor query, Tensor key, Tensor "
        "value, Tensor "
        "attn_bias, Tensor out, Tensor logsumexp, Tensor philox_seed, Tensor philox_offset, float dropout_p, bool[4] "
        "grad_input_mask, bool is_causal=False, *, float? scale=None) -> (Tensor, Tensor, Tensor, Tensor)",
        [=](const Ids& in) {
          return Args{t(in[3]),  t(in[0]),  t(in[1]),     t(in[2]), B::none(), t(in[4]),       t(in[5]),
                      B::none(), B::none(), B::number(0), mask,     is_causal, B::number(0.375)};
        });
    EXPECT_EQ(program_of(efficient), wanted);
    for (const std::string name : {"_scaled_dot_product_cudnn_attention_backward", "_cudnn_attention_backward"}) {
      const auto cudnn =
          with_schema(plain,
                      "aten::" + name +
                          "(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, Tensor logsumexp, "
                          "Tensor philox_seed, "
                          "Tensor philox_offset, Tensor attn_bias, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, "
                          "SymInt max_k, float "
                          "dropout_p, bool is_causal, *, float? scale=None) -> (Tensor, Tensor, Tensor)",
                      [=](const Ids& in) {
                        return Args{t(in[3]),      t(in[0]),     t(in[1]),  t(in[2]),        t(in[4]),  t(in[5]),
                                    B::none(),     B::none(),    B::none(), B::none(),       B::none(), B::integer(3),
                                    B::integer(5), B::number(0), is_causal, B::number(0.375)};
                      });
      EXPECT_EQ(program_of(cudnn), wanted);
    }
    const auto overrideable =
        with_schema(plain,
                    "aten::_scaled_dot_product_fused_attention_overrideable_backward(Tensor grad_out, Tensor query, "
                    "Tensor key, Tensor value, "
                    "Tensor attn_bias, bool[4] grad_input_mask, Tensor out, Tensor logsumexp, Tensor cum_seq_q, Tensor "
                    "cum_seq_k, SymInt "
                    "max_q, SymInt max_k, float dropout_p, bool is_causal, Tensor philox_seed, Tensor philox_offset, "
                    "*, float? scale=None) "
                    "-> (Tensor grad_query, Tensor grad_key, Tensor grad_value, Tensor grad_attn_bias)",
                    [=](const Ids& in) {
                      return Args{t(in[3]),     t(in[0]),  t(in[1]),  t(in[2]),  B::none(),       mask,
                                  t(in[4]),     t(in[5]),  B::none(), B::none(), B::integer(3),   B::integer(5),
                                  B::number(0), is_causal, B::none(), B::none(), B::number(0.375)};
                    });
    EXPECT_EQ(program_of(overrideable), wanted);
  }
}

/// The name, operands and results of the only meaning: [batch, heads, rows, width] whatever the kernel's layout.
void expect_meaning(const graph::Program& program, std::string_view name, bool causal,
                    const std::vector<std::string_view>& results) {
  ASSERT_EQ(program.meanings.size(), 1u);
  const graph::Meaning& meaning = program.meanings[0];
  EXPECT_EQ(meaning.name, name);
  EXPECT_EQ(graph::number_of(meaning, "scale", 0), 0.375);
  EXPECT_EQ(graph::number_of(meaning, "causal", 0), causal);
  for (const std::string_view role : {"query", "key", "value"}) {
    const graph::Role* operand = graph::find_input(meaning, role);
    ASSERT_NE(operand, nullptr) << role;
    EXPECT_EQ(operand->operand.view.sizes, role == "query" ? kQuery : kKey);
  }
  for (const std::string_view role : results) {
    const graph::Role* result = graph::find_output(meaning, role);
    ASSERT_NE(result, nullptr) << role;
    const bool is_of_keys = role == "grad_key" || role == "grad_value";
    EXPECT_EQ(result->operand.view.sizes, is_of_keys ? kKey : kQuery) << role;
  }
}

TEST(Vendors, AttentionKeepsItsName) {
  const std::vector<std::string_view> gradients = {"grad_query", "grad_key", "grad_value"};
  for (const bool causal : {false, true}) {
    expect_meaning(lowered(on_cpu(causal, false)), "attention", causal, {"output"});
    expect_meaning(lowered(on_cpu_backward(causal)), "attention_backward", causal, gradients);
    EXPECT_TRUE(lowered(on_cpu(causal, false), graph::reference_keeps).meanings.empty()) << "it is a composite still";
  }
  const graph::Program masked = lowered(on_cpu(false, true));
  ASSERT_EQ(masked.meanings.size(), 1u);
  EXPECT_NE(graph::find_input(masked.meanings[0], "mask"), nullptr);
  // Rows before heads: so is the result in memory, and its view shows heads first.
  const Shape rows{2, 3, 2, 4}, columns{2, 5, 2, 4};
  for (const bool causal : {false, true}) {
    Case flash = with_schema(
        on_cpu(false, false),
        "aten::_flash_attention_forward(Tensor query, Tensor key, Tensor value, Tensor? cum_seq_q, Tensor? cum_seq_k, "
        "SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, bool return_debug_mask, *, float? scale=None) -> "
        "(Tensor output, Tensor softmax_logsumexp, Tensor rng_state, Tensor unused, Tensor debug_attn_mask)",
        [=](const Ids& in) {
          return Args{t(in[0]),      t(in[1]),     t(in[2]),           B::none(),         B::none(),      B::integer(3),
                      B::integer(5), B::number(0), B::boolean(causal), B::boolean(false), B::number(0.375)};
        });
    flash.inputs = {rows, columns, columns};
    flash.results = {rows, kLog};
    expect_meaning(lowered(flash), "attention", causal, {"output"});
    const auto whole = numbers_of(flash, graph::reference_keeps), body = numbers_of(flash);
    expect_near(whole.at("result 0"), body.at("result 0"));
    expect_near(whole.at("result 1"), body.at("result 1"));
  }
}

/// With one head, [batch, rows, 1, width] and [batch, 1, rows, width] are the same bytes.
TEST(Vendors, KernelsWithRowsBeforeHeads) {
  const Shape query{2, 1, 3, 4}, key{2, 1, 5, 4}, log{2, 1, 3}, rows{2, 3, 1, 4}, columns{2, 5, 1, 4};
  Case plain = on_cpu(false, false), plain_backward = on_cpu_backward(false);
  plain.inputs = {query, key, key};
  plain.results = {query, log};
  plain_backward.inputs = {query, key, key, query, query, log};
  plain_backward.results = {query, key, key};
  const auto wanted = numbers_of(plain), gradients = numbers_of(plain_backward);
  const auto moved = [&](Case test) {
    test.inputs = {rows, columns, columns};
    test.results = {rows, log};
    return test;
  };
  const auto flash = [&](bool causal, std::int64_t left) {
    return moved(with_schema(
        plain,
        "aten::_flash_attention_forward(Tensor query, Tensor key, Tensor value, Tensor? cum_seq_q, Tensor? cum_seq_k, "
        "SymInt "
        "max_q, SymInt max_k, float dropout_p, bool is_causal, bool return_debug_mask, *, float? scale=None, SymInt? "
        "window_size_left=None, SymInt? window_size_right=None, Tensor? seqused_k=None, Tensor? alibi_slopes=None) -> "
        "(Tensor "
        "output, Tensor softmax_logsumexp, Tensor rng_state, Tensor unused, Tensor debug_attn_mask)",
        [=](const Ids& in) {
          return Args{t(in[0]),           t(in[1]),          t(in[2]),         B::none(),        B::none(),
                      B::integer(3),      B::integer(5),     B::number(0),     B::boolean(causal), B::boolean(false),
                      B::number(0.375),   left < 0 ? B::none() : B::integer(left), B::none(),  B::none(), B::none()};
        }));
  };
  expect_near(numbers_of(flash(false, -1)).at("result 0"), wanted.at("result 0"));
  expect_near(numbers_of(flash(false, -1)).at("result 1"), wanted.at("result 1"));
  const auto efficient = [&](std::int64_t mask) {
    return moved(with_schema(
        plain,
        "aten::_efficient_attention_forward(Tensor query, Tensor key, Tensor value, Tensor? bias, Tensor? "
        "cu_seqlens_q, Tensor? "
        "cu_seqlens_k, SymInt? max_seqlen_q, SymInt? max_seqlen_k, float dropout_p, int custom_mask_type, bool "
        "compute_log_sumexp=False, *, float? scale=None, Tensor? seqlen_k=None, int? window_size=None) -> (Tensor "
        "output, "
        "Tensor logsumexp, Tensor philox_seed, Tensor philox_offset, SymInt max_seqlen_batch_q, SymInt "
        "max_seqlen_batch_k)",
        [=](const Ids& in) {
          return Args{t(in[0]),         t(in[1]),         t(in[2]),  B::none(),    B::none(),
                      B::none(),        B::none(),        B::none(), B::number(0), B::integer(mask),
                      B::boolean(true), B::number(0.375), B::none(), B::none()};
        }));
  };
  expect_near(numbers_of(efficient(0)).at("result 0"), wanted.at("result 0"));
  // Causal from the first query and key is the CPU's; from the last, 3 queries of 5 keys see 3, 4 and 5 of them.
  Case causal = plain;
  causal.arguments = on_cpu(true, false).arguments;
  expect_near(numbers_of(efficient(1)).at("result 0"), numbers_of(causal).at("result 0"));
  const auto last = numbers_of(efficient(2)).at("result 0");
  EXPECT_EQ(numbers_of(flash(true, -1)).at("result 0"), last);
  for (std::size_t n = 0; n < 2; ++n) {  // the last query sees all
    for (std::size_t k = 0; k < 4; ++k) EXPECT_NEAR(last[12 * n + 8 + k], wanted.at("result 0")[12 * n + 8 + k], 2e-6);
  }
  // A window of no keys to the left under a causal mask leaves one key for each query: its value.
  const auto alone = numbers_of(flash(true, 0)).at("result 0");
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t k = 0; k < 4; ++k) EXPECT_NEAR(alone[4 * row + k], content_of(2, 4 * (row + 2) + k), 2e-6);
  }

  Case backward =
      with_schema(plain_backward,
                  "aten::_flash_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor "
                  "out, Tensor logsumexp, "
                  "Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, "
                  "Tensor rng_state, Tensor "
                  "unused, *, float? scale=None, SymInt? window_size_left=None, SymInt? window_size_right=None) -> "
                  "(Tensor, Tensor, Tensor)",
                  [](const Ids& in) {
                    return Args{t(in[3]),  t(in[0]),  t(in[1]),         t(in[2]),      t(in[4]),     t(in[5]),
                                B::none(), B::none(), B::integer(3),    B::integer(5), B::number(0), B::boolean(false),
                                B::none(), B::none(), B::number(0.375), B::none(),     B::none()};
                  });
  backward.inputs = {rows, columns, columns, rows, rows, log};
  backward.results = {rows, columns, columns};
  const auto efficient_backward = [&] {
    Case test =
        with_schema(backward,
                    "aten::_efficient_attention_backward(Tensor grad_out_, Tensor query, Tensor key, Tensor value, "
                    "Tensor? bias, Tensor out, "
                    "Tensor? cu_seqlens_q, Tensor? cu_seqlens_k, SymInt max_seqlen_q, SymInt max_seqlen_k, Tensor "
                    "logsumexp, float dropout_p, "
                    "Tensor philox_seed, Tensor philox_offset, int custom_mask_type, bool bias_requires_grad, *, "
                    "float? scale=None, int? "
                    "num_splits_key=None, int? window_size=None, bool shared_storage_dqdkdv=False) -> (Tensor, Tensor, "
                    "Tensor, Tensor)",
                    [](const Ids& in) {
                      return Args{t(in[3]),          t(in[0]),         t(in[1]),  t(in[2]),      B::none(),
                                  t(in[4]),          B::none(),        B::none(), B::integer(3), B::integer(5),
                                  t(in[5]),          B::number(0),     B::none(), B::none(),     B::integer(0),
                                  B::boolean(false), B::number(0.375), B::none(), B::none(),     B::boolean(false)};
                    });
    test.inputs[5] = {2, 1, 3};
    return test;
  }();
  for (const Case& test : {backward, efficient_backward}) {
    const auto result = numbers_of(test);
    for (const std::string name : {"result 0", "result 1", "result 2"})
      expect_near(result.at(name), gradients.at(name));
  }
}

/// Keys and values of one head are those of the two query heads that share it.
TEST(Vendors, SharedHeads) {
  const Shape fewer{2, 1, 5, 4};
  Case shared = on_cpu(true, false), shared_backward = on_cpu_backward(true);
  shared.inputs = {kQuery, fewer, fewer};
  shared_backward.inputs = {kQuery, fewer, fewer, kQuery, kQuery, kLog};
  shared_backward.results = {kQuery, fewer, fewer};
  // The same with both heads written out: the content of inputs depends on the place only, so one batch and one head
  // each.
  const auto output = numbers_of(shared);
  const auto gradients = numbers_of(shared_backward);
  const auto value = [](std::size_t n, std::size_t key, std::size_t k) { return content_of(2, (n * 5 + key) * 4 + k); };
  std::vector<float> key_gradient(40, 0);
  for (std::size_t n = 0; n < 2; ++n) {
    for (std::size_t h = 0; h < 2; ++h) {
      for (std::size_t row = 0; row < 3; ++row) {
        const std::size_t at = ((n * 2 + h) * 3 + row) * 4;
        double total = 0, score[5], sum[4] = {};
        for (std::size_t j = 0; j <= row; ++j) {
          score[j] = 0;
          for (std::size_t k = 0; k < 4; ++k) {
            score[j] += 0.375 * static_cast<double>(content_of(0, at + k) * content_of(1, (n * 5 + j) * 4 + k));
          }
          total += std::exp(score[j]);
          for (std::size_t k = 0; k < 4; ++k) sum[k] += std::exp(score[j]) * static_cast<double>(value(n, j, k));
        }
        for (std::size_t k = 0; k < 4; ++k) EXPECT_NEAR(output.at("result 0")[at + k], sum[k] / total, 3e-6);
        double inner = 0;
        for (std::size_t k = 0; k < 4; ++k) inner += static_cast<double>(content_of(3, at + k) * content_of(4, at + k));
        for (std::size_t j = 0; j <= row; ++j) {
          double slope = -inner;
          for (std::size_t k = 0; k < 4; ++k) slope += static_cast<double>(content_of(3, at + k) * value(n, j, k));
          // Of the logarithm that the kernel saved nothing is read: the probabilities are stated anew.
          const double ds = 0.375 * std::exp(score[j]) / total * slope;
          for (std::size_t k = 0; k < 4; ++k) {
            key_gradient[(n * 5 + j) * 4 + k] += static_cast<float>(ds) * content_of(0, at + k);
          }
        }
      }
    }
  }
  for (std::size_t k = 0; k < 40; ++k) {
    EXPECT_NEAR(gradients.at("result 1")[k], key_gradient[k], 1e-5f * std::max(1.0f, std::fabs(key_gradient[k])));
  }
}

}  // namespace
}  // namespace crucible::aten
