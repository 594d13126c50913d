// Attention with dropout as the fused kernels of devices have it: a seed and an offset come back, and no mask. Scores
// in f64, one by one; the random bits are those of the framework's own generator, numbered as the memory-efficient
// kernel and flash attention 2 do. What a lowering draws again is compared with this.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/PhiloxRNGEngine.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "device.hpp"

namespace crucible::test_device {

namespace {

struct Plain {
  c10::impl::ExcludeDispatchKeyGuard guard{
      c10::DispatchKeySet({c10::DispatchKey::Fake, c10::DispatchKey::Python, c10::DispatchKey::ADInplaceOrView}) |
      c10::autograd_dispatch_keyset};
};

struct Seed {
  std::uint64_t seed = 0, offset = 0;
};

/// Another one for each op. The seed's highest bit is set, and the offset's low word runs over soon.
Seed next_seed(std::int64_t scores) {
  static std::atomic<std::uint64_t> next{0xFFFFFF00};
  const auto taken = static_cast<std::uint64_t>((scores + 3) / 4 * 4);
  return {0xF123456789ABCDEF, next.fetch_add(taken)};
}

bool efficient_keeps(const Seed& drawn, std::uint64_t score, double p) {
  at::Philox4_32 engine(drawn.seed, 0, (drawn.offset + score) / 4);
  std::uint32_t word = engine();
  for (std::uint64_t k = 0; k < (drawn.offset + score) % 4; ++k) word = engine();
  return static_cast<float>(word) * 0x1p-32F + 0x1p-33F > static_cast<float>(p);
}

bool flash_keeps(const Seed& drawn, std::uint64_t plane, std::uint64_t q, std::uint64_t k, double p) {
  const std::uint64_t lane = q % 8 * 4 + k % 8 / 2, eight = k % 32 / 8, byte = q % 16 / 8 * 2 + k % 2;
  at::Philox4_32 engine(drawn.seed, k / 32 << 32 | q / 16, drawn.offset + plane * 32 + lane);
  std::uint32_t word = engine(7);
  for (std::uint64_t i = 0; i < eight; ++i) word = engine(7);
  return (word >> 8 * byte & 255) <= static_cast<std::uint32_t>(std::floor((1.0F - static_cast<float>(p)) * 255.0));
}

/// What each probability is multiplied by: [batch, heads, queries, keys], f64.
at::Tensor factors(const at::Tensor& query, const at::Tensor& key, const Seed& drawn, double p, bool is_flash) {
  const std::int64_t planes = query.size(0) * query.size(1), queries = query.size(2), keys = key.size(2);
  at::Tensor made = at::ones({query.size(0), query.size(1), queries, keys}, at::kDouble);
  if (p == 0) return made;
  auto* out = made.mutable_data_ptr<double>();
  for (std::int64_t plane = 0; plane < planes; ++plane) {
    for (std::int64_t q = 0; q < queries; ++q) {
      for (std::int64_t k = 0; k < keys; ++k) {
        const auto score = static_cast<std::uint64_t>((plane * queries + q) * keys + k);
        const bool keeps = is_flash ? flash_keeps(drawn, static_cast<std::uint64_t>(plane),
                                                  static_cast<std::uint64_t>(q), static_cast<std::uint64_t>(k), p)
                                    : efficient_keeps(drawn, score, p);
        out[score] = keeps ? 1 / (1 - p) : 0;
      }
    }
  }
  return made;
}

at::Tensor exact(const at::Tensor& tensor) { return tensor.to(at::kCPU, at::kDouble); }

at::Tensor probabilities(const at::Tensor& query, const at::Tensor& key, bool is_causal, std::optional<double> scale) {
  const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(query.size(3))));
  at::Tensor scores = at::matmul(query, key.transpose(2, 3)) * factor;
  if (is_causal) {
    const at::Tensor seen = at::ones({query.size(2), key.size(2)}, at::kBool).tril();
    scores = scores.masked_fill(seen.logical_not(), -INFINITY);
  }
  return scores.softmax(-1);
}

