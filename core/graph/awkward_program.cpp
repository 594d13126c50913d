// Programs that a careless form of them loses parts of: see awkward_program.hpp.
#include "core/graph/awkward_program.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string_view>

#include "core/graph/composite.hpp"
#include "core/graph/opaque.hpp"
#include "core/graph/passes.hpp"
#include "core/graph/random_outline.hpp"
#include "core/graph/random_program.hpp"

namespace crucible::graph {
namespace {

bool same(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }
bool same(const std::vector<double>& a, const std::vector<double>& b) {
  return std::ranges::equal(a, b, [](double x, double y) { return same(x, y); });
}
bool same(const Operand& a, const Operand& b) {
  return a.value == b.value && a.view == b.view && a.scalar.slot == b.scalar.slot &&
         a.scalar.is_integer == b.scalar.is_integer && same(a.scalar.real, b.scalar.real) &&
         a.scalar.integer == b.scalar.integer;
}
bool same(const std::vector<Operand>& a, const std::vector<Operand>& b) {
  return std::ranges::equal(a, b, [](const Operand& x, const Operand& y) { return same(x, y); });
}
bool same(const Attributes& a, const Attributes& b) {
  return a.dims == b.dims && a.index == b.index && same(a.alpha, b.alpha) && a.region == b.region &&
         std::ranges::equal(a.kernel, b.kernel) && std::ranges::equal(a.stride, b.stride) &&
         std::ranges::equal(a.padding, b.padding) && std::ranges::equal(a.dilation, b.dilation) &&
         a.groups == b.groups && a.pieces == b.pieces;
}

/// Numbers and names that a careless text form loses.
class Decorator {
 public:
  explicit Decorator(std::uint64_t seed) : random_(seed) {}

  void decorate(Program& p) {
    for (Value& value : p.values) {
      if (chance(3)) value.name = text();
    }
    for (int i = 0; i < 3; ++i)
      p.sources.push_back({text(), text(), text(), static_cast<Phase>(random_() % 3), number()});
    for (Op& op : p.ops) {
      if (chance(2)) op.source = static_cast<std::uint32_t>(random_() % p.sources.size());
      for (Operand& input : op.inputs) {
        if (input.is_scalar() && input.scalar.slot == kNone && !input.scalar.is_integer) input.scalar.real = real();
      }
      if (const double alpha = real(); op.kind == OpKind::kMatMul && std::isfinite(alpha)) op.attributes.alpha = alpha;
    }
    for (Slot& slot : p.slots) {
      slot.name = text();
      for (Number& value : slot.values)
        value = slot.is_integer ? Number(static_cast<std::int64_t>(random_())) : Number(real());
    }
    for (State& state : p.states) state.initial_blob = number(), state.final_blob = number();
    for (Constant& constant : p.constants) constant.blob = number();
    for (Output& output : p.outputs) {
      output.name = text();
      for (double& value : output.recorded) value = real();
    }
    if (chance(3)) bind(p);
    if (chance(2)) p.left_out = {text(), text()};
    for (const Op& op : p.ops) {
      if (chance(8)) mean(p, op);
    }
  }

  void mean(Program& p, const Op& op) {
    Meaning meaning{"attention", {{"scale", false, {Scalar{kNone, false, real(), 0}}}, {"dims", true, {}}}, {}, {}};
    for (std::uint64_t n = random_() % 3; n > 0; --n)
      meaning.attributes[1].numbers.push_back(Scalar{kNone, true, 0, static_cast<std::int64_t>(random_())});
    for (const Operand& input : op.inputs) {
      if (!input.is_scalar()) meaning.inputs.push_back({text(), input});
    }
    for (const Operand& output : op.outputs) meaning.outputs.push_back({text(), output});
    p.meanings.push_back(std::move(meaning));
  }

  /// Bounds of whatever list of whole numbers there is.
  void bind(Program& p) {
    for (ValueId v = 0; v < p.values.size(); ++v) {
      const Value& value = p.values[v];
      if (value.dtype != DType::kI64 || value.elements == 0 || value.elements % 2 != 0 || value.producer == kNone)
        continue;
      Output output{text(), {v, View::contiguous({value.elements}), {}}, {}, {}, {}};
      for (std::int64_t i = 0; i < value.elements / 2; ++i) {
        const std::uint32_t source =
            chance(2) || p.sources.empty() ? kNone : static_cast<std::uint32_t>(random_() % p.sources.size());
        output.bounds.push_back({static_cast<std::int64_t>(random_()), static_cast<std::int64_t>(random_()), source});
      }
      return p.outputs.push_back(std::move(output));
    }
  }

