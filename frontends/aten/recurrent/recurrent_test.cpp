// Recurrent layers against plain loops, their gradients against differences, and the layers of libraries that the
// framework's CPU build does not have in traces written by hand.
#include "frontends/aten/recurrent/recurrent.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/graph/reference.hpp"
#include "frontends/aten/lower.hpp"
#include "frontends/aten/testing/trace_builder.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;
using Reals = std::vector<double>;
using B = TraceBuilder;

constexpr std::int64_t kSteps = 3, kBatch = 2, kFeatures = 2, kHidden = 3;
constexpr CellKind kKinds[] = {CellKind::kRelu, CellKind::kTanh, CellKind::kLstm, CellKind::kGru};

Reals numbers(std::int64_t count, double seed) {
  Reals result;
  for (std::int64_t i = 0; i < count; ++i) result.push_back(std::sin(seed + 1.7 * static_cast<double>(i)));
  return result;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// What a layer computes, number by number.
struct PlainLayer {
  CellKind kind;
  bool reverse;
  std::int64_t steps, batch, features, hidden;
  Reals x, w_input, w_hidden, b_input, b_hidden, h, c;  // h and c become the last states
  Reals y;                                              // [steps, batch, hidden]

  double gate(const Reals& w, const Reals& b, const double* rows, std::int64_t width, std::int64_t unit) const {
    double sum = b[static_cast<std::size_t>(unit)];
    for (std::int64_t k = 0; k < width; ++k) sum += w[static_cast<std::size_t>(unit * width + k)] * rows[k];
    return sum;
  }

  void run() {
    y.assign(static_cast<std::size_t>(steps * batch * hidden), 0);
    for (std::int64_t step = 0; step < steps; ++step) {
      const std::int64_t t = reverse ? steps - 1 - step : step;
      const Reals old = h;
      for (std::int64_t n = 0; n < batch; ++n) {
        for (std::int64_t j = 0; j < hidden; ++j) {
          const auto at = static_cast<std::size_t>(n * hidden + j);
          const double* row = x.data() + (t * batch + n) * features;
          const auto in = [&](std::int64_t g) { return gate(w_input, b_input, row, features, g * hidden + j); };
          const auto re = [&](std::int64_t g) {
            return gate(w_hidden, b_hidden, old.data() + n * hidden, hidden, g * hidden + j);
          };
          if (kind == CellKind::kLstm) {
            c[at] = sigmoid(in(1) + re(1)) * c[at] + sigmoid(in(0) + re(0)) * std::tanh(in(2) + re(2));
            h[at] = sigmoid(in(3) + re(3)) * std::tanh(c[at]);
          } else if (kind == CellKind::kGru) {
            const double update = sigmoid(in(1) + re(1)), fresh = std::tanh(in(2) + sigmoid(in(0) + re(0)) * re(2));
            h[at] = (1 - update) * fresh + update * old[at];
          } else {
            const double sum = in(0) + re(0);
            h[at] = kind == CellKind::kTanh ? std::tanh(sum) : std::max(sum, 0.0);
          }
          y[static_cast<std::size_t>((t * batch + n) * hidden + j)] = h[at];
        }
      }
    }
  }
};

PlainLayer plain_layer(CellKind kind, bool reverse) {
  const std::int64_t width = gate_count(kind) * kHidden;
  PlainLayer layer{kind, reverse, kSteps, kBatch, kFeatures, kHidden, {}, {}, {}, {}, {}, {}, {}, {}};
  layer.x = numbers(kSteps * kBatch * kFeatures, 1);
  layer.w_input = numbers(width * kFeatures, 2);
  layer.w_hidden = numbers(width * kHidden, 3);
  layer.b_input = numbers(width, 4);
  layer.b_hidden = numbers(width, 5);
  layer.h = numbers(kBatch * kHidden, 6);
  layer.c = numbers(kBatch * kHidden, 7);
  return layer;
}

/// The layer as a program in f64 with the weighted sum of all results, and the gradients of that sum.
struct LayerProgram {
  graph::Program program;
  std::vector<graph::Bytes> inputs;
  Term output, h, c, loss;
  std::vector<Term> arguments, gradients;

  LayerProgram(const PlainLayer& plain, bool again) {
    Emitter e(program);
    program.iterations = 1;
    const std::int64_t width = gate_count(plain.kind) * kHidden;
    RecurrentLayer layer;
    layer.kind = plain.kind;
    layer.reverse = plain.reverse;
    layer.has_bias = true;
    layer.x = input(e, {kSteps, kBatch, kFeatures}, plain.x);
    layer.w_input = input(e, {width, kFeatures}, plain.w_input);
    layer.w_hidden = input(e, {width, kHidden}, plain.w_hidden);
    layer.b_input = input(e, {width}, plain.b_input);
    layer.b_hidden = input(e, {width}, plain.b_hidden);
    layer.h = input(e, {kBatch, kHidden}, plain.h);
    arguments = {layer.x, layer.w_input, layer.w_hidden, layer.b_input, layer.b_hidden, layer.h};
    const bool lstm = plain.kind == CellKind::kLstm;
    if (lstm) arguments.push_back(layer.c = input(e, {kBatch, kHidden}, plain.c));
    LayerRun run = run_layer(e, layer);
    output = run.output;
    h = run.steps.back().h;
    c = run.steps.back().c;
    const Term dy = input(e, {kSteps, kBatch, kHidden}, numbers(kSteps * kBatch * kHidden, 8));
    const Term dh = input(e, {kBatch, kHidden}, numbers(kBatch * kHidden, 9));
    const Term dc = lstm ? input(e, {kBatch, kHidden}, numbers(kBatch * kHidden, 10)) : Term();
    const auto weighted = [&](const Term& a, const Term& b) {
      const Term product = e.binary(OpKind::kMultiply, a, b);
      return e.sum(e.reshape(product, {product.elements()}), {0});
    };
    loss = e.binary(OpKind::kAdd, weighted(output, dy), weighted(h, dh));
    if (lstm) loss = e.binary(OpKind::kAdd, loss, weighted(c, dc));
    if (again) run = rerun_layer(e, layer, output);
    const LayerGradients g = layer_gradients(e, layer, run, dy, dh, dc);
    gradients = {g.x, g.w_input, g.w_hidden, g.b_input, g.b_hidden, g.h};
    if (lstm) gradients.push_back(g.c);
    EXPECT_EQ(e.failure(), "");
    const auto valid = graph::verify(program);
    EXPECT_TRUE(valid) << valid.error().message;
  }

  Term input(Emitter& e, const Sizes& sizes, const Reals& content) {
    Term term;
    term.dtype = DType::kF64;
    term.operand.view = graph::View::contiguous(sizes);
    term.operand.value = e.outside_value(graph::ValueKind::kInput, DType::kF64, term.operand.view.elements(), "");
    program.inputs.push_back({term.operand.value, {0}, false});
    inputs.resize(program.values.size());
    graph::Bytes& bytes = inputs[term.operand.value];
    bytes.resize(content.size() * sizeof(double));
    graph::store({false, content, {}}, DType::kF64, term.operand.view, bytes);
    return term;
  }

  Reals read(const std::vector<graph::Bytes>& values, const Term& term) const {
    return graph::load(values[term.operand.value], DType::kF64, term.operand.view).real;
  }
  std::vector<graph::Bytes> run() const {
    auto values = graph::run_iteration(program, inputs, {});
    EXPECT_TRUE(values) << values.error().message;
    return values ? *std::move(values) : std::vector<graph::Bytes>{};
  }
};

void expect_near(const Reals& got, const Reals& want, double bound, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], bound) << what << ", element " << i;
}

