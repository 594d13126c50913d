// The synthetic recordings of the graph's benchmark: see training_trace.hpp.
#include "tests/bench/training_trace.hpp"

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "frontends/aten/testing/trace_builder.hpp"

namespace crucible::bench {
namespace {

using aten::TraceBuilder;
using trace::Arg;
using trace::Phase;
using trace::TensorId;
using Sizes = std::vector<std::int64_t>;

constexpr std::int64_t kRows = 8, kWidth = 16, kHeads = 2, kHidden = 64;

struct Parameter {
  std::string name;
  Sizes sizes;
  TensorId tensor = trace::kNone, first = trace::kNone, second = trace::kNone, gradient = trace::kNone;
};

/// What the backward pass of one block reads again.
struct Saved {
  TensorId input, normal, mean, scale, query, key, value, weights, mixed, middle, normal2, mean2, scale2, hidden,
      active;
};

class Training {
 public:
  explicit Training(const TrainingShape& shape) : shape_(shape) {}

  trace::Trace run() {
    for (std::size_t i = 0; i < shape_.iterations; ++i) {
      iteration_ = i;
      step();
    }
    for (const Parameter& p : parameters_) {
      for (const TensorId id : {p.tensor, p.first, p.second})
        trace_.final_state(trace_.storage_of(id), content(p.sizes));
    }
    return trace_.trace();
  }

 private:
  void step() {
    ops_ = 0;
    next_parameter_ = 0;
    phase_ = Phase::kForward;
    TensorId x = trace_.fresh({kRows, kWidth});
    trace_.external(trace_.storage_of(x), content({kRows, kWidth}), trace::Role::kInput, "x");
    std::vector<Saved> saved;
    // Of a block's ops that many stand in the forward pass; the first iteration decides how many blocks there are.
    const std::size_t ops_per_block = shape_.foreach ? 88 : 216;
    while (iteration_ == 0 ? saved.empty() || ops_ * ops_per_block / kForwardOps < shape_.ops
                           : saved.size() < blocks_) {
      saved.push_back(forward(saved.size(), x));
      x = output_;
    }
    blocks_ = saved.size();
    trace_.module("");
    const TensorId loss = apply("aten::mean(Tensor self, *, ScalarType? dtype=None) -> Tensor", {t(x), none()}, {});
    trace_.loss(loss, 0.5);
    phase_ = Phase::kBackward;
    TensorId gradient = apply(
        "aten::ones_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
        "bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
        {t(loss), none(), none(), none(), none(), none()}, {});
    gradient = again("aten::expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)",
                     {t(gradient), TraceBuilder::integers({kRows, kWidth}), TraceBuilder::boolean(false)}, gradient,
                     {kRows, kWidth}, {0, 0});
    gradient = apply("aten::div.Scalar(Tensor self, Scalar other) -> Tensor", {t(gradient), number(kRows * kWidth)},
                     {kRows, kWidth});
    for (std::size_t block = blocks_; block-- > 0;) gradient = backward(block, saved[block], gradient);
    phase_ = Phase::kOptimizer;
    shape_.foreach ? step_together() : step_one_by_one();
    trace_.end_iteration();
  }

  Saved forward(std::size_t block, TensorId x) {
    const std::string name = "blocks." + std::to_string(block);
    Saved s{};
    s.input = x;
    std::tie(s.normal, s.mean, s.scale) = layer_norm(name + ".norm1", x);
    s.query = heads(linear(name + ".query", s.normal, kWidth, kWidth));
    s.key = heads(linear(name + ".key", s.normal, kWidth, kWidth));
    s.value = heads(linear(name + ".value", s.normal, kWidth, kWidth));
    trace_.module(name + ".attention");
    TensorId scores = bmm(s.query, transposed(s.key), kRows, kRows);
    scores = apply(kMulScalar, {t(scores), number(0.35)}, {kHeads, kRows, kRows});
    s.weights = apply("aten::_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
                      {t(scores), integer(-1), TraceBuilder::boolean(false)}, {kHeads, kRows, kRows});
    s.mixed = rows(bmm(s.weights, s.value, kRows, kWidth / kHeads));
    const TensorId attended = linear(name + ".out", s.mixed, kWidth, kWidth);
    trace_.module(name);
    s.middle = add(x, attended);
    std::tie(s.normal2, s.mean2, s.scale2) = layer_norm(name + ".norm2", s.middle);
    s.hidden = linear(name + ".up", s.normal2, kWidth, kHidden);
    trace_.module(name + ".gelu");
    s.active = apply("aten::gelu(Tensor self, *, str approximate=\"none\") -> Tensor", {t(s.hidden), text("none")},
                     {kRows, kHidden});
    const TensorId down = linear(name + ".down", s.active, kHidden, kWidth);
    trace_.module(name);
    output_ = add(s.middle, down);
    return s;
  }

