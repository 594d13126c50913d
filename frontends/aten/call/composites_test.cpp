// Composites of recorded ops: the interpreter's own implementation of each against its decomposition, on random data of
// several shapes and on awkward numbers; and that expanding gives the program made where nobody takes composites.
#include "frontends/aten/call/composites.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <set>

#include "core/graph/composite.hpp"
#include "core/graph/passes.hpp"
#include "core/graph/print.hpp"
#include "core/graph/program_hash.hpp"
#include "core/graph/reference_composite.hpp"
#include "frontends/aten/call/composite_recording.hpp"
#include "frontends/aten/lower.hpp"
#include "frontends/aten/testing/trace_builder.hpp"

namespace crucible::aten {
namespace {

using B = TraceBuilder;
using Sizes = std::vector<std::int64_t>;
using trace::Arg;
using trace::TensorId;

struct Case {
  const char* name;  // of the composite
  double tolerance;  // relative to the larger of 1 and the number, in f32
  std::function<void(Recording&)> record;
  bool takes_awkward = true;  // infinities and NaN; else they cancel in one form and not in the other
};
void PrintTo(const Case& each, std::ostream* out) { *out << each.name; }

Sizes any_sizes(Recording& r) {
  Sizes sizes;
  for (std::int64_t rank = r.side(1, 4); rank > 0; --rank) sizes.push_back(r.side(0, 12) == 0 ? 0 : r.side(1, 5));
  return sizes;
}

/// A dimension that is not empty, counted from either end; a line of nothing has no largest element.
Arg line_of(Recording& r, Sizes& sizes) {
  const auto rank = static_cast<std::int64_t>(sizes.size());
  const std::int64_t dim = r.side(0, rank - 1);
  if (sizes[static_cast<std::size_t>(dim)] == 0) sizes[static_cast<std::size_t>(dim)] = 2;
  return B::integer(r.chance() ? dim : dim - rank);
}

Arg text(const char* words) {
  Arg arg;
  arg.kind = Arg::Kind::kString;
  arg.text = words;
  return arg;
}

Arg mask_of(std::size_t count) { return B::list(std::vector<Arg>(count, B::boolean(true))); }

void softmax_of(Recording& r, const char* schema) {
  Sizes sizes = any_sizes(r);
  const Arg dim = line_of(r, sizes);
  r.op(schema, {r.arg(sizes), dim, B::boolean(false)}, {sizes});
}

void softmax_backward_of(Recording& r, const char* schema) {
  Sizes sizes = any_sizes(r);
  const Arg dim = line_of(r, sizes);
  r.op(schema, {r.arg(sizes), r.arg(sizes, Data::kPlain), dim, B::integer(6)}, {sizes});
}

struct Normed {
  Sizes sizes, shape, rows;  // rows: sizes with 1 for each dimension of the shape
};

Normed normed(Recording& r) {
  Normed n;
  n.sizes = any_sizes(r);
  const auto begin = static_cast<std::ptrdiff_t>(r.side(0, static_cast<std::int64_t>(n.sizes.size()) - 1));
  n.rows = n.sizes;
  std::fill(n.rows.begin() + begin, n.rows.end(), 1);
  n.shape.assign(n.sizes.begin() + begin, n.sizes.end());
  return n;
}

void layer_norm(Recording& r) {
  const Normed n = normed(r);
  r.op(
      "aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> "
      "(Tensor, Tensor, Tensor)",
      {r.arg(n.sizes), B::integers(n.shape), r.maybe(n.shape), r.maybe(n.shape), B::number(1e-3)},
      {n.sizes, n.rows, n.rows});
}

void layer_norm_backward(Recording& r) {
  const Normed n = normed(r);
  r.op(
      "aten::native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, Tensor "
      "rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
      {r.arg(n.sizes), r.arg(n.sizes, Data::kPlain), B::integers(n.shape), r.arg(n.rows, Data::kPlain),
       r.arg(n.rows, Data::kPositive), r.maybe(n.shape), r.maybe(n.shape), mask_of(3)},
      {n.sizes, n.shape, n.shape});
}

void rms_norm(Recording& r) {
  const Normed n = normed(r);
  r.op("aten::_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)",
       {r.arg(n.sizes), B::integers(n.shape), r.maybe(n.shape), r.chance() ? B::number(1e-4) : B::none()},
       {n.sizes, n.rows});
}

void rms_norm_backward(Recording& r) {
  const Normed n = normed(r);
  r.op(
      "aten::_fused_rms_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor rstd, Tensor? "
      "weight, bool[2] output_mask) -> (Tensor, Tensor)",
      {r.arg(n.sizes), r.arg(n.sizes, Data::kPlain), B::integers(n.shape), r.arg(n.rows, Data::kPositive),
       r.arg(n.shape, Data::kPlain), mask_of(2)},
      {n.sizes, n.shape});
}

struct Channels {
  std::int64_t n, groups, width, h, w;
  explicit Channels(Recording& r)
      : n(r.side(1, 3)), groups(r.side(1, 3)), width(r.side(1, 3)), h(r.side(1, 3)), w(r.side(1, 3)) {}
  std::int64_t channels() const { return groups * width; }
  Sizes sizes() const { return {n, channels(), h, w}; }
};

void group_norm(Recording& r) {
  const Channels c(r);
  r.op(
      "aten::native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, "
      "float eps) -> (Tensor, Tensor, Tensor)",
      {r.arg(c.sizes()), r.maybe({c.channels()}), r.maybe({c.channels()}), B::integer(c.n), B::integer(c.channels()),
       B::integer(c.h * c.w), B::integer(c.groups), B::number(1e-3)},
      {c.sizes(), {c.n, c.groups}, {c.n, c.groups}});
}

void group_norm_backward(Recording& r) {
  const Channels c(r);
  r.op(
      "aten::native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, "
      "SymInt N, SymInt C, SymInt HxW, int group, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
      {r.arg(c.sizes()), r.arg(c.sizes(), Data::kPlain), r.arg({c.n, c.groups}, Data::kPlain),
       r.arg({c.n, c.groups}, Data::kPositive), r.maybe({c.channels()}), B::integer(c.n), B::integer(c.channels()),
       B::integer(c.h * c.w), B::integer(c.groups), mask_of(3)},
      {c.sizes(), {c.channels()}, {c.channels()}});
}

constexpr const char* kBatchNorm =
    "aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
    "bool training, float "
    "momentum, float eps) -> (Tensor, Tensor, Tensor)";

void batch_norm(Recording& r) {
  const Channels c(r);
  const bool tracks = r.chance();
  r.op(kBatchNorm,
       {r.arg(c.sizes()), r.maybe({c.channels()}), r.maybe({c.channels()}),
        tracks ? r.state({c.channels()}) : B::none(), tracks ? r.state({c.channels()}, Data::kPositive) : B::none(),
        B::boolean(true), B::number(0.1), B::number(1e-2)},
       {c.sizes(), {c.channels()}, {c.channels()}});
}

void batch_norm_inference(Recording& r) {
  const Channels c(r);
  r.op(kBatchNorm,
       {r.arg(c.sizes()), r.maybe({c.channels()}), r.maybe({c.channels()}), r.arg({c.channels()}, Data::kPlain),
        r.arg({c.channels()}, Data::kPositive), B::boolean(false), B::number(0.1), B::number(1e-2)},
       {c.sizes()});
}

void batch_norm_backward(Recording& r) {
  const Channels c(r);
  r.op(
      "aten::native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, Tensor? "
      "running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask) -> (Tensor, "
      "Tensor, Tensor)",
      {r.arg(c.sizes()), r.arg(c.sizes(), Data::kPlain), r.maybe({c.channels()}), B::none(), B::none(),
       r.arg({c.channels()}, Data::kPlain), r.arg({c.channels()}, Data::kPositive), B::boolean(true), B::number(1e-2),
       mask_of(3)},
      {c.sizes(), {c.channels()}, {c.channels()}});
}

void gelu(Recording& r) {
  const Sizes sizes = any_sizes(r);
  r.op("aten::gelu(Tensor self, *, str approximate=\"none\") -> Tensor",
       {r.arg(sizes), text(r.chance() ? "tanh" : "none")}, {sizes});
}

void gelu_backward(Recording& r) {
  const Sizes sizes = any_sizes(r);
  r.op("aten::gelu_backward(Tensor grad_output, Tensor self, *, str approximate=\"none\") -> Tensor",
       {r.arg(sizes), r.arg(sizes), text(r.chance() ? "tanh" : "none")}, {sizes});
}

void nll_loss(Recording& r) {
  const std::int64_t n = r.side(1, 5), classes = r.side(1, 6), reduction = r.side(0, 2);
  const bool is_image = r.chance();
  const Sizes scores = is_image ? Sizes{n, classes, 2, 3} : Sizes{n, classes},
              target = is_image ? Sizes{n, 2, 3} : Sizes{n};
  r.op(fmt::format("aten::nll_loss{}_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt "
                   "ignore_index) -> (Tensor output, Tensor total_weight)",
                   is_image ? "2d" : ""),
       {r.arg(scores), r.whole(target, 0, classes - 1), r.maybe({classes}, Data::kPositive), B::integer(reduction),
        B::integer(r.chance() ? 0 : -100)},
       reduction == 0 ? std::vector<Sizes>{target} : std::vector<Sizes>{{}, {}});
}

void nll_loss_backward(Recording& r) {
  const std::int64_t n = r.side(1, 5), classes = r.side(1, 6), reduction = r.side(0, 2);
  const bool is_image = r.chance();
  const Sizes scores = is_image ? Sizes{n, classes, 2, 3} : Sizes{n, classes},
              target = is_image ? Sizes{n, 2, 3} : Sizes{n};
  r.op(fmt::format("aten::nll_loss{}_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int "
                   "reduction, SymInt ignore_index, Tensor total_weight) -> Tensor",
                   is_image ? "2d" : ""),
       {r.arg(reduction == 0 ? target : Sizes{}), r.arg(scores), r.whole(target, 0, classes - 1),
        r.maybe({classes}, Data::kPositive), B::integer(reduction), B::integer(r.chance() ? 0 : -100),
        r.arg({}, Data::kPositive)},
       {scores});
}

/// Of numbers between 0 and 1: what a logarithm is taken of. `more`: how many weights the schema has, which may be
/// None.
void loss_of(Recording& r, const char* schema, int more, bool is_backward) {
  const Sizes sizes = any_sizes(r);
  const std::int64_t reduction = r.side(0, 2);
  std::vector<Arg> args;
  if (is_backward) args.push_back(r.arg(reduction == 0 ? sizes : Sizes{}));
  args.push_back(more == 1 ? r.filled(sizes, [&] { return static_cast<double>(r.side(0, 16)) / 16; }) : r.arg(sizes));
  args.push_back(r.arg(sizes));
  for (int i = 0; i < more; ++i) args.push_back(r.maybe(sizes));
  args.push_back(B::integer(reduction));
  r.op(schema, std::move(args), {is_backward || reduction == 0 ? sizes : Sizes{}});
}

struct Heads {
  std::int64_t b, shared, times, n, m, w, v;
  explicit Heads(Recording& r)
      : b(r.side(1, 2)),
        shared(r.side(1, 2)),
        times(r.side(1, 2)),
        n(r.side(1, 4)),
        m(r.side(1, 5)),
        w(r.side(1, 4)),
        v(r.side(1, 4)) {}
  Sizes query() const { return {b, shared * times, n, w}; }
  Sizes key() const { return {b, shared, m, w}; }
  Sizes value() const { return {b, shared, m, v}; }
  Sizes output() const { return {b, shared * times, n, v}; }
  Arg mask(Recording& r) const {
    if (r.chance()) return B::none();
    const Sizes sizes = r.chance() ? Sizes{n, m} : Sizes{b, 1, n, m};
    return r.chance() ? r.truths(sizes) : r.arg(sizes, Data::kPlain);
  }
};

void attention(Recording& r) {
  const Heads h(r);
  r.op(
      "aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0., "
      "bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)",
      {r.arg(h.query()), r.arg(h.key(), Data::kPlain), r.arg(h.value(), Data::kPlain), B::number(0),
       B::boolean(r.chance()), h.mask(r), r.chance() ? B::number(0.3) : B::none()},
      {h.output(), {h.b, h.shared * h.times, h.n}});
}

void attention_backward(Recording& r) {
  const Heads h(r);
  r.op(
      "aten::_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, Tensor key, Tensor "
      "value, Tensor out, Tensor logsumexp, float dropout_p, bool is_causal, *, Tensor? attn_mask=None, float? "
      "scale=None) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value)",
      {r.arg(h.output()), r.arg(h.query(), Data::kPlain), r.arg(h.key(), Data::kPlain), r.arg(h.value(), Data::kPlain),
       r.arg(h.output(), Data::kPlain), r.arg({h.b, h.shared * h.times, h.n}, Data::kPlain), B::number(0),
       B::boolean(r.chance()), h.mask(r), r.chance() ? B::number(0.3) : B::none()},
      {h.query(), h.key(), h.value()});
}

void lstm_cell(Recording& r) {
  const std::int64_t n = r.side(1, 4), h = r.side(1, 5);
  const bool has_bias = r.chance();
  r.op(
      "aten::_thnn_fused_lstm_cell(Tensor input_gates, Tensor hidden_gates, Tensor cx, Tensor? input_bias=None, "
      "Tensor? hidden_bias=None) -> (Tensor, Tensor, Tensor)",
      {r.arg({n, 4 * h}), r.arg({n, 4 * h}, Data::kPlain), r.arg({n, h}),
       has_bias ? r.arg({4 * h}, Data::kPlain) : B::none(), has_bias ? r.arg({4 * h}, Data::kPlain) : B::none()},
      {{n, h}, {n, h}, {n, 4 * h}});
}

/// Lists of two parameters.
Arg pair_of(Recording& r, Data data = Data::kPlain) { return B::list({r.state({3, 4}, data), r.state({5}, data)}); }

Arg steps_of(Recording& r) { return B::list({r.single(3), r.single(static_cast<double>(r.side(1, 9)))}); }

/// The learning rate as a number, or as a tensor in the op's other overload.
struct Rate {
  const char *overload, *type;
  Arg arg;
  Rate(Recording& r, double value) : overload(""), type("float"), arg(B::number(value)) {
    if (r.chance()) return;
    overload = ".tensor_lr";
    type = "Tensor";
    arg = r.single(value);
  }
};

/// Loss scaling: both or none. Infinities were found once in two times.
std::pair<Arg, Arg> scaling(Recording& r) {
  if (r.chance()) return {B::none(), B::none()};
  return {r.single(8), r.single(r.chance() ? 1 : 0)};
}

void adam_of(Recording& r, const char* name) {
  const bool amsgrad = r.chance();
  const Rate rate(r, 0.01);
  const auto [scale, found] = scaling(r);
  r.op(
      fmt::format(
          "aten::{}{}(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, "
          "Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, {} lr, float beta1, float beta2, float weight_decay, "
          "float eps, bool amsgrad, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
          name, rate.overload, rate.type),
      {pair_of(r, Data::kAwkward), pair_of(r, Data::kAwkward), pair_of(r, Data::kAwkward), pair_of(r, Data::kPositive),
       amsgrad ? pair_of(r, Data::kPositive) : B::list({}), steps_of(r), rate.arg, B::number(0.9), B::number(0.99),
       B::number(r.chance() ? 0.1 : 0), B::number(1e-8), B::boolean(amsgrad), B::boolean(r.chance()), scale, found},
      {});
}

void sgd(Recording& r) {
  const bool has_momentum = r.chance(), is_first = r.chance();
  const Rate rate(r, 0.01);
  const auto [scale, found] = scaling(r);
  r.op(fmt::format("aten::_fused_sgd_{}(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] momentum_buffer_list, *, "
                   "float weight_decay, float momentum, {} lr, float dampening, bool nesterov, bool maximize, bool "
                   "is_first_step, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
                   rate.overload, rate.type),
       {pair_of(r, Data::kAwkward), pair_of(r, Data::kAwkward), has_momentum ? pair_of(r, Data::kAwkward) : B::list({}),
        B::number(r.chance() ? 0.1 : 0), B::number(has_momentum ? 0.9 : 0), rate.arg, B::number(0.2),
        B::boolean(r.chance()), B::boolean(r.chance()), B::boolean(is_first), scale, found},
       {});
}

void adagrad(Recording& r) {
  const Rate rate(r, 0.1);
  const auto [scale, found] = scaling(r);
  r.op(fmt::format("aten::_fused_adagrad_{}(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] state_sums, "
                   "Tensor(d!)[] state_steps, *, {} lr, float lr_decay, float weight_decay, float eps, bool maximize, "
                   "Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
                   rate.overload, rate.type),
       {pair_of(r, Data::kAwkward), pair_of(r, Data::kAwkward), pair_of(r, Data::kPositive), steps_of(r), rate.arg,
        B::number(r.chance() ? 0.1 : 0), B::number(r.chance() ? 0.1 : 0), B::number(1e-8), B::boolean(r.chance()),
        scale, found},
       {});
}

const Case kCases[] = {
    {"softmax", 1e-5,
     [](Recording& r) { softmax_of(r, "aten::_softmax(Tensor self, int dim, bool half_to_float) -> Tensor"); }},
    {"safe_softmax", 1e-5,
     [](Recording& r) {
       Sizes sizes = any_sizes(r);
       const Arg dim = line_of(r, sizes);
       r.op("aten::_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
            {r.arg(sizes), dim, B::none()}, {sizes});
     }},
    {"log_softmax", 1e-5,
     [](Recording& r) { softmax_of(r, "aten::_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor"); }},
    {"softmax_backward", 1e-5,
     [](Recording& r) {
       softmax_backward_of(r,
                           "aten::_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType "
                           "input_dtype) -> Tensor");
     }},
    {"log_softmax_backward", 1e-5,
     [](Recording& r) {
       softmax_backward_of(r,
                           "aten::_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType "
                           "input_dtype) -> Tensor");
     }},
    {"layer_norm", 1e-4, layer_norm},
    {"layer_norm_backward", 1e-4, layer_norm_backward},
    {"rms_norm", 1e-4, rms_norm},
    {"rms_norm_backward", 1e-4, rms_norm_backward},
    {"group_norm", 1e-4, group_norm},
    {"group_norm_backward", 1e-4, group_norm_backward},
    {"batch_norm", 1e-4, batch_norm},
    {"batch_norm_inference", 1e-4, batch_norm_inference},
    {"batch_norm_backward", 1e-4, batch_norm_backward},
    {"gelu", 1e-5, gelu},
    {"gelu_backward", 1e-5, gelu_backward},
    {"nll_loss", 1e-5, nll_loss},
    {"nll_loss_backward", 1e-5, nll_loss_backward},
    {"mse_loss", 1e-5,
     [](Recording& r) {
       loss_of(r, "aten::mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", 0, false);
     }},
    {"mse_loss_backward", 1e-5,
     [](Recording& r) {
       loss_of(r, "aten::mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor", 0,
               true);
     }},
    {"binary_cross_entropy", 1e-5,
     [](Recording& r) {
       loss_of(r,
               "aten::binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor",
               1, false);
     }},
    {"binary_cross_entropy_backward", 1e-5,
     [](Recording& r) {
       loss_of(r,
               "aten::binary_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? "
               "weight=None, int reduction=1) -> Tensor",
               1, true);
     }},
    {"binary_cross_entropy_with_logits", 1e-5,
     [](Recording& r) {
       loss_of(r,
               "aten::binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? "
               "pos_weight=None, int reduction=1) -> Tensor",
               2, false);
     }},
    {"attention", 1e-5, attention},
    {"attention_backward", 1e-4, attention_backward},
    {"lstm_cell", 1e-5, lstm_cell},
    {"adam", 1e-5, [](Recording& r) { adam_of(r, "_fused_adam_"); }},
    {"adamw", 1e-5, [](Recording& r) { adam_of(r, "_fused_adamw_"); }},
    {"sgd", 1e-5, sgd},
    {"adagrad", 1e-5, adagrad},
};

/// Everything that a program gives, as numbers.
std::vector<std::vector<double>> given(const graph::Program& program, const trace::BlobStore& blobs) {
  const auto replay = graph::replay_reference(program, blobs, 1);
  EXPECT_TRUE(replay) << replay.error().message << "\n" << graph::to_text(program);
  std::vector<std::vector<double>> all;
  if (!replay) return all;
  const auto add = [&](const graph::Bytes& bytes, DType dtype) {
    const auto elements = static_cast<std::int64_t>(bytes.size() / size_bytes(dtype));
    const graph::Numbers numbers = graph::load(bytes, dtype, graph::View::contiguous({elements}));
    all.emplace_back();
    for (std::size_t i = 0; i < numbers.size(); ++i) all.back().push_back(numbers.as_real(i));
  };
  std::size_t tensor = 0;
  for (const graph::Output& output : program.outputs) {
    if (output.is_tensor()) add(*replay->tensors[0][tensor++], program.values[output.operand.value].dtype);
  }
  for (std::size_t s = 0; s < program.states.size(); ++s)
    add(replay->states[s], program.values[program.states[s].end].dtype);
  return all;
}

bool agree(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b) || std::isinf(a) || std::isinf(b))
    return (std::isnan(a) && std::isnan(b)) || a == b;
  return std::abs(a - b) <= tolerance * std::max({1.0, std::abs(a), std::abs(b)});
}

