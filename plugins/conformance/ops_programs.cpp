// Which programs a kind of op gets, by its class in the op table.
#include "plugins/conformance/ops_programs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/graph/op_table.hpp"
#include "core/graph/random_program.hpp"
#include "core/graph/whole_slot_program.hpp"
#include "plugins/conformance/ops_along.hpp"
#include "plugins/conformance/ops_factor.hpp"
#include "plugins/conformance/ops_contractions.hpp"
#include "plugins/conformance/ops_writer.hpp"

namespace crucible::conformance {
namespace {

using graph::Attributes;
using graph::OpClass;
using graph::Operand;
using graph::OpInfo;
using graph::OpKind;
using graph::View;

/// A result's sizes and the views through which its operands are read.
struct Layout {
  std::string name;
  Sizes sizes;
  std::vector<View> views;  // of operand 0, 1, 2
};

View view(std::int64_t offset, Sizes sizes, Sizes strides) { return {offset, std::move(sizes), std::move(strides)}; }

Layout dense(const Sizes& sizes) {
  return {fmt::format("[{}]", fmt::join(sizes, ", ")), sizes, std::vector<View>(3, View::contiguous(sizes))};
}

/// The awkward ones; the first is what a quick run of a rarer dtype uses.
std::vector<Layout> layouts() {
  const View rows = View::contiguous({3, 5, 7});
  return {
      {"[3, 5, 7] permuted, broadcast",
       {3, 5, 7},
       {view(0, {3, 5, 7}, {1, 21, 3}), view(0, {3, 5, 7}, {0, 1, 0}), view(0, {3, 5, 7}, {1, 0, 0})}},
      dense({1}),
      dense({}),
      dense({0}),
      dense({4, 0, 3}),
      dense({17}),
      {"[33] every third", {33}, {view(5, {33}, {3}), view(0, {33}, {2}), view(7, {33}, {1})}},
      {"[1025] and one number", {1025}, {View::contiguous({1025}), view(3, {1025}, {0}), View::contiguous({1025})}},
      {"[2, 1, 3, 1, 2]",
       {2, 1, 3, 1, 2},
       {view(0, {2, 1, 3, 1, 2}, {1, 5, 4, 9, 2}), View::contiguous({2, 1, 3, 1, 2}),
        View::contiguous({2, 1, 3, 1, 2})}},
  };
}

std::vector<DType> allowed(const DtypeChoice& choice, bool integers, bool with_bool) {
  std::vector<DType> result = {DType::kF32};
  if (choice.f64) result.push_back(DType::kF64);
  if (choice.f16) result.push_back(DType::kF16);
  if (choice.bf16) result.push_back(DType::kBF16);
  if (integers) result.insert(result.end(), {DType::kI64, DType::kI32, DType::kI16, DType::kI8, DType::kU8});
  if (with_bool) result.push_back(DType::kBool);
  return result;
}

/// All layouts for f32; one odd and one dense one for the others; fewer when quick.
template <class Make>
void for_each_layout(const std::vector<DType>& dtypes, bool quick, Make make) {
  const std::vector<Layout> all = layouts();
  for (const DType dtype : dtypes) {
    if (quick && dtype != DType::kF32 && dtype != DType::kI32) continue;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if ((dtype != dtypes.front() && i > 0) || (quick && i > 3)) continue;
      make(dtype, all[i], Pattern::kSmooth);
    }
    make(dtype, dense({289}), Pattern::kAwkward);
  }
}

bool moves_numbers(OpKind kind) {
  return kind == OpKind::kSelect || kind == OpKind::kNegate || kind == OpKind::kAbsolute;
}

/// Element-wise ops whose operands are all of one dtype.
std::vector<OpsProgram> elementwise(const OpInfo& info, const DtypeChoice& choice, bool quick) {
  std::vector<OpsProgram> programs;
  const bool integers = info.op_class != OpClass::kFloating,
             with_bool = integers && info.op_class != OpClass::kArithmetic;
  const bool truth =
      info.op_class == OpClass::kTest || info.op_class == OpClass::kComparison || info.op_class == OpClass::kLogic;
  const bool selection = info.op_class == OpClass::kSelection;
  std::uint64_t seed = static_cast<std::uint64_t>(info.kind) * 1000;
  std::vector<DType> dtypes = allowed(choice, integers, with_bool && info.op_class != OpClass::kInteger);
  if (info.op_class == OpClass::kInteger) std::erase_if(dtypes, [](DType dtype) { return is_floating(dtype); });
  for_each_layout(dtypes, quick, [&](DType dtype, const Layout& layout, Pattern pattern) {
    OpsWriter w(
        info.kind,
        fmt::format("{} {}{}", name(dtype), layout.name, pattern == Pattern::kAwkward ? ", awkward numbers" : ""),
        ++seed);
    std::vector<Operand> inputs;
    if (selection) inputs.push_back(w.bools(layout.views[2]));
    for (std::size_t i = inputs.size(); i < static_cast<std::size_t>(info.min_inputs); ++i) {
      const Pattern own = pattern == Pattern::kAwkward && i == (selection ? 2u : 1u) ? Pattern::kAwkwardPairs : pattern;
      inputs.push_back(w.input(dtype, layout.views[selection ? i - 1 : i], own));
    }
    w.op(inputs, layout.sizes, truth ? DType::kBool : dtype);
    w.program.same_bits = moves_numbers(info.kind) && is_floating(dtype);
    programs.push_back(std::move(w.program));
  });
  if (info.min_inputs == 2 && info.op_class != OpClass::kLogic && info.op_class != OpClass::kInteger) {
    for (const bool from_slot : {false, true}) {
      OpsWriter w(info.kind, fmt::format("f32 [65] and a {}", from_slot ? "slot" : "scalar"), ++seed);
      const Operand x = w.input(DType::kF32, Sizes{65}, Pattern::kSmooth);
      w.op({x, from_slot ? w.slot(1.7) : OpsWriter::number(1.7)}, {65}, truth ? DType::kBool : DType::kF32);
      programs.push_back(std::move(w.program));
    }
  }
  // Whole numbers of more digits than a double has, as a time stamp in nanoseconds.
  const bool exact = info.op_class == OpClass::kInteger || info.op_class == OpClass::kComparison ||
                     (info.op_class == OpClass::kArithmetic && info.kind != OpKind::kDivide);
  if (info.min_inputs == 2 && exact && std::ranges::find(dtypes, DType::kI64) != dtypes.end()) {
    OpsWriter w(info.kind, "i64 [65] and a whole slot", ++seed);
    const Operand x = w.ids(DType::kI64, Sizes{65}, std::int64_t{1} << 62);
    w.op({x, w.whole_slot((std::int64_t{1} << 60) + 1)}, {65}, truth ? DType::kBool : DType::kI64);
    programs.push_back(std::move(w.program));
  }
  return programs;
}

std::vector<OpsProgram> conversions(const DtypeChoice& choice, bool quick) {
  std::vector<OpsProgram> programs;
  std::uint64_t seed = 1;
  const std::vector<DType> all = allowed(choice, true, true);
  for (const DType from : all) {
    for (const DType to : all) {
      if (quick && from != DType::kF32 && to != DType::kF32) continue;
      // Between a float and an integer only numbers that both hold: what else becomes is nobody's promise.
      const bool both_float = is_floating(from) && is_floating(to), same = from == to;
      OpsWriter w(OpKind::kCopy, fmt::format("{} to {}", name(from), name(to)), ++seed);
      w.op({w.input(from, Sizes{83},
                    both_float || same || (!is_floating(from) && !is_floating(to)) ? Pattern::kAwkward
                                                                                   : Pattern::kSmallWhole)},
           {83}, to);
      w.program.same_bits = same;
      programs.push_back(std::move(w.program));
    }
  }
  for (const Layout& layout : layouts()) {
    OpsWriter w(OpKind::kCopy, "f32 " + layout.name, ++seed);
    w.op({w.input(DType::kF32, layout.views[0], Pattern::kAwkward)}, layout.sizes, DType::kF32);
    w.program.same_bits = true;
    programs.push_back(std::move(w.program));
  }
  return programs;
}

std::vector<OpsProgram> generators(const OpInfo& info, const DtypeChoice& choice) {
  std::vector<OpsProgram> programs;
  std::uint64_t seed = 1;
  for (const DType dtype : allowed(choice, true, info.kind == OpKind::kFill)) {
    for (const Sizes& sizes : {Sizes{1}, Sizes{0}, Sizes{37}, Sizes{5, 1, 7}}) {
      if ((info.attributes & graph::kUsesDims) != 0) {
        for (std::size_t dim = 0; dim < sizes.size(); ++dim) {
          OpsWriter w(info.kind, fmt::format("{} [{}] along {}", name(dtype), fmt::join(sizes, ", "), dim), ++seed);
          Attributes attributes;
          attributes.dims = {static_cast<std::int64_t>(dim)};
          w.op({}, sizes, dtype, attributes);
          programs.push_back(std::move(w.program));
        }
        continue;
      }
      for (const double value : {1.0, 0.1, -0.0, std::numeric_limits<double>::infinity()}) {
        if (!is_floating(dtype) && value != 1.0) continue;
        OpsWriter w(info.kind, fmt::format("{} [{}] with {}", name(dtype), fmt::join(sizes, ", "), value), ++seed);
        w.op({value == 0.1 ? w.slot(value) : OpsWriter::number(value)}, sizes, dtype);
        w.program.same_bits = true;
        programs.push_back(std::move(w.program));
      }
    }
  }
  return programs;
}

std::vector<OpsProgram> reductions(const OpInfo& info, const DtypeChoice& choice, bool quick) {
  std::vector<OpsProgram> programs;
  const bool is_product = info.kind == OpKind::kReduceProduct;
  const bool is_sum = info.kind == OpKind::kReduceSum || is_product;  // defined for no elements, too
  std::uint64_t seed = 1;
  struct Shape {
    Sizes sizes, dims;
    bool permuted;
  };
  const Shape shapes[] = {{{6, 10, 9}, {1}, true},        {{1}, {0}, false},        {{33}, {0}, false},
                          {{6, 10, 9}, {2}, false},       {{6, 10, 9}, {0}, false}, {{6, 10, 9}, {0, 2}, false},
                          {{6, 10, 9}, {0, 1, 2}, false}, {{5, 1, 3}, {1}, false},  {{4, 7}, {}, false},
                          {{3, 2000}, {1}, false},        {{0, 4}, {1}, false},     {{0, 4}, {0}, false}};
  for (const DType dtype : allowed(choice, true, !is_sum)) {
    if (quick && dtype != DType::kF32) continue;
    for (const Shape& shape : shapes) {
      if (dtype != DType::kF32 && !shape.permuted && shape.dims.size() != 3) continue;
      Sizes kept = shape.sizes;
      double terms = 1;
      for (const std::int64_t dim : shape.dims)
        terms *= static_cast<double>(kept[static_cast<std::size_t>(dim)]), kept[static_cast<std::size_t>(dim)] = 1;
      if (!is_sum && terms == 0) continue;  // the maximum of nothing is not defined
      OpsWriter w(info.kind,
                  fmt::format("{} [{}] over [{}]{}", name(dtype), fmt::join(shape.sizes, ", "),
                              fmt::join(shape.dims, ", "), shape.permuted ? " permuted" : ""),
                  ++seed);
      const View dense_view = View::contiguous(shape.sizes);
      const View read = shape.permuted ? view(0, shape.sizes, {1, 54, 6}) : dense_view;
      Attributes attributes;
      attributes.dims = shape.dims;
      const Pattern factors = is_floating(dtype) ? Pattern::kUnit : Pattern::kSmallWhole;
      w.op({w.input(dtype, read, is_product ? factors : is_sum ? Pattern::kUnit : Pattern::kSmooth)}, kept, dtype,
           attributes);
      if (is_sum && is_floating(dtype)) w.program.terms = std::max(terms, 1.0), w.program.magnitude = 1;
      programs.push_back(std::move(w.program));
    }
    if (!is_floating(dtype)) continue;
    for (const bool inner : {true, false}) {
      OpsWriter w(info.kind,
                  fmt::format("{} [8, 40] {} with NaN and infinities", name(dtype), inner ? "rows" : "columns"),
                  ++seed);
      const Operand x = w.input(dtype, inner ? View::contiguous({8, 40}) : view(0, {8, 40}, {1, 8}), Pattern::kUnit);
      const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
      const auto at = [&](std::int64_t row, std::int64_t column) {
        return inner ? row * 40 + column : column * 8 + row;
      };
      w.set_number(x, at(0, 17), nan), w.set_number(x, at(1, 39), infinity), w.set_number(x, at(2, 0), -infinity);
      w.set_number(x, at(3, 3), infinity), w.set_number(x, at(3, 30), -infinity);
      for (std::int64_t column = 0; column < 40; ++column)
        w.set_number(x, at(4, column), -infinity), w.set_number(x, at(5, column), -0.0);
      Attributes attributes;
      attributes.dims = {1};
      w.op({x}, {8, 1}, dtype, attributes);
      if (is_sum) w.program.terms = 40, w.program.magnitude = 1;
      programs.push_back(std::move(w.program));
    }
  }
  return programs;
}

}  // namespace