  /// Parameters of a block: norm1 (2), query, key, value, out (2 each), norm2, up, down.
  TensorId backward(std::size_t block, const Saved& s, TensorId gradient) {
    Parameter* p = &parameters_[block * kParametersPerBlock];
    TensorId g = linear_backward(p[14], p[15], s.active, gradient, kHidden, kWidth);
    g = apply("aten::gelu_backward(Tensor grad_output, Tensor self, *, str approximate=\"none\") -> Tensor",
              {t(g), t(s.hidden), text("none")}, {kRows, kHidden});
    g = linear_backward(p[12], p[13], s.normal2, g, kWidth, kHidden);
    g = layer_norm_backward(p[10], p[11], g, s.middle, s.mean2, s.scale2);
    gradient = add(gradient, g);
    const TensorId mixed = heads(linear_backward(p[8], p[9], s.mixed, gradient, kWidth, kWidth));
    const TensorId value = bmm(transposed(s.weights), mixed, kRows, kWidth / kHeads);
    g = bmm(mixed, transposed(s.value), kRows, kRows);
    g = apply(
        "aten::_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
        {t(g), t(s.weights), integer(-1), float_type()}, {kHeads, kRows, kRows});
    g = apply(kMulScalar, {t(g), number(0.35)}, {kHeads, kRows, kRows});
    const TensorId query = bmm(g, s.key, kRows, kWidth / kHeads);
    const TensorId key = bmm(transposed(g), s.query, kRows, kWidth / kHeads);
    g = linear_backward(p[6], p[7], s.normal, rows(value), kWidth, kWidth);
    g = add(g, linear_backward(p[4], p[5], s.normal, rows(key), kWidth, kWidth));
    g = add(g, linear_backward(p[2], p[3], s.normal, rows(query), kWidth, kWidth));
    return add(gradient, layer_norm_backward(p[0], p[1], g, s.input, s.mean, s.scale));
  }

  void step_one_by_one() {
    for (const Parameter& p : parameters_) {
      in_place("aten::mul_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", {t(p.tensor), number(0.999)});
      in_place("aten::lerp_.Scalar(Tensor(a!) self, Tensor end, Scalar weight) -> Tensor(a!)",
               {t(p.first), t(p.gradient), number(0.1)});
      in_place("aten::mul_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", {t(p.second), number(0.99)});
      in_place("aten::addcmul_(Tensor(a!) self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor(a!)",
               {t(p.second), t(p.gradient), t(p.gradient), number(0.01)});
      TensorId root = apply("aten::sqrt(Tensor self) -> Tensor", {t(p.second)}, p.sizes);
      root = apply("aten::div.Scalar(Tensor self, Scalar other) -> Tensor", {t(root), correction(0.5)}, p.sizes);
      in_place("aten::add_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)",
               {t(root), number(1e-8), integer(1)});
      in_place("aten::addcdiv_(Tensor(a!) self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor(a!)",
               {t(p.tensor), t(p.first), t(root), correction(-0.001)});
    }
  }

  void step_together() {
    const auto all = [&](TensorId Parameter::* member) {
      std::vector<Arg> items;
      for (const Parameter& p : parameters_) items.push_back(t(p.*member));
      return TraceBuilder::list(std::move(items));
    };
    in_place("aten::_foreach_mul_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()",
             {all(&Parameter::tensor), number(0.999)}, false);
    in_place("aten::_foreach_lerp_.Scalar(Tensor(a!)[] self, Tensor[] tensors1, Scalar weight) -> ()",
             {all(&Parameter::first), all(&Parameter::gradient), number(0.1)}, false);
    in_place("aten::_foreach_mul_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()",
             {all(&Parameter::second), number(0.99)}, false);
    in_place(
        "aten::_foreach_addcmul_.Scalar(Tensor(a!)[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar value=1) -> ()",
        {all(&Parameter::second), all(&Parameter::gradient), all(&Parameter::gradient), number(0.01)}, false);
    std::vector<Arg> roots, steps, corrections;
    for (const Parameter& p : parameters_) {
      roots.push_back(t(trace_.fresh(p.sizes)));
      steps.push_back(correction(-0.001));
      corrections.push_back(correction(0.5));
    }
    const Arg root = TraceBuilder::list(roots);
    record("aten::_foreach_sqrt(Tensor[] self) -> Tensor[]", {all(&Parameter::second)}, {root});
    in_place("aten::_foreach_div_.ScalarList(Tensor(a!)[] self, Scalar[] scalars) -> ()",
             {root, TraceBuilder::list(corrections)}, false);
    in_place("aten::_foreach_add_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()", {root, number(1e-8)}, false);
    in_place(
        "aten::_foreach_addcdiv_.ScalarList(Tensor(a!)[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar[] scalars) "
        "-> ()",
        {all(&Parameter::tensor), all(&Parameter::first), root, TraceBuilder::list(steps)}, false);
  }

