// Loops written out: see shapes.hpp.
#include "tests/scale/shapes.hpp"

#include <array>
#include <utility>
#include <vector>

namespace crucible::scale {
namespace {

using graph::kNone;
using graph::Operand;
using graph::OpId;
using graph::OpKind;
using graph::Phase;
using graph::Program;
using graph::ValueId;
using graph::ValueKind;
using graph::View;
using Sizes = std::vector<std::int64_t>;

class Builder {
 public:
  Builder() {
    program.iterations = 1;
    for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kOptimizer})
      program.sources.push_back({.op = "aten::op", .module = "", .site = "scale.py:1", .phase = phase});
  }

  Operand outside(ValueKind kind, const Sizes& sizes, DType dtype = DType::kF32) {
    const Operand made = value(kind, sizes, dtype);
    if (kind == ValueKind::kInput) program.inputs.push_back({made.value, {0}, false});
    if (kind == ValueKind::kConstant) program.constants.push_back({made.value, 0});
    if (kind == ValueKind::kState) program.states.push_back({made.value, made.value, kNone, kNone});
    return made;
  }
  Operand op(OpKind kind, std::vector<Operand> inputs, const Sizes& sizes, DType dtype = DType::kF32,
             graph::Attributes attributes = {}) {
    const Operand made = value(ValueKind::kTemporary, sizes, dtype);
    program.values[made.value].producer = static_cast<OpId>(program.ops.size());
    program.ops.push_back({.kind = kind,
                           .inputs = std::move(inputs),
                           .outputs = {made},
                           .attributes = std::move(attributes),
                           .source = static_cast<std::uint32_t>(phase)});
    return made;
  }
  /// Element-wise, of the first operand's sizes.
  Operand map(OpKind kind, std::vector<Operand> inputs) {
    const Sizes sizes = inputs[0].view.sizes;
    return op(kind, std::move(inputs), sizes);
  }
  Operand product(const Operand& a, const Operand& b) {
    Sizes sizes = a.view.sizes;
    sizes.back() = b.view.sizes.back();
    return op(OpKind::kMatMul, {a, b}, sizes);
  }
  Operand sum(const Operand& x) {
    graph::Attributes attributes;
    for (std::size_t d = 0; d < x.view.sizes.size(); ++d) attributes.dims.push_back(static_cast<std::int64_t>(d));
    Operand made = op(OpKind::kReduceSum, {x}, Sizes(x.view.sizes.size(), 1), DType::kF32, attributes);
    for (auto& stride : program.ops.back().outputs[0].view.strides) stride = 0;
    made.view = View::contiguous({});
    return made;
  }
  void loss(const Operand& number) {
    program.outputs.push_back({.name = "loss", .operand = number, .recorded = {0.0}});
  }
  void end(const Operand& state, const Operand& now) {
    for (graph::State& of : program.states) {
      if (of.start == state.value) of.end = now.value;
    }
  }

  std::size_t ops() const { return program.ops.size(); }
  Program program;
  Phase phase = Phase::kForward;

 private:
  Operand value(ValueKind kind, const Sizes& sizes, DType dtype) {
    View view = View::contiguous(sizes);
    const auto id = static_cast<ValueId>(program.values.size());
    program.values.push_back({.kind = kind,
                              .dtype = dtype,
                              .elements = view.elements(),
                              .name = kind == ValueKind::kState ? "w" + std::to_string(id) : ""});
    return {id, std::move(view), {}};
  }
};

Operand number(double value) {
  Operand made;
  made.scalar.real = value;
  return made;
}
Operand whole_number(std::int64_t value) {
  Operand made;
  made.scalar.is_integer = true;
  made.scalar.integer = value;
  return made;
}
Operand transposed(Operand x) {
  const std::size_t rank = x.view.sizes.size();
  std::swap(x.view.sizes[rank - 1], x.view.sizes[rank - 2]);
  std::swap(x.view.strides[rank - 1], x.view.strides[rank - 2]);
  return x;
}
/// Row `i` of a matrix, as it lies in a larger one.
Operand row(Operand x, std::int64_t i) {
  x.view.offset += i * x.view.strides[0];
  x.view.sizes.erase(x.view.sizes.begin());
  x.view.strides.erase(x.view.strides.begin());
  return x;
}

