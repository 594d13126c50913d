// Mutation test of verify(): one field of a valid program is changed at a time. Either verify refuses, or the changed
// program is one that can be executed: the interpreter then runs it without leaving any buffer.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>

#include "core/graph/composite.hpp"
#include "core/graph/random_outline.hpp"
#include "core/graph/random_program.hpp"
#include "core/graph/reference.hpp"
#include "core/graph/view.hpp"

namespace crucible::graph {
namespace {

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  /// Changes one field; says which.
  std::string mutate(Program& p) {
    Op& op = p.ops[at(p.ops.size())];
    Operand& operand =
        random_() % 3 == 0 || op.inputs.empty() ? op.outputs[at(op.outputs.size())] : op.inputs[at(op.inputs.size())];
    switch (random_() % 16) {
      case 0:
        change(operand.value);
        return "operand value";
      case 1:
        change(operand.view.offset);
        return "offset";
      case 2:
        return element(operand.view.sizes, "size");
      case 3:
        return element(operand.view.strides, "stride");
      case 4:
        change(p.values[at(p.values.size())].elements);
        return "elements";
      case 5:
        p.values[at(p.values.size())].dtype = static_cast<DType>(random_() % 12);
        return "dtype";
      case 6:
        change(p.values[at(p.values.size())].producer);
        return "producer";
      case 7:
        p.values[at(p.values.size())].kind = static_cast<ValueKind>(random_() % 5);
        return "kind of value";
      case 8:
        op.kind = static_cast<OpKind>(random_() % (kOpKindCount + 3));
        return "kind of op";
      case 9:
        return element(op.attributes.dims, "dims");
      case 10:
        change(op.attributes.index);
        return "index";
      case 11:
        return element(op.attributes.region.sizes, "region size");
      case 12:
        change(op.attributes.region.offset);
        return "region offset";
      case 13:
        if (p.states.empty()) return p.iterations = static_cast<std::uint32_t>(random_() % 3), "iterations";
        change(p.states[at(p.states.size())].end);
        return "state end";
      case 14:
        change(operand.scalar.slot);
        return "slot";
      default:
        std::swap(p.ops[at(p.ops.size())], op);
        return "order of ops";
    }
  }

  /// Changes one field of a composite's entry.
  std::string mutate_composite(Program& p) {
    auto& entry = p.composites[at(p.composites.size())];
    Composite changed = *entry;
    std::string what = "body: ";
    switch (random_() % 12) {
      case 0:
        changed.name += "!";
        what = "name";
        break;
      case 1:
        changed.attributes.push_back({"eps", false, {}});
        what = "attributes";
        break;
      case 2:
        if (!changed.body.inputs.empty()) changed.body.inputs.pop_back();
        what = "body's inputs";
        break;
      case 3:
        changed.body.outputs.push_back(changed.body.outputs[0]);
        what = "body's outputs";
        break;
      default:
        what += mutate(changed.body);
    }
    entry = std::make_shared<const Composite>(std::move(changed));
    return what;
  }

 private:
  std::size_t at(std::size_t size) { return static_cast<std::size_t>(random_() % size); }

  template <class T>
  void change(T& field) {
    const T old = field;
    const T candidates[] = {static_cast<T>(field + 1), static_cast<T>(field - 1), static_cast<T>(0),
                            static_cast<T>(-1),        static_cast<T>(1) << 30,   static_cast<T>(random_() % 20)};
    while (field == old) field = candidates[at(std::size(candidates))];
  }

  std::string element(std::vector<std::int64_t>& list, const std::string& what) {
    if (list.empty() || random_() % 8 == 0) {
      list.push_back(static_cast<std::int64_t>(random_() % 4));
    } else {
      change(list[at(list.size())]);
    }
    return what;
  }