std::vector<OpsProgram> programs_of(OpKind kind, const DtypeChoice& dtypes, bool quick) {
  const OpInfo& info = graph::info(kind);
  switch (info.op_class) {
    case OpClass::kConversion:
      return conversions(dtypes, quick);
    case OpClass::kArithmetic:
    case OpClass::kFloating:
    case OpClass::kInteger:
    case OpClass::kTest:
    case OpClass::kComparison:
    case OpClass::kLogic:
    case OpClass::kSelection:
      return elementwise(info, dtypes, quick);
    case OpClass::kGenerator:
      return generators(info, dtypes);
    case OpClass::kReduction:
      return reductions(info, dtypes, quick);
    case OpClass::kArgReduction:
    case OpClass::kScan:
    case OpClass::kSort:
      return along_programs(info, allowed(dtypes, true, true), quick);
    case OpClass::kIndexed:
      return indexed_programs(
          info, allowed(dtypes, true, info.kind == graph::OpKind::kTake || graph::is_put(info.kind)), quick);
    case OpClass::kContraction:
      return contraction_programs(info, allowed(dtypes, false, false), quick);
    case OpClass::kPooling:
      return pooling_programs(info, allowed(dtypes, true, false), quick);
    case OpClass::kFactorization:
      return factor_programs(info, dtypes.f64, quick);
    case OpClass::kOpaque:
    case OpClass::kComposite:
      return {};  // no backend needs to know them
  }
  return {};
}

std::vector<OpsProgram> random_programs(std::uint32_t count) {
  std::vector<OpsProgram> programs;
  for (std::uint32_t seed = 1; seed <= count; ++seed) {
    graph::RandomProgram made = graph::random_program({.seed = seed, .ops = 12 + seed % 20});
    OpsProgram program;
    program.label = fmt::format("random program {}", seed);
    program.program = std::move(made.program);
    program.values = std::move(made.values);
    program.slots = std::move(made.slots);
    program.is_random = true;
    programs.push_back(std::move(program));
  }
  return programs;
}

std::vector<OpsProgram> whole_slot_programs(const DtypeChoice& choice) {
  std::vector<OpsProgram> programs;
  for (std::size_t i = 0; i < graph::kWholeNumbers.size(); ++i) {
    graph::WholeSlotProgram made = graph::whole_slot_program(choice.f64);
    OpsProgram program;
    program.label = fmt::format("a slot of the whole number {}", graph::kWholeNumbers[i]);
    program.program = std::move(made.program);
    program.values = std::move(made.values);
    program.slots = std::move(made.slots[i]);
    programs.push_back(std::move(program));
  }
  return programs;
}

}  // namespace crucible::conformance