/// x += f(x) dt + g(x) dw, with two small networks, and the gradients of their weights.
Program solver(std::size_t ops) {
  Builder b;
  const Sizes sizes = {16, 8};
  const std::size_t steps = ops / 24 + 1;
  const Operand noise = b.outside(ValueKind::kInput, {static_cast<std::int64_t>(steps), 16, 8});
  const Operand drift = b.outside(ValueKind::kState, {8, 8}), spread = b.outside(ValueKind::kState, {8, 8});
  Operand x = b.outside(ValueKind::kInput, sizes);
  std::vector<Operand> before, f, g;
  for (std::size_t t = 0; t < steps; ++t) {
    before.push_back(x);
    f.push_back(b.map(OpKind::kTanh, {b.product(x, drift)}));
    g.push_back(b.map(OpKind::kSigmoid, {b.product(x, spread)}));
    const Operand moved = b.map(OpKind::kAdd, {x, b.map(OpKind::kMultiply, {f.back(), number(0.01)})});
    x = b.map(OpKind::kAdd, {moved, b.map(OpKind::kMultiply, {g.back(), row(noise, static_cast<std::int64_t>(t))})});
  }
  b.loss(b.sum(x));
  b.phase = Phase::kBackward;
  Operand gradient = b.op(OpKind::kFill, {number(1)}, sizes), of_drift, of_spread;
  for (std::size_t t = steps; t-- > 0;) {
    const Operand df =
        b.map(OpKind::kMultiply, {b.map(OpKind::kMultiply, {gradient, number(0.01)}),
                                  b.map(OpKind::kSubtract, {b.map(OpKind::kMultiply, {f[t], f[t]}), number(1)})});
    const Operand dg =
        b.map(OpKind::kMultiply, {b.map(OpKind::kMultiply, {gradient, row(noise, static_cast<std::int64_t>(t))}),
                                  b.map(OpKind::kMultiply, {g[t], g[t]})});
    const Operand wf = b.product(transposed(before[t]), df), wg = b.product(transposed(before[t]), dg);
    of_drift = of_drift.is_scalar() ? wf : b.map(OpKind::kAdd, {of_drift, wf});
    of_spread = of_spread.is_scalar() ? wg : b.map(OpKind::kAdd, {of_spread, wg});
    gradient =
        b.map(OpKind::kAdd,
              {gradient, b.map(OpKind::kAdd, {b.product(df, transposed(drift)), b.product(dg, transposed(spread))})});
  }
  b.phase = Phase::kOptimizer;
  b.end(drift, b.map(OpKind::kAdd, {drift, b.map(OpKind::kMultiply, {of_drift, number(-0.1)})}));
  b.end(spread, b.map(OpKind::kAdd, {spread, b.map(OpKind::kMultiply, {of_spread, number(-0.1)})}));
  return std::move(b.program);
}

/// h = tanh(h w + x u) with its backward pass.
Program recurrent(std::size_t ops) {
  Builder b;
  const std::size_t steps = ops / 14 + 1;
  const Operand x = b.outside(ValueKind::kInput, {static_cast<std::int64_t>(steps), 8, 4});
  const Operand w = b.outside(ValueKind::kState, {16, 16}), u = b.outside(ValueKind::kState, {4, 16});
  std::vector<Operand> h = {b.op(OpKind::kFill, {number(0)}, {8, 16})};
  for (std::size_t t = 0; t < steps; ++t) {
    h.push_back(b.map(OpKind::kTanh, {b.map(OpKind::kAdd, {b.product(h.back(), w),
                                                           b.product(row(x, static_cast<std::int64_t>(t)), u)})}));
  }
  b.loss(b.sum(h.back()));
  b.phase = Phase::kBackward;
  Operand gradient = b.op(OpKind::kFill, {number(1)}, {8, 16}), of_w, of_u;
  for (std::size_t t = steps; t-- > 0;) {
    const Operand inner = b.map(
        OpKind::kMultiply,
        {gradient, b.op(OpKind::kSubtract, {number(1), b.map(OpKind::kMultiply, {h[t + 1], h[t + 1]})}, {8, 16})});
    const Operand dw = b.product(transposed(h[t]), inner),
                  du = b.product(transposed(row(x, static_cast<std::int64_t>(t))), inner);
    of_w = of_w.is_scalar() ? dw : b.map(OpKind::kAdd, {of_w, dw});
    of_u = of_u.is_scalar() ? du : b.map(OpKind::kAdd, {of_u, du});
    gradient = b.product(inner, transposed(w));
  }
  b.phase = Phase::kOptimizer;
  b.end(w, b.map(OpKind::kAdd, {w, b.map(OpKind::kMultiply, {of_w, number(-0.1)})}));
  b.end(u, b.map(OpKind::kAdd, {u, b.map(OpKind::kMultiply, {of_u, number(-0.1)})}));
  return std::move(b.program);
}