  std::mt19937_64 random_;
};

/// Valid, but with sizes that nobody wants to interpret.
bool is_large(const Program& p) {
  std::int64_t largest = 0;
  for (const Op& op : p.ops) {
    for (const auto* operands : {&op.inputs, &op.outputs}) {
      for (const Operand& operand : *operands) largest = std::max(largest, operand.view.elements());
    }
  }
  for (const Value& value : p.values) largest = std::max(largest, value.elements);
  return largest > 100000;
}

TEST(VerifyMutation, RefusesOrTheProgramStillRuns) {
  std::size_t refused = 0, accepted = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    const RandomProgram random = random_program({.seed = seed % 40, .ops = 25});
    Program p = random.program;
    if (seed % 3 == 0) outline_randomly(p, seed);
    const std::string what =
        seed % 2 == 0 && !p.composites.empty() ? Mutator(seed).mutate_composite(p) : Mutator(seed).mutate(p);
    auto verified = verify(p);
    if (!verified) {
      ++refused;
      EXPECT_FALSE(verified.error().message.empty());
      continue;
    }
    ++accepted;
    if (is_large(p)) continue;
    // Sizes and dtypes of values from outside may have changed, consistently: their bytes are made to fit.
    auto values = random.values;
    for (ValueId v = 0; v < p.values.size(); ++v) {
      const auto bytes = static_cast<std::size_t>(p.values[v].elements) * size_bytes(p.values[v].dtype);
      if (p.values[v].kind != ValueKind::kTemporary) values[v].resize(bytes);
    }
    auto result = run_iteration(p, values, random.slots);
    if (!result) {
      EXPECT_EQ(result.error().code, ErrorCode::kBadInput) << what << ": " << result.error().message;
    }
  }
  EXPECT_GT(refused, 700u);
  EXPECT_GT(accepted, 50u) << "mutations that make another valid program exist; none was seen";
}

/// Fields whose every change breaks a rule.
TEST(VerifyMutation, AlwaysRefused) {
  const Program good = random_program({.seed = 11, .ops = 30}).program;
  const auto refuses = [&](const std::function<void(Program&)>& corrupt) {
    Program p = good;
    corrupt(p);
    return !verify(p);
  };
  for (std::size_t i = 0; i < good.ops.size(); ++i) {
    for (std::size_t k = 0; k < good.ops[i].outputs.size(); ++k) {
      EXPECT_TRUE(refuses([&](Program& p) { p.ops[i].outputs[k].view.offset += 1; }));
      EXPECT_TRUE(refuses([&](Program& p) { p.ops[i].outputs[k].value = 0; }));
      EXPECT_TRUE(refuses([&](Program& p) { p.ops[i].outputs[k].view.sizes.push_back(2); }));
      EXPECT_TRUE(refuses([&](Program& p) { p.values[p.ops[i].outputs[k].value].elements += 1; }));
      EXPECT_TRUE(refuses([&](Program& p) { p.values[p.ops[i].outputs[k].value].producer += 1; }));
      EXPECT_TRUE(refuses([&](Program& p) { p.values[p.ops[i].outputs[k].value].kind = ValueKind::kState; }));
    }
    for (std::size_t k = 0; k < good.ops[i].inputs.size(); ++k) {
      if (good.ops[i].inputs[k].is_scalar()) continue;
      EXPECT_TRUE(refuses([&](Program& p) { p.ops[i].inputs[k].value = 100000; }));
      EXPECT_TRUE(refuses([&](Program& p) { p.ops[i].inputs[k].view.offset = -1; }));
      EXPECT_TRUE(refuses([&](Program& p) { p.ops[i].inputs[k].view.offset += 1 << 20; }));
      EXPECT_TRUE(refuses([&](Program& p) { p.ops[i].inputs[k].view.sizes.push_back(1); }));
      EXPECT_TRUE(refuses([&](Program& p) { p.ops[i].inputs[k].scalar.integer = 1; }));
    }
    EXPECT_TRUE(refuses([&](Program& p) { p.ops[i].kind = static_cast<OpKind>(255); }));
    EXPECT_TRUE(refuses([&](Program& p) { p.ops[i].outputs.clear(); }));
    EXPECT_TRUE(refuses([&](Program& p) { p.ops.erase(p.ops.begin() + static_cast<std::ptrdiff_t>(i)); }));
  }
}

__extension__ using Wide = __int128;

