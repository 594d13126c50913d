// Programs with modules: see layers.hpp.
#include "core/merkle/testing/layers.hpp"

#include <fmt/format.h>

#include <random>
#include <utility>
#include <vector>

namespace crucible::merkle::testing {
namespace {

using graph::kNone;
using graph::Op;
using graph::Operand;
using graph::OpKind;
using graph::Phase;
using graph::Program;
using graph::ValueId;
using graph::ValueKind;
using graph::View;

using Sizes = std::vector<std::int64_t>;

class Builder {
 public:
  ValueId outside(ValueKind kind, const Sizes& sizes, const std::string& name) {
    const View view = View::contiguous(sizes);
    p.values.push_back({kind, DType::kF32, view.elements(), name, kNone});
    sizes_.push_back(sizes);
    return static_cast<ValueId>(p.values.size() - 1);
  }

  ValueId state(const Sizes& sizes, const std::string& name) {
    const ValueId value = outside(ValueKind::kState, sizes, name);
    p.states.push_back({value, value, 0, 0});
    return value;
  }

  void become(ValueId state, ValueId end) {
    for (graph::State& it : p.states) it.end = it.start == state ? end : it.end;
  }

  void at(Phase phase, const std::string& module, const std::string& op) {
    p.sources.push_back({op, module, "train.py:1", phase, static_cast<std::uint32_t>(p.sources.size())});
  }

  Operand tensor(ValueId value) const { return {value, View::contiguous(sizes_[value]), {}}; }
  Operand transposed(ValueId value) const {
    const Sizes& s = sizes_[value];
    return {value, View{0, {s[1], s[0]}, {1, s[1]}}, {}};
  }
  static Operand number(double real) {
    Operand operand;
    operand.scalar.real = real;
    return operand;
  }
  static Operand slot(std::uint32_t slot) {
    Operand operand;
    operand.scalar.slot = slot;
    return operand;
  }

  ValueId op(OpKind kind, std::vector<Operand> inputs, const Sizes& sizes, graph::Attributes attributes = {}) {
    const ValueId value = outside(ValueKind::kTemporary, sizes, "");
    p.values[value].producer = static_cast<graph::OpId>(p.ops.size());
    p.ops.push_back({kind,
                     std::move(inputs),
                     {{value, View::contiguous(sizes), {}}},
                     std::move(attributes),
                     static_cast<std::uint32_t>(p.sources.size() - 1)});
    return value;
  }

  const Sizes& sizes(ValueId value) const { return sizes_[value]; }

  Program p;

