// Programs of takes and puts: tables in views, indices inside and outside, several for one element.
#include <fmt/format.h>

#include "plugins/conformance/ops_contractions.hpp"
#include "plugins/conformance/ops_writer.hpp"

namespace crucible::conformance {
namespace {

using graph::Operand;
using graph::OpKind;

/// Indices of a table with `rows` elements; about every sixth is outside, on either side.
Operand places(OpsWriter& w, DType dtype, const Sizes& sizes, std::int64_t rows) {
  const Operand ids = w.ids(dtype, sizes, rows);
  graph::Bytes& bytes = w.program.values[ids.value];
  for (std::int64_t i = 0; i < ids.view.elements(); i += 6) {
    graph::store_integer(dtype, i % 12 == 0 ? -1 - i : rows + i,
                         bytes.data() + static_cast<std::size_t>(i) * size_bytes(dtype));
  }
  return ids;
}

OpsProgram take(OpKind kind, DType dtype, DType ids, const Sizes& sizes, std::uint64_t seed) {
  OpsWriter w(kind, fmt::format("{}, [{}] indices of {}", name(dtype), fmt::join(sizes, ", "), name(ids)), seed);
  const Operand table = w.input(dtype, graph::View{3, {31}, {2}}, Pattern::kAwkward);
  w.op({table, places(w, ids, sizes, 31)}, sizes, dtype);
  w.program.same_bits = true;
  return std::move(w.program);
}

OpsProgram put(OpKind kind, DType dtype, DType ids, const Sizes& sizes, std::int64_t elements, std::uint64_t seed) {
  OpsWriter w(kind,
              fmt::format("{}, [{}] indices of {} into {}", name(dtype), fmt::join(sizes, ", "), name(ids), elements),
              seed);
  const bool moves = kind == OpKind::kPutSet;
  // Small whole numbers: their sums are exact in every dtype, and a product of many of them overflows none.
  const Pattern pattern = moves                          ? Pattern::kAwkward
                          : kind == OpKind::kPutMultiply ? Pattern::kUnit
                                                         : Pattern::kSmallWhole;
  const Operand base = w.input(dtype, Sizes{elements}, pattern);
  const Operand index = places(w, ids, sizes, elements);
  w.op({base, index, w.input(dtype, sizes, pattern)}, {elements}, dtype);
  w.program.same_bits = moves;
  return std::move(w.program);
}

}  // namespace

std::vector<OpsProgram> place_programs(const graph::OpInfo& info, const std::vector<DType>& dtypes, bool quick) {
  std::vector<OpsProgram> programs;
  std::uint64_t seed = 1;
  const bool arithmetic = info.kind == OpKind::kPutAdd || info.kind == OpKind::kPutMultiply;
  for (const DType dtype : dtypes) {
    if ((quick && dtype != DType::kF32) || (arithmetic && dtype == DType::kBool)) continue;
    for (const DType ids : {DType::kI64, DType::kI32}) {
      for (const Sizes& sizes : {Sizes{}, Sizes{0}, Sizes{37}, Sizes{5, 1, 9}}) {
        if (info.kind == OpKind::kTake) {
          programs.push_back(take(info.kind, dtype, ids, sizes, ++seed));
          continue;
        }
        for (const std::int64_t elements : {1, 33, 1000}) {
          programs.push_back(put(info.kind, dtype, ids, sizes, elements, ++seed));
        }
      }
    }
  }
  return programs;
}

}  // namespace crucible::conformance