bool is_empty(const graph::Op& op) {
  const auto has_none = [](const graph::Operand& operand) {
    return !operand.is_scalar() && operand.view.elements() == 0;
  };
  return std::ranges::any_of(op.inputs, has_none) || std::ranges::any_of(op.outputs, has_none);
}

/// How many of the program's composite ops the interpreter's own implementation runs; `count`: of those that are not
/// empty.
int ran_itself(const graph::Program& program, const trace::BlobStore& blobs, int& count) {
  std::vector<graph::Bytes> values(program.values.size());
  const auto load = [&](graph::ValueId value, std::uint32_t blob) {
    values[value].resize(static_cast<std::size_t>(program.values[value].elements) *
                         size_bytes(program.values[value].dtype));
    if (blob != graph::kNone) values[value] = *blobs.load(blob);
  };
  for (const graph::State& state : program.states) load(state.start, state.initial_blob);
  for (const graph::Input& input : program.inputs) load(input.value, input.blobs[0]);
  for (const graph::Constant& constant : program.constants) load(constant.value, constant.blob);
  const std::vector<graph::Number> slots(program.slots.size(), 0.0);
  auto ran = graph::run_iteration(program, values, slots);
  EXPECT_TRUE(ran) << ran.error().message;
  int own = 0;
  for (graph::OpId id = 0; id < program.ops.size() && ran; ++id) {
    if (program.ops[id].kind != graph::OpKind::kComposite || is_empty(program.ops[id])) continue;
    ++count;
    own += graph::run_composite_itself(program, id, *ran, slots);
  }
  return own;
}

