#include "plugins/conformance/op_tolerance.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>
#include <vector>

#include "core/graph/op_table.hpp"
#include "plugins/conformance/ops_programs.hpp"

namespace crucible::conformance {
namespace {

using graph::OpKind;

constexpr std::array kFloats = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16};

/// What the programs of one kind are compared by, per dtype: "-" where none has such a result.
struct Row {
  std::array<std::string, kFloats.size()> of_floats;
  std::string of_others = "-";
  auto operator<=>(const Row&) const = default;
};

std::string bound_of(const OpsProgram& program, DType dtype) {
  const bool is_narrow = dtype == DType::kF16 || dtype == DType::kBF16;
  if (program.same_bits) return "bits";
  if (program.terms > 0) return is_narrow ? "n² m ε + 1" : "n² m ε";
  const double ulp = allowed_ulp(program.kind, dtype);
  return ulp == 0 ? "rounded" : fmt::format("{:g}", ulp);
}

Row row_of(OpKind kind) {
  Row row;
  row.of_floats.fill("-");
  for (const OpsProgram& program : programs_of(kind, {}, false)) {
    for (const graph::Op& op : program.program.ops) {
      if (op.kind != kind) continue;
      for (const graph::Operand& output : op.outputs) {
        const DType dtype = program.program.values[output.value].dtype;
        if (!is_floating(dtype)) row.of_others = "exact";
        for (std::size_t i = 0; i < kFloats.size(); ++i) {
          // A program of special numbers alone, or of a size without terms, says less than the others of its kind.
          if (kFloats[i] == dtype && (row.of_floats[i] == "-" || program.terms > 0))
            row.of_floats[i] = bound_of(program, dtype);
        }
      }
    }
  }
  return row;
}

}  // namespace

double allowed_ulp(OpKind kind, DType dtype) {
  const bool narrow = dtype == DType::kF16 || dtype == DType::kBF16;  // computed in f32, rounded once
  switch (kind) {
    case OpKind::kDivide:
    case OpKind::kSqrt:
    case OpKind::kReciprocal:
      return narrow ? 1 : 3;
    case OpKind::kExp:
    case OpKind::kLog:
    case OpKind::kReciprocalSqrt:
    case OpKind::kSin:
    case OpKind::kCos:
      return narrow ? 1 : 4;
    case OpKind::kTanh:
    case OpKind::kSigmoid:
      return narrow ? 1 : 6;
    case OpKind::kExp2:
    case OpKind::kExpm1:
    case OpKind::kLog1p:
    case OpKind::kLog2:
    case OpKind::kLog10:
    case OpKind::kTan:
    case OpKind::kAsin:
    case OpKind::kAcos:
    case OpKind::kAtan:
    case OpKind::kSinh:
    case OpKind::kCosh:
    case OpKind::kAsinh:
    case OpKind::kAcosh:
    case OpKind::kAtanh:
    case OpKind::kAtan2:
      return narrow ? 1 : 8;
    case OpKind::kErfc:
    case OpKind::kErfInverse:
    case OpKind::kLogGamma:
    case OpKind::kDigamma:
      return narrow ? 1 : dtype == DType::kF64 ? 4000 : 16;
    case OpKind::kErf:
      return narrow ? 1 : 16;
    case OpKind::kPower:
      return narrow ? 1 : dtype == DType::kF64 ? 1000 : 16;
    default:
      return 0;
  }
}

double sum_tolerance(double terms, double magnitude, DType dtype) {
  const double unit = dtype == DType::kF64 ? 0x1p-52 : 0x1p-23;
  return unit * terms * terms * magnitude;
}

std::string tolerance_table() {
  std::vector<std::pair<Row, std::string>> rows;  // in the order of the op table
  for (int i = 0; i < graph::kOpKindCount; ++i) {
    const auto kind = static_cast<OpKind>(i);
    const Row row = row_of(kind);
    auto found = rows.begin();
    while (found != rows.end() && found->first != row) ++found;
    if (found == rows.end())
      rows.emplace_back(row, graph::name(kind));
    else
      found->second += fmt::format(", {}", graph::name(kind));
  }
  std::string text = "| ops | f32 | f64 | f16 | bf16 | integers, bool |\n|---|---|---|---|---|---|\n";
  for (const auto& [row, names] : rows) {
    text += fmt::format("| {} |", names);
    for (const std::string& bound : row.of_floats) text += fmt::format(" {} |", bound);
    text += fmt::format(" {} |\n", row.of_others);
  }
  return text;
}

}  // namespace crucible::conformance