 private:
  bool chance(std::uint64_t one_in) { return random_() % one_in == 0; }
  std::uint32_t number() { return chance(3) ? kNone : static_cast<std::uint32_t>(random_() % 100); }
  double real() {
    static constexpr double kAwkward[] = {0.0,
                                          -0.0,
                                          1.0,
                                          0.1,
                                          1e308,
                                          5e-324,
                                          -1e-310,
                                          std::numeric_limits<double>::infinity(),
                                          3.0,
                                          -std::numeric_limits<double>::infinity(),
                                          std::numeric_limits<double>::quiet_NaN(),
                                          1e22,
                                          123456789.0};
    if (chance(12)) return std::bit_cast<double>(0xfff8000000000000ull | random_() % 1000);  // other NaNs
    if (chance(3)) {
      const auto any = std::bit_cast<double>(random_());
      return any;
    }
    return kAwkward[random_() % std::size(kAwkward)];
  }
  std::string text() {
    static constexpr std::string_view kPieces[] = {"blocks.0", " ",    "\"",   "\\", "\n",  "\t",       ";", "%3",
                                                   "->",       "\x01", "\x7f", "ü",  "x41", "(blob 1)", "]", "\xff"};
    std::string result;
    for (std::uint64_t n = random_() % 5; n > 0; --n) result += kPieces[random_() % std::size(kPieces)];
    return result;
  }

  std::mt19937_64 random_;
};

}  // namespace

std::string difference(const Program& a, const Program& b) {
  const auto differ = [](const auto& x, const auto& y, auto equal) { return !std::ranges::equal(x, y, equal); };
  if (a.iterations != b.iterations) return "iterations";
  if (a.left_out != b.left_out) return "left out";
  if (differ(a.values, b.values, [](const Value& x, const Value& y) {
        return x.kind == y.kind && x.dtype == y.dtype && x.elements == y.elements && x.name == y.name &&
               x.producer == y.producer;
      }))
    return "values";
  if (differ(a.ops, b.ops, [](const Op& x, const Op& y) {
        return x.kind == y.kind && same(x.inputs, y.inputs) && same(x.outputs, y.outputs) &&
               same(x.attributes, y.attributes) && x.source == y.source;
      }))
    return "ops";
  if (differ(a.sources, b.sources, [](const Source& x, const Source& y) {
        return x.op == y.op && x.module == y.module && x.site == y.site && x.phase == y.phase &&
               x.trace_op == y.trace_op;
      }))
    return "sources";
  if (differ(a.slots, b.slots, [](const Slot& x, const Slot& y) {
        return x.name == y.name && x.is_integer == y.is_integer && x.values == y.values;
      }))
    return "slots";
  if (differ(a.states, b.states, [](const State& x, const State& y) {
        return x.start == y.start && x.end == y.end && x.initial_blob == y.initial_blob && x.final_blob == y.final_blob;
      }))
    return "states";
  if (differ(a.inputs, b.inputs, [](const Input& x, const Input& y) {
        return x.value == y.value && x.blobs == y.blobs && x.is_draw == y.is_draw;
      }))
    return "inputs";
  if (differ(a.constants, b.constants,
             [](const Constant& x, const Constant& y) { return x.value == y.value && x.blob == y.blob; }))
    return "constants";
  if (differ(a.outputs, b.outputs, [](const Output& x, const Output& y) {
        return x.name == y.name && same(x.operand, y.operand) && same(x.recorded, y.recorded) && x.blobs == y.blobs &&
               x.bounds == y.bounds;
      }))
    return "outputs";
  if (differ(a.opaques, b.opaques,
             [](const auto& x, const auto& y) { return to_json(*x) == to_json(*y) && x->reason == y->reason; }))
    return "opaques";
  if (differ(a.composites, b.composites, [](const auto& x, const auto& y) {
        return x->name == y->name && identity(*x) == identity(*y) && to_text(x->body) == to_text(y->body);
      }))
    return "composites";
  const auto same_roles = [&](const std::vector<Role>& x, const std::vector<Role>& y) {
    return !differ(x, y, [](const Role& r, const Role& t) { return r.name == t.name && same(r.operand, t.operand); });
  };
  const auto same_attribute = [](const CompositeAttribute& x, const CompositeAttribute& y) {
    return x.name == y.name && x.is_list == y.is_list &&
           std::ranges::equal(x.numbers, y.numbers, [](const Scalar& m, const Scalar& n) {
             return m.is_integer == n.is_integer && same(m.real, n.real) && m.integer == n.integer;
           });
  };
  if (differ(a.meanings, b.meanings, [&](const Meaning& x, const Meaning& y) {
        return x.name == y.name && !differ(x.attributes, y.attributes, same_attribute) &&
               same_roles(x.inputs, y.inputs) && same_roles(x.outputs, y.outputs);
      }))
    return "meanings";
  return "";
}

Program awkward_program(std::uint64_t seed) {
  Program p = random_program({.seed = seed, .ops = 5 + static_cast<std::uint32_t>(seed % 40)}).program;
  if (seed % 3 == 0) {
    EXPECT_TRUE(run_passes(p));
  }
  if (seed % 4 == 1) outline_randomly(p, seed);
  Decorator(seed).decorate(p);
  return p;
}

}  // namespace crucible::graph