class Composites : public testing::TestWithParam<Case> {};

TEST_P(Composites, OwnImplementationsAgreeWithTheDecomposition) {
  const Case& each = GetParam();
  int composites = 0, own = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const DType dtype = seed % 2 == 0 ? DType::kF64 : DType::kF32;
    Recording recording(seed, dtype, each.takes_awkward && seed % 3 == 0);
    each.record(recording);
    const trace::Trace& trace = recording.trace();
    const auto whole = lower_without_passes(trace);
    ASSERT_TRUE(whole) << whole.error().message << " seed " << seed;
    graph::Program expanded = *whole;
    graph::expand_composites(expanded);
    const auto verified = graph::verify(expanded);
    ASSERT_TRUE(verified) << verified.error().message;
    for (const graph::Op& op : whole->ops) {
      if (op.kind == graph::OpKind::kComposite) {
        ASSERT_EQ(graph::op_name(*whole, op), each.name);
      }
    }
    own += ran_itself(*whole, *trace.blob_store, composites);
    const auto a = given(*whole, *trace.blob_store), b = given(expanded, *trace.blob_store);
    ASSERT_EQ(a.size(), b.size());
    const double tolerance = dtype == DType::kF64 ? 1e-10 : each.tolerance;
    for (std::size_t k = 0; k < a.size(); ++k) {
      ASSERT_EQ(a[k].size(), b[k].size());
      for (std::size_t i = 0; i < a[k].size(); ++i) {
        ASSERT_TRUE(agree(a[k][i], b[k][i], tolerance))
            << each.name << " seed " << seed << " result " << k << " element " << i << ": " << a[k][i] << " by itself, "
            << b[k][i] << " by its decomposition\n"
            << graph::to_text(*whole);
      }
    }
  }
  EXPECT_GE(composites, 40) << "most recordings become composites";
  EXPECT_EQ(own, composites) << "only empty shapes are left to the body";
}

