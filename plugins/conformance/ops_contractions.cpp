// Indexed ops, products, convolutions, pooling.
#include "plugins/conformance/ops_contractions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/graph/bitcast.hpp"
#include "plugins/conformance/ops_writer.hpp"

namespace crucible::conformance {
namespace {

using graph::Attributes;
using graph::Operand;
using graph::OpInfo;
using graph::OpKind;
using graph::View;

struct Window {
  std::int64_t groups, kernel, stride, padding, dilation;
};

Attributes to_attributes(const Window& window) {
  Attributes a;
  a.groups = window.groups;
  for (int d = 0; d < 2; ++d)
    a.kernel[d] = window.kernel, a.stride[d] = window.stride, a.padding[d] = window.padding,
    a.dilation[d] = window.dilation;
  return a;
}

std::int64_t out_side(const Window& w, std::int64_t in) {
  return (in + 2 * w.padding - w.dilation * (w.kernel - 1) - 1) / w.stride + 1;
}

/// A product of [m, k] and [k, n], both orders of memory, batched, broadcast, with alpha.
std::vector<OpsProgram> products(const OpInfo& info, const std::vector<DType>& dtypes, bool quick) {
  std::vector<OpsProgram> programs;
  struct Shape {
    std::string name;
    View a, b;
    Sizes out;
    double alpha;
  };
  const Shape shapes[] = {
      {"[17, 33] x [33, 9]", View::contiguous({17, 33}), View::contiguous({33, 9}), {17, 9}, 1},
      {"[1, 1] x [1, 1]", View::contiguous({1, 1}), View::contiguous({1, 1}), {1, 1}, -2},
      {"[1, 70] x [70, 1]", View::contiguous({1, 70}), View::contiguous({70, 1}), {1, 1}, 1},
      {"[3, 0] x [0, 4]", View::contiguous({3, 0}), View::contiguous({0, 4}), {3, 4}, 1},
      {"[0, 3] x [3, 4]", View::contiguous({0, 3}), View::contiguous({3, 4}), {0, 4}, 1},
      {"[14, 10] x [10, 18], both turned", {0, {14, 10}, {1, 14}}, {0, {10, 18}, {1, 10}}, {14, 18}, 0.5},
      {"[3, 5, 7] x [3, 7, 6], b for all", View::contiguous({3, 5, 7}), {0, {3, 7, 6}, {0, 6, 1}}, {3, 5, 6}, 1},
      {"[2, 3, 5, 7] x [2, 3, 7, 4], heads",
       {0, {2, 3, 5, 7}, {105, 7, 21, 1}},
       {0, {2, 3, 7, 4}, {84, 28, 1, 7}},
       {2, 3, 5, 4},
       0.25},
  };
  std::uint64_t seed = 1;
  for (const DType dtype : dtypes) {
    for (const Shape& shape : shapes) {
      if (quick && (dtype != DType::kF32 || seed > 5)) continue;
      OpsWriter w(info.kind, fmt::format("{} {}", name(dtype), shape.name), ++seed);
      Attributes attributes;
      attributes.alpha = shape.alpha;
      const Operand a = w.input(dtype, shape.a, Pattern::kUnit), b = w.input(dtype, shape.b, Pattern::kUnit);
      w.op({a, b}, shape.out, dtype, attributes);
      w.program.terms = std::max<double>(static_cast<double>(shape.a.sizes.back()), 1);
      w.program.magnitude = std::abs(shape.alpha);
      programs.push_back(std::move(w.program));
    }
  }
  for (const DType dtype : {DType::kF16, DType::kBF16}) {  // not rounded yet: something is added to it before it is
    if (quick || std::ranges::find(dtypes, dtype) == dtypes.end()) continue;
    OpsWriter w(info.kind, fmt::format("{} [18, 300] x [300, 21] to f32", name(dtype)), ++seed);
    const Operand a = w.input(dtype, Sizes{18, 300}, Pattern::kUnit),
                  b = w.input(dtype, Sizes{300, 21}, Pattern::kUnit);
    w.op({a, b}, {18, 21}, DType::kF32);
    w.program.terms = 300, w.program.magnitude = 1;
    programs.push_back(std::move(w.program));
  }
  OpsWriter w(info.kind, "f32 [6, 20] x [20, 7] with NaN and infinities", ++seed);
  const Operand a = w.input(DType::kF32, Sizes{6, 20}, Pattern::kUnit),
                b = w.input(DType::kF32, Sizes{20, 7}, Pattern::kUnit);
  w.set_number(a, 25, std::numeric_limits<double>::quiet_NaN());
  w.set_number(a, 65, std::numeric_limits<double>::infinity());
  w.op({a, b}, {6, 7}, DType::kF32);
  w.program.terms = 20, w.program.magnitude = 1;
  programs.push_back(std::move(w.program));
  return programs;
}

std::vector<OpsProgram> convolutions(const OpInfo& info, const std::vector<DType>& dtypes, bool quick) {
  std::vector<OpsProgram> programs;
  std::uint64_t seed = 1;
  for (const DType dtype : dtypes) {
    if (dtype != DType::kF32 && dtype != DType::kF64) continue;
    for (const Window& s : {Window{1, 3, 1, 1, 1}, Window{1, 3, 2, 1, 1}, Window{2, 2, 1, 0, 2}, Window{1, 1, 2, 0, 1},
                            Window{4, 3, 3, 2, 1}, Window{1, 5, 2, 4, 2}}) {
      if ((quick || dtype == DType::kF64) && seed % 2 == 0 && seed > 1) {
        ++seed;
        continue;
      }
      OpsWriter w(info.kind,
                  fmt::format("{} {}x{} window, stride {}, padding {}, dilation {}, {} groups", name(dtype), s.kernel,
                              s.kernel, s.stride, s.padding, s.dilation, s.groups),
                  ++seed);
      const Sizes x = {2, 4, 11, 9}, weight = {8, 4 / s.groups, s.kernel, s.kernel},
                  y = {2, 8, out_side(s, 11), out_side(s, 9)};
      const Attributes a = [&] {
        Attributes attributes = to_attributes(s);
        for (int d = 0; d < 2; ++d) attributes.kernel[d] = 1;  // not a convolution's attribute
        return attributes;
      }();
      const auto in = [&](const Sizes& sizes) { return w.input(dtype, sizes, Pattern::kUnit); };
      if (info.kind == OpKind::kConv2d) {
        w.op({in(x), in(weight)}, y, dtype, a);
        w.program.terms = static_cast<double>(weight[1] * s.kernel * s.kernel);
      } else if (info.kind == OpKind::kConv2dBackwardInput) {
        w.op({in(y), in(weight)}, x, dtype, a);
        w.program.terms = static_cast<double>(8 / s.groups * s.kernel * s.kernel);
      } else if (info.kind == OpKind::kConv2dBackwardWeight) {
        w.op({in(y), in(x)}, weight, dtype, a);
        w.program.terms = static_cast<double>(2 * y[2] * y[3]);
      } else {
        return {};
      }
      w.program.magnitude = 1;
      programs.push_back(std::move(w.program));
    }
  }
  return programs;
}

std::vector<OpsProgram> concats(const OpInfo& info, DType dtype) {
  std::vector<OpsProgram> programs;
  std::uint64_t seed = 1;
  for (const std::int64_t dim : {0, 1, 2}) {
    OpsWriter w(info.kind, fmt::format("{} three pieces along {}", name(dtype), dim), ++seed);
    std::vector<Operand> pieces;
    Sizes total = {3, 4, 5};
    total[static_cast<std::size_t>(dim)] = 0;
    for (const std::int64_t side : {2, 0, 3}) {
      Sizes sizes = {3, 4, 5};
      sizes[static_cast<std::size_t>(dim)] = side;
      total[static_cast<std::size_t>(dim)] += side;
      pieces.push_back(w.input(dtype, sizes, Pattern::kAwkward));
    }
    Attributes attributes;
    attributes.dims = {dim};
    w.op(pieces, total, dtype, attributes);
    w.program.same_bits = true;
    programs.push_back(std::move(w.program));
  }
  return programs;
}

/// One list, each and every second element of it: its bytes as each of the other dtypes.
std::vector<OpsProgram> bitcasts(const OpInfo& info, DType from, const std::vector<DType>& dtypes) {
  std::vector<OpsProgram> programs;
  std::uint64_t seed = 1;
  for (const DType to : dtypes) {
    if (to == from || to == DType::kBool) continue;
    for (const std::int64_t stride : {1, 2}) {
      for (const bool names : {false, true}) {
        if (names && !is_floating(from)) continue;
        OpsWriter w(info.kind,
                    fmt::format("{} as {}, {} element{}", name(from), name(to), stride == 1 ? "each" : "every second",
                                names ? ", NaN named" : ""),
                    ++seed);
        const Operand x = w.input(from, View{8, {72}, {stride}}, Pattern::kAwkward);
        Attributes list;
        list.dims = {0};
        if (names) list.index = graph::kNamesNans;
        w.op({x}, {72 * size_bytes(from) / size_bytes(to)}, to, list);
        w.program.same_bits = true;
        programs.push_back(std::move(w.program));
      }
    }
  }
  return programs;
}

}  // namespace

std::vector<OpsProgram> indexed_programs(const OpInfo& info, const std::vector<DType>& dtypes, bool quick) {
  if (info.kind == OpKind::kTake || graph::is_put(info.kind)) return place_programs(info, dtypes, quick);
  std::vector<OpsProgram> programs;
  std::uint64_t seed = 1;
  for (const DType dtype : dtypes) {
    if (quick && dtype != DType::kF32) continue;
    if (info.kind == OpKind::kConcat) {
      for (OpsProgram& program : concats(info, dtype)) programs.push_back(std::move(program));
      for (OpsProgram& program : bitcasts(info, dtype, dtypes)) programs.push_back(std::move(program));
      continue;
    }
    for (const DType ids_type : {DType::kI64, DType::kI32}) {
      for (const std::int64_t count : {24, 1, 0}) {
        OpsWriter w(info.kind, fmt::format("{}, {} ids of {}", name(dtype), count, name(ids_type)), ++seed);
        if (info.kind == OpKind::kGatherRows) {
          const Operand table = w.input(dtype, Sizes{30, 13}, Pattern::kAwkward);
          w.op({table, w.ids(ids_type, {count}, 30)}, {count, 13}, dtype);
          w.program.same_bits = true;
        } else if (info.kind == OpKind::kScatterAddRows) {
          Attributes attributes;
          attributes.index = count == 24 ? 3 : -1;
          // Narrow floats may be added up as they are stored: whole numbers, whose sums are exact in them.
          const bool narrow = dtype == DType::kF16 || dtype == DType::kBF16;
          const Operand rows = w.input(dtype, Sizes{count, 13}, narrow ? Pattern::kSmallWhole : Pattern::kUnit);
          w.op({rows, w.ids(ids_type, {count}, 10)}, {10, 13}, dtype, attributes);
          if (is_floating(dtype)) w.program.terms = 24, w.program.magnitude = 1;
        } else if (info.kind == OpKind::kUpdate) {
          if (ids_type == DType::kI32) continue;  // it has no ids
          Attributes attributes;
          attributes.region = count == 24  ? View{21, {3, 4}, {40, 2}}
                              : count == 1 ? View{599, {1}, {1}}
                                           : View{0, {0}, {1}};
          const Operand base = w.input(dtype, Sizes{600}, Pattern::kAwkward);
          w.op({base, w.input(dtype, attributes.region.sizes, Pattern::kSmooth)}, {600}, dtype, attributes);
          w.program.same_bits = true;
        } else {
          return {};
        }
        programs.push_back(std::move(w.program));
      }
    }
  }
  return programs;
}

std::vector<OpsProgram> contraction_programs(const OpInfo& info, const std::vector<DType>& dtypes, bool quick) {
  return info.kind == OpKind::kMatMul ? products(info, dtypes, quick) : convolutions(info, dtypes, quick);
}

std::vector<OpsProgram> pooling_programs(const OpInfo& info, const std::vector<DType>& dtypes, bool quick) {
  std::vector<OpsProgram> programs;
  std::uint64_t seed = 1;
  for (const DType dtype : dtypes) {
    if (dtype != DType::kF32 && (quick || (dtype != DType::kF64 && dtype != DType::kI32 && dtype != DType::kU8)))
      continue;
    for (const Window& s :
         {Window{1, 3, 2, 1, 1}, Window{1, 2, 2, 0, 1}, Window{1, 3, 1, 1, 2}, Window{1, 2, 3, 1, 1}}) {
      OpsWriter w(info.kind,
                  fmt::format("{} {}x{} window, stride {}, padding {}, dilation {}", name(dtype), s.kernel, s.kernel,
                              s.stride, s.padding, s.dilation),
                  ++seed);
      const Sizes x = {2, 3, 12, 12}, y = {2, 3, out_side(s, 12), out_side(s, 12)};
      if (info.kind == OpKind::kMaxPool2d) {
        const Operand in = w.input(dtype, x, Pattern::kSmooth);
        if (is_floating(dtype)) {
          w.set_number(in, 30, std::numeric_limits<double>::quiet_NaN());
          for (std::int64_t i = 144; i < 288; ++i) w.set_number(in, i, -std::numeric_limits<double>::infinity());
        }
        Attributes attributes = to_attributes(s);
        w.op({in}, y, dtype, attributes);
        w.second_result(y, DType::kI64);
      } else if (info.kind == OpKind::kMaxPool2dBackward) {
        const Operand gradient = w.input(dtype, y, Pattern::kUnit);
        w.op({gradient, w.ids(DType::kI64, y, 144)}, x, dtype);
        if (is_floating(dtype)) w.program.terms = static_cast<double>(y[2] * y[3]), w.program.magnitude = 1;
      } else {
        return {};
      }
      programs.push_back(std::move(w.program));
    }
  }
  return programs;
}

}  // namespace crucible::conformance