TEST(Recurrent, LayersAgreeWithPlainLoops) {
  for (const CellKind kind : kKinds) {
    for (const bool reverse : {false, true}) {
      PlainLayer plain = plain_layer(kind, reverse);
      const LayerProgram made(plain, false);
      const auto values = made.run();
      plain.run();
      const std::string what = "kind " + std::to_string(static_cast<int>(kind));
      expect_near(made.read(values, made.output), plain.y, 1e-12, what);
      expect_near(made.read(values, made.h), plain.h, 1e-12, what);
      if (kind == CellKind::kLstm) expect_near(made.read(values, made.c), plain.c, 1e-12, what);
    }
  }
}

TEST(Recurrent, GradientsAgreeWithDifferences) {
  for (const CellKind kind : kKinds) {
    for (const bool again : {false, true}) {
      LayerProgram made(plain_layer(kind, again), again);
      const auto values = made.run();
      for (std::size_t a = 0; a < made.arguments.size(); ++a) {
        Reals differences;
        const Term& argument = made.arguments[a];
        const Reals content = made.read(values, argument);
        for (std::size_t i = 0; i < content.size(); ++i) {
          double loss[2];
          for (const int side : {0, 1}) {
            Reals moved = content;
            moved[i] += side == 0 ? -1e-5 : 1e-5;
            graph::store({false, moved, {}}, DType::kF64, argument.operand.view, made.inputs[argument.operand.value]);
            loss[side] = made.read(made.run(), made.loss)[0];
          }
          differences.push_back((loss[1] - loss[0]) / 2e-5);
        }
        graph::store({false, content, {}}, DType::kF64, argument.operand.view, made.inputs[argument.operand.value]);
        expect_near(made.read(values, made.gradients[a]), differences, 1e-8,
                    "kind " + std::to_string(static_cast<int>(kind)) + ", argument " + std::to_string(a));
      }
    }
  }
}