Program chain(std::size_t ops) {
  Builder b;
  Operand x = b.outside(ValueKind::kState, {64});
  const Operand start = x;
  while (b.ops() + 2 < ops) x = b.map(b.ops() % 3 == 0 ? OpKind::kTanh : OpKind::kNegate, {x});
  b.loss(b.sum(x));
  b.end(start, b.map(OpKind::kAdd, {x, number(1)}));
  return std::move(b.program);
}

/// Large enough that the backward pass computes some of it again.
Program deep(std::size_t ops) {
  Builder b;
  const Operand w = b.outside(ValueKind::kState, {4096});
  std::vector<Operand> x = {b.map(OpKind::kMultiply, {b.outside(ValueKind::kInput, {4096}), w})};
  while (b.ops() < ops / 3)
    x.push_back(b.map(b.ops() % 5 == 0 ? OpKind::kSin : OpKind::kMultiply,
                      b.ops() % 5 == 0 ? std::vector{x.back()} : std::vector{x.back(), number(1.01)}));
  b.loss(b.sum(x.back()));
  b.phase = Phase::kBackward;
  Operand gradient = b.op(OpKind::kFill, {number(1)}, {4096});
  for (std::size_t i = x.size(); i-- > 0;)
    gradient = b.map(OpKind::kMultiply, {gradient, b.map(OpKind::kAdd, {x[i], number(0.5)})});
  b.phase = Phase::kOptimizer;
  b.end(w, b.map(OpKind::kAdd, {w, b.map(OpKind::kMultiply, {gradient, number(-0.1)})}));
  return std::move(b.program);
}

Program fan_out(std::size_t ops) {
  Builder b;
  const Operand x = b.map(OpKind::kTanh, {b.outside(ValueKind::kInput, {32})});
  Operand total = x;
  while (b.ops() < ops)
    total = b.map(OpKind::kAdd, {total, b.map(OpKind::kMultiply, {x, number(static_cast<double>(b.ops()))})});
  b.loss(b.sum(total));
  return std::move(b.program);
}

/// One value that all products read, and sums of their results.
Program fan_out_of_products(std::size_t ops) {
  Builder b;
  const Operand x = b.map(OpKind::kTanh, {b.outside(ValueKind::kInput, {4, 4})}),
                weights = b.outside(ValueKind::kConstant, {static_cast<std::int64_t>(ops / 2 + 1), 4, 4});
  std::vector<Operand> made;
  while (b.ops() < ops / 2) made.push_back(b.product(x, row(weights, static_cast<std::int64_t>(b.ops()))));
  Operand total = x;
  for (const Operand& one : made) total = b.map(OpKind::kAdd, {total, one});
  b.loss(b.sum(total));
  return std::move(b.program);
}

/// Small parameters by the thousand, each with its own update.
Program independent(std::size_t ops) {
  Builder b;
  const Operand rate = b.sum(b.outside(ValueKind::kInput, {16}));
  b.loss(rate);
  while (b.ops() < ops) {
    const Operand w = b.outside(ValueKind::kState, {16}), input = b.outside(ValueKind::kInput, {16});
    Operand scaled = rate;
    scaled.view = {0, {16}, {0}};
    b.end(w, b.map(OpKind::kSubtract, {w, b.map(OpKind::kMultiply, {b.map(OpKind::kTanh, {input}), scaled})}));
  }
  return std::move(b.program);
}

/// index_put in a loop: the same buffer again and again.
Program puts(std::size_t ops) {
  Builder b;
  const std::size_t steps = ops / 2 + 1;
  const Operand index = b.outside(ValueKind::kInput, {static_cast<std::int64_t>(steps), 4}, DType::kI64),
                source = b.outside(ValueKind::kInput, {static_cast<std::int64_t>(steps), 4});
  Operand x = b.op(OpKind::kFill, {number(0)}, {64});
  for (std::size_t t = 0; t < steps; ++t) {
    const auto i = static_cast<std::int64_t>(t);
    x = b.op(t % 3 == 0 ? OpKind::kPutSet : OpKind::kPutAdd,
             {x, b.op(OpKind::kAdd, {row(index, i), whole_number(1)}, {4}, DType::kI64), row(source, i)}, {64});
  }
  b.loss(b.sum(x));
  return std::move(b.program);
}

/// Slices of one buffer are written one after the other, some of them read in between.
Program slices(std::size_t ops) {
  Builder b;
  Operand x = b.outside(ValueKind::kState, {64, 8});
  const Operand start = x;
  x.view = View::contiguous({512});
  while (b.ops() + 2 < ops) {
    graph::Attributes attributes;
    const auto at = static_cast<std::int64_t>(b.ops() % 64);
    Operand part = x;
    part.view = {(at * 7 % 64) * 8, {8}, {1}};
    attributes.region = {at * 8, {8}, {1}};
    x = b.op(OpKind::kUpdate, {x, b.map(OpKind::kSin, {part})}, {512}, DType::kF32, attributes);
  }
  b.loss(b.sum(x));
  b.end(start, x);
  return std::move(b.program);
}