at::Tensor forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const Seed& drawn, double p,
                   bool is_causal, std::optional<double> scale, bool is_flash) {
  const at::Tensor q = exact(query), k = exact(key);
  const at::Tensor kept = probabilities(q, k, is_causal, scale) * factors(q, k, drawn, p, is_flash);
  return at::matmul(kept, exact(value)).to(query.scalar_type()).to(query.device());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(const at::Tensor& grad, const at::Tensor& query,
                                                        const at::Tensor& key, const at::Tensor& value,
                                                        const Seed& drawn, double p, bool is_causal,
                                                        std::optional<double> scale, bool is_flash) {
  const at::Tensor g = exact(grad), q = exact(query), k = exact(key), v = exact(value);
  const at::Tensor shares = probabilities(q, k, is_causal, scale), factor = factors(q, k, drawn, p, is_flash);
  const at::Tensor slope = at::matmul(g, v.transpose(2, 3)) * factor;
  const at::Tensor ds =
      shares * (slope - (shares * slope).sum(-1, true)) * scale.value_or(1 / std::sqrt(static_cast<double>(q.size(3))));
  const auto placed = [](const at::Tensor& x, const at::Tensor& like) {
    return x.to(like.scalar_type()).to(like.device());
  };
  return {placed(at::matmul(ds, k), query), placed(at::matmul(ds.transpose(2, 3), q), key),
          placed(at::matmul((shares * factor).transpose(2, 3), g), value)};
}

std::int64_t scores_of(const at::Tensor& query, const at::Tensor& key) {
  return query.size(0) * query.size(1) * query.size(2) * key.size(2);
}

at::Tensor no_logarithms(const at::Tensor& query) {
  return at::zeros({query.size(0), query.size(1), query.size(2)}, query.options().dtype(at::kFloat));
}

at::Tensor whole(std::uint64_t number) {
  return at::scalar_tensor(static_cast<std::int64_t>(number), at::TensorOptions().dtype(at::kLong).device(at::kCPU));
}

std::uint64_t number(const at::Tensor& tensor) { return static_cast<std::uint64_t>(tensor.item<std::int64_t>()); }

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> efficient(const at::Tensor& query, const at::Tensor& key,
                                                                     const at::Tensor& value,
                                                                     const std::optional<at::Tensor>&, bool, double p,
                                                                     bool is_causal, std::optional<double> scale) {
  const Plain plain;
  const Seed drawn = next_seed(scores_of(query, key));
  return {forward(query, key, value, drawn, p, is_causal, scale, false), no_logarithms(query), whole(drawn.seed),
          whole(drawn.offset)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> efficient_backward(
    const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor&,
    const at::Tensor&, const at::Tensor&, const at::Tensor& seed, const at::Tensor& offset, double p,
    std::array<bool, 4>, bool is_causal, std::optional<double> scale) {
  const Plain plain;
  const Seed drawn{number(seed), number(offset)};
  const auto [q, k, v] = backward(grad, query, key, value, drawn, p, is_causal, scale, false);
  return {q, k, v, at::Tensor()};
}

using Flash = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor,
                         at::Tensor, at::Tensor>;

/// Seed and offset are one tensor of a dtype that recordings do not have, on the device.
Flash flash(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, double p, bool is_causal, bool,
            std::optional<double> scale) {
  const Plain plain;
  const Seed drawn = next_seed(scores_of(query, key));
  const at::Tensor state = at::stack({whole(drawn.seed), whole(drawn.offset)}).view(at::kUInt64).to(query.device());
  const at::Tensor unused = at::empty({}, state.options());
  return {forward(query, key, value, drawn, p, is_causal, scale, true),
          no_logarithms(query),
          at::Tensor(),
          at::Tensor(),
          query.sym_size(2),
          key.sym_size(2),
          state,
          unused,
          at::empty({0}, query.options())};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> flash_backward(const at::Tensor& grad, const at::Tensor& query,
                                                              const at::Tensor& key, const at::Tensor& value,
                                                              const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                                              const at::Tensor&, c10::SymInt, c10::SymInt, double p,
                                                              bool is_causal, const at::Tensor& state,
                                                              const at::Tensor&, std::optional<double> scale) {
  const Plain plain;
  const at::Tensor words = state.to(at::kCPU).view(at::kLong);
  const Seed drawn{number(words[0]), number(words[1])};
  return backward(grad, query, key, value, drawn, p, is_causal, scale, true);
}

/// cuDNN's way to draw is not public: what this one does stands for any.
Flash cudnn(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>&,
            bool, double p, bool is_causal, bool, std::optional<double> scale) {
  const Plain plain;
  const Seed drawn = next_seed(scores_of(query, key));
  return {forward(query, key, value, drawn, p, is_causal, scale, false),
          no_logarithms(query),
          at::Tensor(),
          at::Tensor(),
          query.sym_size(2),
          key.sym_size(2),
          whole(drawn.seed),
          whole(drawn.offset),
          at::empty({0}, query.options())};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_scaled_dot_product_efficient_attention", efficient);
  library.impl("_scaled_dot_product_efficient_attention_backward", efficient_backward);
  library.impl("_scaled_dot_product_flash_attention", flash);
  library.impl("_scaled_dot_product_flash_attention_backward", flash_backward);
  library.impl("_scaled_dot_product_cudnn_attention", cudnn);
}

}  // namespace

}  // namespace crucible::test_device
