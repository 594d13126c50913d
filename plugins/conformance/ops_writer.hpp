// Writes one OpsProgram op by op, with the numbers that its inputs start with.
#pragma once

#include <string>
#include <vector>

#include "plugins/conformance/ops_programs.hpp"

namespace crucible::conformance {

using Sizes = std::vector<std::int64_t>;

/// What an input holds.
enum class Pattern : std::uint8_t {
  kSmooth,        // between 0.5 and 2, or -3 and 3: no op magnifies roundings there
  kAwkward,       // NaN, infinities, zeros of both signs, subnormals, the largest and smallest numbers, then others
  kAwkwardPairs,  // each of the awkward ones sixteen times in a row, so that two inputs meet in all pairs
  kUnit,          // between -1 and 1
  kSmallWhole,    // 0 to 8
};

class OpsWriter {
 public:
  OpsWriter(graph::OpKind kind, std::string label, std::uint64_t seed);

  /// An input whose buffer is as large as `view` reaches, and the view of it.
  graph::Operand input(DType dtype, const graph::View& view, Pattern pattern);
  graph::Operand input(DType dtype, const Sizes& sizes, Pattern pattern) {
    return input(dtype, graph::View::contiguous(sizes), pattern);
  }
  /// Whole numbers in [0, below).
  graph::Operand ids(DType dtype, const Sizes& sizes, std::int64_t below);
  graph::Operand bools(const graph::View& view);
  static graph::Operand number(double value);
  graph::Operand whole_slot(std::int64_t value);
  graph::Operand slot(double value);
  /// The op of the program's kind with one contiguous result that is kept.
  graph::Operand op(std::vector<graph::Operand> inputs, const Sizes& sizes, DType dtype,
                    graph::Attributes attributes = {});
  /// A result of the same op besides the first.
  graph::Operand second_result(const Sizes& sizes, DType dtype);
  void set_number(const graph::Operand& operand, std::int64_t index, double value);

  OpsProgram program;

 private:
  graph::ValueId add_value(graph::ValueKind kind, DType dtype, std::int64_t elements, graph::OpId producer);
  void keep(const graph::Operand& operand);
  double uniform();
  double draw(DType dtype, Pattern pattern, std::int64_t index);
  std::uint64_t random_;
};

/// The awkward numbers of a dtype; sixteen of them.
std::vector<double> awkward_numbers(DType dtype, graph::OpKind kind);

}  // namespace crucible::conformance