/// Where nobody takes composites, none are made: that must be the same program as making and expanding them.
TEST_P(Composites, ExpandingGivesTheProgramWithoutThem) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    Recording recording(seed, DType::kF32, false);
    GetParam().record(recording);
    const trace::Trace& trace = recording.trace();
    auto whole = lower_without_passes(trace);
    const auto without = lower(trace);
    ASSERT_TRUE(whole && without);
    ASSERT_TRUE(graph::run_passes(*whole, {.blobs = trace.blob_store.get()}));
    EXPECT_EQ(graph::to_text(*whole), graph::to_text(*without));
    EXPECT_TRUE(whole->composites.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Each, Composites, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

/// The rate of each iteration is an operand of the step, and what is computed from it, too.
TEST(CompositeSteps, NumbersThatDifferAreOperands) {
  B b;
  const TensorId w = b.fresh({2}), g = b.fresh({2}), m = b.fresh({2}), v = b.fresh({2}), t = b.fresh({1});
  for (int i = 0; i < 2; ++i) {
    if (i == 0) {
      for (const TensorId id : {w, m, v})
        b.external(b.storage_of(id), {0.5f, 0.25f}, trace::Role::kParameter, "p" + std::to_string(id));
    }
    b.external(b.storage_of(g), {1.0f + static_cast<float>(i), -1}, trace::Role::kInput, "g");
    b.external(b.storage_of(t), {1.0f + static_cast<float>(i)}, trace::Role::kInput, "t");
    const auto one = [](TensorId id) { return B::list({B::tensor(id)}); };
    b.op(
        "aten::_fused_adamw_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, "
        "Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, float lr, float beta1, float beta2, float "
        "weight_decay, float eps, bool amsgrad, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
        {one(w), one(g), one(m), one(v), B::list({}), one(t), B::number(i == 0 ? 0.1 : 0.05), B::number(0.9),
         B::number(0.99), B::number(0.1), B::number(1e-8), B::boolean(false), B::boolean(false), B::none(), B::none()},
        {});
    b.end_iteration();
  }
  for (const TensorId id : {w, m, v}) b.final_state(b.storage_of(id), {0, 0});
  const trace::Trace& trace = b.trace();
  const auto whole = lower(trace, Opaques::kRefuse, graph::reference_keeps), without = lower(trace);
  ASSERT_TRUE(whole) << whole.error().message;
  ASSERT_TRUE(without);
  ASSERT_EQ(whole->ops.size(), 1u) << graph::to_text(*whole);
  ASSERT_EQ(whole->composites.size(), 1u);
  EXPECT_EQ(whole->composites[0]->name, "adamw");
  ASSERT_FALSE(whole->composites[0]->body.slots.empty());
  EXPECT_EQ(whole->composites[0]->body.slots[0].name, "lr");
  const auto a = graph::replay_reference(*whole, *trace.blob_store, 2),
             c = graph::replay_reference(*without, *trace.blob_store, 2);
  ASSERT_TRUE(a && c);
  for (std::size_t s = 0; s < a->states.size(); ++s) {
    const auto x = floats(a->states[s]), y = floats(c->states[s]);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], 1e-6);
  }
}

TEST(CompositeTable, EveryImplementationHasACase) {
  std::set<std::string_view> names;
  for (const Case& each : kCases) names.insert(each.name);
  for (const std::string_view name : graph::implemented_composites()) EXPECT_TRUE(names.contains(name)) << name;
}

}  // namespace
}  // namespace crucible::aten