constexpr const char* kCudnn =
    "aten::_cudnn_rnn(Tensor input, Tensor[] weight, int weight_stride0, Tensor? weight_buf, Tensor hx, Tensor? cx, "
    "int mode, SymInt hidden_size, SymInt proj_size, int num_layers, bool batch_first, float dropout, bool train, "
    "bool bidirectional, SymInt[] batch_sizes, Tensor? dropout_state) -> (Tensor, Tensor, Tensor, Tensor, Tensor)";

std::vector<float> narrowed(const Reals& content) { return {content.begin(), content.end()}; }

/// Two layers of a GRU in both directions, batch first, the output added to a parameter in each of two iterations.
struct CudnnTrace {
  TraceBuilder b;
  trace::TensorId kept;
  std::vector<PlainLayer> layers;  // layer by layer, direction by direction
  Reals x = numbers(kBatch * kSteps * kFeatures, 1), h = numbers(4 * kBatch * kHidden, 2);  // x is [batch, steps, ...]

  explicit CudnnTrace(double dropout) {
    std::vector<std::pair<trace::TensorId, Reals>> given;
    const auto outside = [&](const Sizes& sizes, const Reals& content) {
      given.emplace_back(b.fresh(sizes), content);
      return B::tensor(given.back().first);
    };
    std::vector<trace::Arg> weights;
    for (int i = 0; i < 4; ++i) {
      const std::int64_t features = i < 2 ? kFeatures : 2 * kHidden, width = 3 * kHidden;
      PlainLayer layer{CellKind::kGru, i % 2 == 1, kSteps, kBatch, features, kHidden, {}, {}, {}, {}, {}, {}, {}, {}};
      layer.w_input = numbers(width * features, 10 * i + 11);
      layer.w_hidden = numbers(width * kHidden, 10 * i + 12);
      layer.b_input = numbers(width, 10 * i + 13);
      layer.b_hidden = numbers(width, 10 * i + 14);
      const auto first = h.begin() + i * kBatch * kHidden;
      layer.h.assign(first, first + kBatch * kHidden);
      weights.push_back(outside({width, features}, layer.w_input));
      weights.push_back(outside({width, kHidden}, layer.w_hidden));
      weights.push_back(outside({width}, layer.b_input));
      weights.push_back(outside({width}, layer.b_hidden));
      layers.push_back(std::move(layer));
    }
    kept = b.fresh({kBatch, kSteps, 2 * kHidden});
    b.external(b.storage_of(kept), std::vector<float>(kBatch * kSteps * 2 * kHidden), trace::Role::kParameter, "kept");
    const auto input = outside({kBatch, kSteps, kFeatures}, x), states = outside({4, kBatch, kHidden}, h);
    for (int iteration = 0; iteration < 2; ++iteration) {
      for (const auto& [id, content] : given) b.external(b.storage_of(id), narrowed(content), trace::Role::kInput);
      step(input, states, weights, dropout);
    }
  }

