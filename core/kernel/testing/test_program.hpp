// Test support: small programs written op by op, with data, and the comparison of their execution on the host with the
// reference interpreter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/graph/program.hpp"
#include "core/graph/reference_numbers.hpp"
#include "core/kernel/testing/host_executor.hpp"
#include "core/kernel/schedule.hpp"

namespace crucible::kernel {

using Sizes = std::vector<std::int64_t>;

class TestProgram {
 public:
  graph::Program program;
  std::vector<graph::Bytes> values;
  std::vector<graph::Number> slots;

  explicit TestProgram(std::uint64_t seed = 1) : random_(seed * 2654435761u + 1) { program.iterations = 1; }

  /// A tensor that enters from outside: floats in [low, high), integers in [low, high), bools at random.
  graph::Operand input(DType dtype, const Sizes& sizes, double low = -1, double high = 1);
  /// A state; end_state() names the value that it ends in.
  graph::Operand state(DType dtype, const Sizes& sizes, double low = -1, double high = 1);
  void end_state(const graph::Operand& start, const graph::Operand& end);
  graph::Operand scalar(double number) const;
  graph::Operand slot(double number);

  /// Appends an op with one result of these sizes, contiguous, and returns it.
  graph::Operand op(graph::OpKind kind, std::vector<graph::Operand> inputs, const Sizes& sizes,
                    DType dtype = DType::kF32, graph::Attributes attributes = {});
  /// A sum or maximum over `dims`, which the result keeps with size 1.
  graph::Operand reduce(graph::OpKind kind, const graph::Operand& x, const Sizes& dims);
  /// A second result of the last op.
  graph::Operand second_result(const Sizes& sizes, DType dtype);
  /// Marks a value as a result that must be computed.
  void keep(const graph::Operand& operand);

 private:
  graph::ValueId add_value(graph::ValueKind kind, DType dtype, std::int64_t elements, graph::OpId producer);
  graph::Bytes random_bytes(DType dtype, std::int64_t elements, double low, double high);
  double uniform();
  std::uint64_t random_;
};

/// The same operand as a view with these sizes (broadcast where the view has size 1) or with swapped dimensions.
graph::Operand expanded(graph::Operand operand, const Sizes& sizes);
graph::Operand permuted(const graph::Operand& operand, const std::vector<std::size_t>& order);
graph::Operand reshaped(const graph::Operand& operand, const Sizes& sizes);

/// "" when `got` holds what `want` holds, within a bound (times `slack`) relative to the buffer's largest number, or to
/// `terms`; else what differs.
std::string difference(const graph::Program& program, graph::ValueId value, const graph::Bytes& got,
                       const graph::Bytes& want, double slack = 1, double terms = 0);
/// How large an error a single number may have that is a sum, or a sum of sums, of many that cancel: the root of the
/// sum of the terms' squares, or more where equal terms let errors add up. 0 for other values.
double size_of_terms(const graph::Program& program, graph::ValueId value, const std::vector<graph::Bytes>& want);

/// Who runs the kernels: clang's text on the host and the interpreter of the kernel IR, or the interpreter alone, which
/// needs no compiler and takes a fiftieth of the time.
enum class Executors { kCompiledAndInterpreted, kInterpreted };

/// Schedules the program with and without fusion and for a device with lanes, checks the schedules, runs them in many
/// ways and compares the kept values and states with the reference interpreter: one failure text per difference.
/// `fused_steps` gets the number of steps of the fused schedule. Programs are compiled together. kStrict: what is kept
/// has equal bits in all runs.
std::vector<std::string> run_and_compare(const std::vector<const TestProgram*>& programs,
                                         std::vector<std::size_t>* fused_steps = nullptr,
                                         Numerics numerics = Numerics::kFast,
                                         Executors executors = Executors::kCompiledAndInterpreted);

}  // namespace crucible::kernel