  // --- layers
  std::tuple<TensorId, TensorId, TensorId> layer_norm(const std::string& name, TensorId x) {
    trace_.module(name);
    const TensorId weight = parameter(name + ".weight", {kWidth}), bias = parameter(name + ".bias", {kWidth});
    const TensorId out = trace_.fresh({kRows, kWidth}), mean = trace_.fresh({kRows, 1}),
                   scale = trace_.fresh({kRows, 1});
    record(
        "aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> "
        "(Tensor, Tensor, Tensor)",
        {t(x), TraceBuilder::integers({kWidth}), t(weight), t(bias), number(1e-5)}, {t(out), t(mean), t(scale)});
    return {out, mean, scale};
  }

  TensorId layer_norm_backward(Parameter& weight, Parameter& bias, TensorId gradient, TensorId x, TensorId mean,
                               TensorId scale) {
    const TensorId out = trace_.fresh({kRows, kWidth});
    weight.gradient = trace_.fresh({kWidth});
    bias.gradient = trace_.fresh({kWidth});
    const Arg yes = TraceBuilder::boolean(true);
    record(
        "aten::native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, "
        "Tensor rstd, "
        "Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
        {t(gradient), t(x), TraceBuilder::integers({kWidth}), t(mean), t(scale), t(weight.tensor), t(bias.tensor),
         TraceBuilder::list({yes, yes, yes})},
        {t(out), t(weight.gradient), t(bias.gradient)});
    return out;
  }

  TensorId linear(const std::string& name, TensorId x, std::int64_t in, std::int64_t out) {
    trace_.module(name);
    const TensorId weight = parameter(name + ".weight", {out, in}), bias = parameter(name + ".bias", {out});
    return apply("aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
                 {t(bias), t(x), t(turned(weight, out, in)), integer(1), integer(1)}, {kRows, out});
  }