  void step(const trace::Arg& input, const trace::Arg& states, const std::vector<trace::Arg>& weights, double dropout) {
    const auto y = b.fresh({kBatch, kSteps, 2 * kHidden}), hy = b.fresh({4, kBatch, kHidden}), cy = b.fresh({0}),
               reserve = b.fresh({8}, DType::kU8), buffer = b.fresh({8});
    b.op(kCudnn,
         {input, B::list(weights), B::integer(4), B::none(), states, B::none(), B::integer(3), B::integer(kHidden),
          B::integer(0), B::integer(2), B::boolean(true), B::number(dropout), B::boolean(true), B::boolean(true),
          B::integers({}), B::none()},
         {B::tensor(y), B::tensor(hy), B::tensor(cy), B::tensor(reserve), B::tensor(buffer)});
    b.op(kAddInPlace, {B::tensor(kept), B::tensor(y), B::integer(1)}, {B::tensor(kept)});
    b.end_iteration();
  }
};

TEST(Recurrent, StackedLayersInBothDirections) {
  CudnnTrace made(0);
  const auto program = lower(made.b.trace());
  ASSERT_TRUE(program) << program.error().message;
  const auto replay = graph::replay_reference(*program, *made.b.trace().blob_store, 1);
  ASSERT_TRUE(replay) << replay.error().message;
  ASSERT_EQ(replay->states.size(), 1u);
  // The plain layers take [steps, batch, features].
  Reals input(made.x.size());
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  for (std::int64_t n = 0; n < kBatch; ++n) {
    for (std::int64_t t = 0; t < kSteps; ++t) {
      for (std::int64_t k = 0; k < kFeatures; ++k)
        input[at((t * kBatch + n) * kFeatures + k)] = made.x[at((n * kSteps + t) * kFeatures + k)];
    }
  }
  for (std::size_t i = 0; i < 4; i += 2) {
    Reals both(at(kSteps * kBatch * 2 * kHidden));
    for (std::size_t direction = 0; direction < 2; ++direction) {
      PlainLayer& layer = made.layers[i + direction];
      layer.x = input;
      layer.run();
      for (std::int64_t row = 0; row < kSteps * kBatch; ++row) {
        for (std::int64_t j = 0; j < kHidden; ++j)
          both[at((row * 2 + static_cast<std::int64_t>(direction)) * kHidden + j)] = layer.y[at(row * kHidden + j)];
      }
    }
    input = both;
  }
  const std::vector<float> got = floats(replay->states[0]);
  ASSERT_EQ(got.size(), input.size());
  for (std::int64_t n = 0; n < kBatch; ++n) {
    for (std::int64_t t = 0; t < kSteps; ++t) {
      for (std::int64_t k = 0; k < 2 * kHidden; ++k)
        EXPECT_NEAR(got[at((n * kSteps + t) * 2 * kHidden + k)], input[at((t * kBatch + n) * 2 * kHidden + k)], 1e-6);
    }
  }
}

TEST(Recurrent, DropoutIsRefused) {
  CudnnTrace made(0.5);
  const auto program = lower(made.b.trace());
  ASSERT_FALSE(program);
  EXPECT_THAT(program.error().message, testing::HasSubstr("recurrent layers with dropout are not supported"));
}

}  // namespace
}  // namespace crucible::aten
