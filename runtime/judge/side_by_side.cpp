// Two sessions op by op: see side_by_side.hpp.
#include "runtime/judge/side_by_side.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "core/base/nan_bits.hpp"

namespace crucible::runtime {
namespace {

using Bytes = std::vector<std::byte>;

/// The elements that have other bits; one NaN is like another.
void count_differences(DType dtype, const Bytes& a, const Bytes& b, ResultDifference& difference) {
  const std::size_t size = size_bytes(dtype);
  difference.elements = a.size() / size;
  for (std::size_t i = 0; i < difference.elements; ++i) {
    const std::span x = std::span(a).subspan(i * size, size), y = std::span(b).subspan(i * size, size);
    if (same_bits(dtype, x, y) || difference.different++ != 0) continue;
    difference.first = i;
    difference.first_in_a = element_as_double(dtype, x);
    difference.first_in_b = element_as_double(dtype, y);
  }
}

Result<ResultDifference> compare_result(DType dtype, const Bytes& a, const Bytes& b) {
  ResultDifference difference;
  if (same_bits(dtype, a, b)) {
    difference.elements = a.size() / size_bytes(dtype);
    return difference;
  }
  count_differences(dtype, a, b, difference);
  if (difference.different == 0) return difference;
  const Result<TensorDifference> measured = compare(dtype, a, b);
  // Complex numbers and other types have no arithmetic here: their bits are all that counts.
  difference.max_rel_diff = measured ? measured->max_rel_diff : std::numeric_limits<double>::infinity();
  return difference;
}

}  // namespace

graph::Program with_every_result(const graph::Program& program) {
  graph::Program watched = program;
  for (const graph::Op& op : program.ops) {
    for (const graph::Operand& result : op.outputs) {
      graph::Output output;
      output.operand.value = result.value;
      output.operand.view = graph::View::contiguous({program.values[result.value].elements});
      output.blobs.assign(program.iterations, 0);  // never loaded: the other session is what it is compared with
      watched.outputs.push_back(std::move(output));
    }
  }
  return watched;
}

graph::Variants with_every_result(const graph::Variants& variants) {
  graph::Variants watched = variants;
  for (auto& program : watched.programs) program = std::make_shared<const graph::Program>(with_every_result(*program));
  return watched;
}

Result<SideBySide> run_side_by_side(const graph::Program& program, Session& a, Session& b,
                                    const SideBySideOptions& options) {
  SideBySide report;
  const std::uint32_t iterations = std::min(options.iterations, program.iterations);
  for (std::uint32_t iteration = 0; iteration < iterations && !report.first; ++iteration) {
    if (options.progress) options.progress(iteration);
    CRUCIBLE_TRY_VOID(a.start(iteration));  // both devices work at the same time
    CRUCIBLE_TRY_VOID(b.start(iteration));
    CRUCIBLE_TRY(const IterationResult ran_a, a.finish());
    CRUCIBLE_TRY(const IterationResult ran_b, b.finish());
    if (ran_a.outside && ran_b.outside) return *ran_a.outside;  // the recording's data is what both agree on
    ++report.iterations;
    std::size_t output = program.outputs.size();
    for (graph::OpId op = 0; op < program.ops.size() && !report.first; ++op) {
      for (std::uint32_t result = 0; result < program.ops[op].outputs.size(); ++result, ++output) {
        const DType dtype = program.values[program.ops[op].outputs[result].value].dtype;
        CRUCIBLE_TRY(const Bytes of_a, a.output_bytes(output));
        CRUCIBLE_TRY(const Bytes of_b, b.output_bytes(output));
        CRUCIBLE_TRY(ResultDifference difference, compare_result(dtype, of_a, of_b));
        ++report.results;
        report.bit_equal += difference.different == 0;
        report.max_rel_diff = std::max(report.max_rel_diff, difference.max_rel_diff);
        const bool differs =
            options.tolerance ? difference.max_rel_diff > *options.tolerance : difference.different > 0;
        if (!differs || report.first) continue;
        difference.iteration = iteration;
        difference.op = op;
        difference.result = result;
        report.first = difference;
      }
    }
    // An index that one side alone has is what it computed otherwise: the difference tells more, where one was found.
    if (!report.first && (ran_a.outside || ran_b.outside)) return ran_a.outside ? *ran_a.outside : *ran_b.outside;
  }
  return report;
}

}  // namespace crucible::runtime