/// An operand of one element that is shown as often as `sizes` say.
Operand repeated(ValueId value, const std::vector<std::int64_t>& sizes) {
  return {value, View{0, sizes, std::vector<std::int64_t>(sizes.size(), 0)}, {}};
}

/// x and weight (or two pieces) of one element each, one op, one result of these sizes.
Program of_one_op(Op op, const std::vector<std::vector<std::int64_t>>& operands,
                  const std::vector<std::int64_t>& result) {
  Program p;
  p.iterations = 1;
  for (ValueId v = 0; v < operands.size(); ++v) {
    p.values.push_back({ValueKind::kInput, DType::kF32, 1, "x", kNone});
    p.inputs.push_back({v, {0}, false});
    op.inputs.push_back(repeated(v, operands[v]));
  }
  const auto made = static_cast<ValueId>(operands.size());
  p.values.push_back({ValueKind::kTemporary, DType::kF32, checked_elements(result).value_or(0), "", 0});
  op.outputs = {{made, View::contiguous(result), {}}};
  p.ops = {std::move(op)};
  return p;
}

/// As arithmetic that wraps would have it.
std::int64_t wrapped(Wide number) { return static_cast<std::int64_t>(static_cast<std::uint64_t>(number)); }

TEST(VerifyMutation, NumbersAtTheEndsOfWhatFitsAreNotWrapped) {
  constexpr std::int64_t kEnds[] = {1,
                                    2,
                                    3,
                                    (std::int64_t{1} << 31) - 1,
                                    std::int64_t{1} << 31,
                                    std::int64_t{1} << 32,
                                    std::int64_t{3} << 60,
                                    std::int64_t{1} << 62,
                                    std::numeric_limits<std::int64_t>::max()};
  std::size_t accepted = 0;
  for (std::uint64_t seed = 0; seed < 20000; ++seed) {
    std::mt19937_64 random(seed);
    const auto any = [&] {
      return random() % 2 == 0 ? static_cast<std::int64_t>(1 + random() % 3) : kEnds[random() % std::size(kEnds)];
    };
    bool is_exact = true;
    Program p;
    if (seed % 2 == 0) {
      const std::int64_t pieces[] = {any(), any(), any()};
      const Wide total = Wide{pieces[0]} + pieces[1] + pieces[2];
      is_exact = total == wrapped(total);
      Op op{.kind = OpKind::kConcat, .inputs = {}, .outputs = {}, .attributes = {}, .source = kNone};
      op.attributes.dims = {0};
      if (wrapped(total) < 0) continue;
      p = of_one_op(op, {{pieces[0]}, {pieces[1]}, {pieces[2]}}, {wrapped(total)});
    } else {
      Op op{.kind = OpKind::kConv2d, .inputs = {}, .outputs = {}, .attributes = {}, .source = kNone};
      Attributes& a = op.attributes;
      a.groups = any();
      const std::vector<std::int64_t> weight = {random() % 2 == 0 ? a.groups : any(), any(), any(), any()};
      const Wide channels = Wide{weight[1]} * a.groups;
      std::vector<std::int64_t> x = {1, wrapped(channels), any(), any()}, y = {1, weight[0], 0, 0};
      is_exact = channels == wrapped(channels) && x[1] > 0;
      for (std::size_t d = 0; d < 2; ++d) {
        a.stride[d] = any(), a.padding[d] = any(), a.dilation[d] = any();
        const Wide span = Wide{x[2 + d]} + 2 * Wide{a.padding[d]} - Wide{a.dilation[d]} * (weight[2 + d] - 1) - 1;
        y[2 + d] = wrapped(span) < 0 ? 0 : wrapped(span) / a.stride[d] + 1;
        is_exact &= (span < 0 ? Wide{0} : span / a.stride[d] + 1) == y[2 + d];
      }
      p = of_one_op(op, {x, weight}, y);
    }
    const Result<void> verified = verify(p);
    EXPECT_TRUE(!verified || is_exact) << "seed " << seed;
    accepted += verified ? 1 : 0;
  }
  EXPECT_GT(accepted, 100u);
}

}  // namespace
}  // namespace crucible::graph
