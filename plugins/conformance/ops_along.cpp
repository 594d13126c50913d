// Arg-reductions, scans and sorts: see ops_along.hpp.
#include "plugins/conformance/ops_along.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plugins/conformance/ops_writer.hpp"

namespace crucible::conformance {
namespace {

using graph::Attributes;
using graph::OpClass;
using graph::Operand;
using graph::OpInfo;
using graph::OpKind;
using graph::View;

struct Line {
  Sizes sizes;
  std::int64_t dim;
  Pattern pattern;
  bool permuted = false;  // [6, 10, 9] read in another order
};

}  // namespace

std::vector<OpsProgram> along_programs(const OpInfo& info, const std::vector<DType>& dtypes, bool quick) {
  const bool sums = info.kind == OpKind::kScanSum, products = info.kind == OpKind::kScanProduct;
  const bool arg = info.op_class == OpClass::kArgReduction;
  const Line lines[] = {{{6, 10, 9}, 1, Pattern::kSmallWhole, true},
                        {{6, 33, 2}, 1, Pattern::kAwkward},
                        {{1}, 0, Pattern::kUnit},
                        {{7, 64}, 1, Pattern::kUnit},
                        {{65, 3}, 0, Pattern::kSmallWhole},
                        {{2, 1000}, 1, Pattern::kUnit},
                        {{0, 4}, 1, Pattern::kUnit},
                        {{4, 0}, 1, Pattern::kUnit}};
  std::vector<OpsProgram> programs;
  std::uint64_t seed = static_cast<std::uint64_t>(info.kind) * 100;
  for (const DType dtype : dtypes) {
    if (dtype == DType::kBool && (sums || products)) continue;
    if (quick && dtype != DType::kF32) continue;
    for (std::size_t i = 0; i < std::size(lines); ++i) {
      const Line& line = lines[i];
      if (dtype != DType::kF32 && i > 2) continue;
      if (arg && line.sizes[static_cast<std::size_t>(line.dim)] == 0) continue;
      // Totals of the largest numbers overflow here and there; their order is what makes them differ.
      const Pattern pattern = (sums || products) && line.pattern == Pattern::kAwkward ? Pattern::kUnit : line.pattern;
      OpsWriter w(info.kind,
                  fmt::format("{} [{}] along {}{}", name(dtype), fmt::join(line.sizes, ", "), line.dim,
                              line.permuted ? " permuted" : ""),
                  ++seed);
      const View dense = View::contiguous(line.sizes);
      const View read = line.permuted ? View{0, line.sizes, {1, 54, 6}} : dense;
      Attributes attributes;
      attributes.dims = {line.dim};
      Sizes result = line.sizes;
      if (arg) result[static_cast<std::size_t>(line.dim)] = 1;
      w.op({w.input(dtype, read, products && is_floating(dtype) ? Pattern::kUnit : pattern)}, result,
           arg ? DType::kI64 : dtype, attributes);
      if (info.outputs == 2) w.second_result(result, DType::kI64);
      if ((sums || products) && is_floating(dtype)) {
        w.program.terms =
            static_cast<double>(std::max<std::int64_t>(line.sizes[static_cast<std::size_t>(line.dim)], 1));
        w.program.magnitude = pattern == Pattern::kSmallWhole && sums ? 8 : 1;
      } else {
        w.program.same_bits = !arg && is_floating(dtype);
      }
      programs.push_back(std::move(w.program));
    }
  }
  return programs;
}

}  // namespace crucible::conformance