 private:
  std::vector<Sizes> sizes_;
};

}  // namespace

Program layered(const Layers& options) {
  Builder b;
  b.p.iterations = 1;
  b.p.slots = {{"lr", {graph::Number(0.1)}, false}};
  constexpr std::int64_t kRows = 8;
  const std::int64_t width = options.width;
  const Sizes wide{kRows, width};
  const ValueId input = b.outside(ValueKind::kInput, wide, "");
  b.p.inputs = {{input, {0}, false}};

  struct Layer {
    ValueId first, second, before, inner, mask = kNone;
    std::string name;
  };
  std::vector<Layer> layers;
  const ValueId stem = b.state(wide, "stem.weight");
  b.at(Phase::kForward, "stem", "aten::mul");
  ValueId mask = kNone, x = b.op(OpKind::kMultiply, {b.tensor(input), b.tensor(stem)}, wide);
  for (std::size_t i = 0; i < options.layers; ++i) {
    Layer layer{};
    const std::int64_t inner = static_cast<std::int64_t>(i) == options.wide_layer ? 2 * width : width;
    layer.name = fmt::format("{}.{}", options.prefix, i);
    const std::string module = options.shared_modules ? options.prefix : layer.name;
    layer.first = b.state({width, inner}, layer.name + ".first.weight");
    layer.second = b.state({inner, width}, layer.name + ".second.weight");
    layer.before = x;
    b.at(Phase::kForward, module + ".first", "aten::mm");
    const ValueId product = b.op(OpKind::kMatMul, {b.tensor(x), b.tensor(layer.first)}, {kRows, inner});
    b.at(Phase::kForward, module + ".act", "aten::tanh");
    layer.inner = b.op(OpKind::kTanh, {b.tensor(product)}, {kRows, inner});
    b.at(Phase::kForward, module + ".second", "aten::mm");
    ValueId back = b.op(OpKind::kMatMul, {b.tensor(layer.inner), b.tensor(layer.second)}, wide);
    if (options.shared_mask) {
      if (mask == kNone) {
        b.at(Phase::kForward, module, "aten::arange");
        graph::Attributes along;
        along.dims = {1};
        const ValueId count = b.op(OpKind::kCoordinate, {}, wide, along);
        mask = b.op(OpKind::kMultiply, {b.tensor(count), Builder::number(0.125)}, wide);
      }
      b.at(Phase::kForward, module, "aten::mul");
      layer.mask = mask;
      back = b.op(OpKind::kMultiply, {b.tensor(back), b.tensor(mask)}, wide);
    }
    b.at(Phase::kForward, module, "aten::add");
    x = b.op(OpKind::kAdd, {b.tensor(x), b.tensor(back)}, wide);
    layers.push_back(layer);
    if (options.shared_modules) {
      b.at(Phase::kForward, "between", "aten::sigmoid");
      x = b.op(OpKind::kSigmoid, {b.tensor(x)}, wide);
    }
  }
  b.at(Phase::kForward, "", "aten::sum");
  const ValueId scaled = b.op(OpKind::kMultiply, {b.tensor(x), Builder::number(options.head_scale)}, wide);
  graph::Attributes all;
  all.dims = {0, 1};
  const ValueId loss = b.op(OpKind::kReduceSum, {b.tensor(scaled)}, {1, 1}, all);
  b.p.outputs = {{"loss", {loss, View{0, {}, {}}, {}}, {1.0}}};
  b.at(Phase::kBackward, "", "aten::mul");
  ValueId g = b.op(OpKind::kFill, {Builder::number(options.head_scale)}, wide);
  std::vector<std::pair<ValueId, ValueId>> gradients;
  for (std::size_t i = layers.size(); i-- > 0;) {
    const Layer& layer = layers[i];
    const Sizes inner = b.sizes(layer.inner);
    ValueId from = g;
    if (layer.mask != kNone) from = b.op(OpKind::kMultiply, {b.tensor(g), b.tensor(layer.mask)}, wide);
    const ValueId second = b.op(OpKind::kMatMul, {b.transposed(layer.inner), b.tensor(from)}, {inner[1], width});
    const ValueId dy = b.op(OpKind::kMatMul, {b.tensor(from), b.transposed(layer.second)}, inner);
    const ValueId square = b.op(OpKind::kMultiply, {b.tensor(layer.inner), b.tensor(layer.inner)}, inner);
    const ValueId rest = b.op(OpKind::kSubtract, {Builder::number(1), b.tensor(square)}, inner);
    const ValueId dz = b.op(OpKind::kMultiply, {b.tensor(dy), b.tensor(rest)}, inner);
    const ValueId first = b.op(OpKind::kMatMul, {b.transposed(layer.before), b.tensor(dz)}, {width, inner[1]});
    const ValueId dx = b.op(OpKind::kMatMul, {b.tensor(dz), b.transposed(layer.first)}, wide);
    g = b.op(OpKind::kAdd, {b.tensor(g), b.tensor(dx)}, wide);
    gradients.insert(gradients.end(), {{layer.first, first}, {layer.second, second}});
  }
  gradients.emplace_back(stem, b.op(OpKind::kMultiply, {b.tensor(g), b.tensor(input)}, wide));
  for (const auto& [weight, gradient] : gradients) {
    b.at(Phase::kOptimizer, "", "aten::add_");
    const Sizes sizes = b.sizes(weight);
    const ValueId momentum = b.state(sizes, "momentum of " + b.p.values[weight].name);
    const ValueId moved = b.op(OpKind::kMultiply, {b.tensor(momentum), Builder::number(0.9)}, sizes);
    const ValueId sum = b.op(OpKind::kAdd, {b.tensor(moved), b.tensor(gradient)}, sizes);
    const ValueId step = b.op(OpKind::kMultiply, {b.tensor(sum), Builder::slot(0)}, sizes);
    b.become(momentum, sum);
    b.become(weight, b.op(OpKind::kSubtract, {b.tensor(weight), b.tensor(step)}, sizes));
  }
  return std::move(b.p);
}

void named_randomly(Program& program, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto count = static_cast<std::uint64_t>(program.ops.size());
  program.sources.clear();
  for (std::uint64_t i = 0; i < count; ++i) {
    graph::Source source;
    const auto third = static_cast<std::uint32_t>(3 * i / count + (random() % 8 == 0));
    source.phase = static_cast<Phase>(std::min(third, 2u));
    for (std::uint64_t depth = random() % 4; depth-- > 0;) {
      source.module += fmt::format("{}m{}", source.module.empty() ? "" : ".", random() % 3);
    }
    source.op = "aten::op";
    program.ops[i].source = static_cast<std::uint32_t>(i);
    program.sources.push_back(std::move(source));
  }
}

void for_each_field(const Program& program, const std::function<void(const Program&, const std::string&)>& visit) {
  const auto with = [&](const std::string& what, const auto& change) {
    Program other = program;
    change(other);
    visit(other, what);
  };
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    const std::string where = fmt::format("op {} {}: ", i, name(op.kind));
    with(where + "kind", [&](Program& p) { p.ops[i].kind = op.kind == OpKind::kExp ? OpKind::kLog : OpKind::kExp; });
    with(where + "alpha", [&](Program& p) { p.ops[i].attributes.alpha += 0.5; });
    with(where + "index", [&](Program& p) { p.ops[i].attributes.index += 1; });
    with(where + "dims", [&](Program& p) { p.ops[i].attributes.dims.push_back(3); });
    with(where + "groups", [&](Program& p) { p.ops[i].attributes.groups += 1; });
    with(where + "pieces", [&](Program& p) { p.ops[i].attributes.pieces += 1; });
    with(where + "padding", [&](Program& p) { p.ops[i].attributes.padding[1] += 1; });
    with(where + "region", [&](Program& p) { p.ops[i].attributes.region.offset += 1; });
    for (std::size_t k = 0; k < op.inputs.size(); ++k) {
      const std::string operand = fmt::format("{}operand {} ", where, k);
      if (op.inputs[k].is_scalar()) {
        with(operand + "number", [&](Program& p) {
          p.ops[i].inputs[k].scalar.real += 1;
          p.ops[i].inputs[k].scalar.integer += 1;
          if (op.inputs[k].scalar.slot != kNone) p.ops[i].inputs[k].scalar.slot = kNone;
        });
        continue;
      }
      with(operand + "offset", [&](Program& p) { p.ops[i].inputs[k].view.offset += 1; });
      if (op.inputs[k].view.sizes.empty()) continue;
      with(operand + "size", [&](Program& p) { p.ops[i].inputs[k].view.sizes[0] += 1; });
      if (op.inputs[k].view.sizes[0] > 1) {
        with(operand + "stride", [&](Program& p) { p.ops[i].inputs[k].view.strides[0] += 1; });
      }
    }
    const ValueId result = op.outputs[0].value;
    with(where + "dtype", [&](Program& p) {
      p.values[result].dtype = program.values[result].dtype == DType::kF64 ? DType::kF32 : DType::kF64;
    });
    with(where + "elements", [&](Program& p) { p.values[result].elements += 1; });
  }
}

}  // namespace crucible::merkle::testing