  TensorId linear_backward(Parameter& weight, Parameter& bias, TensorId x, TensorId gradient, std::int64_t in,
                           std::int64_t out) {
    const TensorId result = apply(kMm, {t(gradient), t(weight.tensor)}, {kRows, in});
    weight.gradient = apply(kMm, {t(turned(gradient, kRows, out)), t(x)}, {out, in});
    const TensorId sum = apply(
        "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        {t(gradient), TraceBuilder::integers({0}), TraceBuilder::boolean(true), none()}, {1, out});
    bias.gradient = again("aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
                          {t(sum), TraceBuilder::integers({out})}, sum, {out}, {1});
    return result;
  }

  TensorId turned(TensorId matrix, std::int64_t rows, std::int64_t columns) {
    return again("aten::t(Tensor(a) self) -> Tensor(a)", {t(matrix)}, matrix, {columns, rows}, {1, columns});
  }

  /// [rows, width] seen as [heads, rows, width of a head].
  TensorId heads(TensorId x) {
    constexpr std::int64_t kPart = kWidth / kHeads;
    const TensorId split =
        again("aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
              {t(x), TraceBuilder::integers({kRows, kHeads, kPart})}, x, {kRows, kHeads, kPart}, {kWidth, kPart, 1});
    const TensorId view = again("aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
                                {t(split), integer(0), integer(1)}, x, {kHeads, kRows, kPart}, {kPart, kWidth, 1});
    return view;
  }

  /// The way back, through a copy.
  TensorId rows(TensorId x) {
    constexpr std::int64_t kPart = kWidth / kHeads;
    const TensorId view = again("aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
                                {t(x), integer(0), integer(1)}, x, {kRows, kHeads, kPart}, {kPart, kRows * kPart, 1});
    const TensorId copy = apply("aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
                                {t(view), none()}, {kRows, kHeads, kPart});
    return again("aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
                 {t(copy), TraceBuilder::integers({kRows, kWidth})}, copy, {kRows, kWidth}, {kWidth, 1});
  }

  TensorId transposed(TensorId x) {
    const trace::Tensor tensor = trace_.tensor_of(x);
    return again("aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", {t(x), integer(1), integer(2)},
                 x, {tensor.sizes[0], tensor.sizes[2], tensor.sizes[1]},
                 {tensor.strides[0], tensor.strides[2], tensor.strides[1]});
  }

  TensorId bmm(TensorId a, TensorId b, std::int64_t rows, std::int64_t columns) {
    return apply("aten::bmm(Tensor self, Tensor mat2) -> Tensor", {t(a), t(b)}, {kHeads, rows, columns});
  }

  TensorId add(TensorId a, TensorId b) { return apply(aten::kAdd, {t(a), t(b), integer(1)}, {kRows, kWidth}); }

  // --- records
  TensorId parameter(const std::string& name, const Sizes& sizes) {
    if (iteration_ == 0) {
      Parameter p{name, sizes};
      for (auto [id, role, prefix] : {std::tuple{&p.tensor, trace::Role::kParameter, ""},
                                      {&p.first, trace::Role::kOptimizerState, "exp_avg of "},
                                      {&p.second, trace::Role::kOptimizerState, "exp_avg_sq of "}}) {
        *id = trace_.fresh(sizes);
        trace_.external(trace_.storage_of(*id), content(sizes), role, prefix + name);
      }
      parameters_.push_back(std::move(p));
    }
    return parameters_[next_parameter_++].tensor;
  }

  static Arg t(TensorId id) { return TraceBuilder::tensor(id); }
  static Arg none() { return TraceBuilder::none(); }
  static Arg number(double value) { return TraceBuilder::number(value); }
  static Arg integer(std::int64_t value) { return TraceBuilder::integer(value); }
  static Arg text(const char* value) {
    Arg arg;
    arg.kind = Arg::Kind::kString;
    arg.text = value;
    return arg;
  }
  static Arg float_type() {
    Arg arg;
    arg.kind = Arg::Kind::kDType;
    arg.integer = static_cast<std::int64_t>(DType::kF32);
    return arg;
  }
  /// A number that is another one in each iteration.
  Arg correction(double value) const { return number(value * (1.0 + 0.125 * static_cast<double>(iteration_))); }

  void record(const std::string& schema, std::vector<Arg> args, std::vector<Arg> outputs) {
    trace_.op(schema, std::move(args), std::move(outputs), phase_);
    ++ops_;
  }
  TensorId apply(const std::string& schema, std::vector<Arg> args, const Sizes& sizes) {
    const TensorId out = trace_.fresh(sizes);
    record(schema, std::move(args), {t(out)});
    return out;
  }
  /// An op that returns a view of `x`.
  TensorId again(const std::string& schema, std::vector<Arg> args, TensorId x, const Sizes& sizes,
                 const Sizes& strides) {
    const TensorId out = trace_.view(trace_.storage_of(x), sizes, strides);
    record(schema, std::move(args), {t(out)});
    return out;
  }
  void in_place(const std::string& schema, std::vector<Arg> args, bool returns = true) {
    const std::vector<Arg> outputs = returns ? std::vector<Arg>{args[0]} : std::vector<Arg>{};
    record(schema, std::move(args), outputs);
  }

  /// Bytes that no other storage has.
  std::vector<float> content(const Sizes& sizes) {
    std::vector<float> values(static_cast<std::size_t>(graph::View::contiguous(sizes).elements()), 0.01f);
    contents_ += 1;
    values[0] = static_cast<float>(contents_ % 4096) / 4096;
    values.back() = static_cast<float>(contents_ / 4096);
    return values;
  }

  static constexpr const char* kMm = "aten::mm(Tensor self, Tensor mat2) -> Tensor";
  static constexpr const char* kMulScalar = "aten::mul.Scalar(Tensor self, Scalar other) -> Tensor";
  static constexpr std::size_t kParametersPerBlock = 16, kForwardOps = 31;

  const TrainingShape shape_;
  TraceBuilder trace_;
  Phase phase_ = Phase::kForward;
  std::size_t iteration_ = 0, ops_ = 0, blocks_ = 0, next_parameter_ = 0, contents_ = 0;
  std::vector<Parameter> parameters_;
  TensorId output_ = trace::kNone;
};

}  // namespace

trace::Trace training_trace(const TrainingShape& shape) { return Training(shape).run(); }

}  // namespace crucible::bench