/// Many views of one tensor, each with ops of its own, joined in the end.
Program views(std::size_t ops) {
  Builder b;
  const std::size_t count = ops / 3 + 1;
  const Operand x = b.outside(ValueKind::kInput, {static_cast<std::int64_t>(count), 16});
  graph::Attributes attributes;
  attributes.dims = {0};
  Operand total;
  for (std::size_t i = 0; i < count; ++i) {
    const Operand part =
        b.map(OpKind::kTanh, {b.map(OpKind::kMultiply, {row(x, static_cast<std::int64_t>(i)), number(0.5)})});
    total = total.is_scalar() ? part : b.map(OpKind::kMaximum, {total, part});
  }
  b.loss(b.sum(total));
  return std::move(b.program);
}

Program numbers(std::size_t ops) {
  Builder b;
  std::vector<Operand> pool = {b.outside(ValueKind::kInput, {}), b.outside(ValueKind::kInput, {})};
  while (b.ops() + 1 < ops) pool.push_back(b.map(OpKind::kAdd, {pool[pool.size() - 1], pool[pool.size() / 2]}));
  b.loss(pool.back());
  return std::move(b.program);
}

/// Layers of small attentions.
Program attentions(std::size_t ops) {
  Builder b;
  Operand x = b.outside(ValueKind::kInput, {2, 16, 8});
  graph::Attributes last;
  last.dims = {2};
  const auto reduced = [&](OpKind kind, const Operand& of) {
    Operand made = b.op(kind, {of}, {2, 16, 1}, DType::kF32, last);
    b.program.ops.back().outputs[0].view.strides[2] = 0;
    made.view = {0, {2, 16, 16}, {16, 1, 0}};
    return made;
  };
  while (b.ops() + 1 < ops) {
    const Operand scores = b.map(OpKind::kMultiply, {b.product(x, transposed(x)), number(0.25)});
    const Operand powers =
        b.map(OpKind::kExp, {b.map(OpKind::kSubtract, {scores, reduced(OpKind::kReduceMax, scores)})});
    x = b.map(OpKind::kAdd, {x, b.product(b.map(OpKind::kDivide, {powers, reduced(OpKind::kReduceSum, powers)}), x)});
  }
  b.loss(b.sum(x));
  return std::move(b.program);
}

/// What is filled is read by kernels that compute it themselves and by others that need it in memory.
Program fills(std::size_t ops) {
  Builder b;
  const Operand index = b.outside(ValueKind::kInput, {4}, DType::kI64), x = b.outside(ValueKind::kInput, {16});
  Operand total = x;
  while (b.ops() < ops) {
    const Operand zeros = b.op(OpKind::kFill, {number(static_cast<double>(b.ops() % 7))}, {16});
    Operand few = x;
    few.view = View::contiguous({4});
    const Operand marked = b.op(OpKind::kPutSet, {zeros, index, few}, {16});
    total = b.map(OpKind::kAdd, {total, b.map(OpKind::kMultiply, {marked, zeros})});
  }
  b.loss(b.sum(total));
  return std::move(b.program);
}

/// Nothing that fuses: sorting, running sums, products.
Program apart(std::size_t ops) {
  Builder b;
  Operand x = b.outside(ValueKind::kInput, {8, 8});
  graph::Attributes along;
  along.dims = {1};
  while (b.ops() + 1 < ops)
    x = b.ops() % 2 == 0 ? b.op(OpKind::kScanSum, {x}, {8, 8}, DType::kF32, along) : b.product(x, transposed(x));
  b.loss(b.sum(x));
  return std::move(b.program);
}

constexpr std::array kShapes = {
    Shape{"solver", solver},
    Shape{"recurrent", recurrent},
    Shape{"chain", chain},
    Shape{"deep", deep},
    Shape{"fan_out", fan_out},
    Shape{"products", fan_out_of_products},
    Shape{"independent", independent},
    Shape{"puts", puts},
    Shape{"slices", slices},
    Shape{"views", views},
    Shape{"numbers", numbers},
    Shape{"attentions", attentions},
    Shape{"fills", fills},
    Shape{"apart", apart},
};

}  // namespace

std::span<const Shape> shapes() { return kShapes; }

}  // namespace crucible::scale
