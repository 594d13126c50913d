// Two sessions of one program side by side, op by op: which result is the first that differs. For finding out where one
// device, compiler or plugin computes something else than another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>

#include "core/graph/program.hpp"
#include "core/graph/variants.hpp"
#include "runtime/judge/compare.hpp"
#include "runtime/run/session.hpp"

namespace crucible::runtime {

/// `program` with the whole result of every op among its outputs, behind its own ones and in the order of the ops: so
/// all of them still lie in memory when an iteration ends. It needs as much memory as everything that an iteration
/// computes.
graph::Program with_every_result(const graph::Program& program);
/// The same of each variant.
graph::Variants with_every_result(const graph::Variants& variants);

/// The result of an op that is not the same in both sessions.
struct ResultDifference {
  std::uint32_t iteration = 0;
  graph::OpId op = graph::kNone;  // of the program that was given to with_every_result()
  std::uint32_t result = 0;       // which of the op's
  std::size_t elements = 0, different = 0;
  double max_rel_diff = 0;  // as TensorDifference
  std::size_t first = 0;    // the first element that differs, in memory order
  double first_in_a = 0, first_in_b = 0;
};

struct SideBySide {
  std::uint32_t iterations = 0;           // that ran; the last one is the first with a difference, if there is one
  std::size_t results = 0;                // compared, of all iterations
  std::size_t bit_equal = 0;              // NaN of any sign and payload are one
  double max_rel_diff = 0;                // over all results
  std::optional<ResultDifference> first;  // the first beyond the tolerance
};

struct SideBySideOptions {
  /// Of a result's TensorDifference::max_rel_diff; nothing: the bits have to be equal.
  std::optional<double> tolerance = std::nullopt;
  std::uint32_t iterations = std::numeric_limits<std::uint32_t>::max();  // at most as many as were recorded
  std::function<void(std::uint32_t)> progress = nullptr;                 // hears of each iteration
};

/// Runs both, iteration by iteration, until a result differs. `program` is the one without the added outputs; both
/// sessions were created with with_every_result(program), and have not run. Threads: the caller's. Errors: those of
/// running and reading; kBadInput for an index out of range that both have (graph::Bound), or one has while no result
/// differs.
Result<SideBySide> run_side_by_side(const graph::Program& program, Session& a, Session& b,
                                    const SideBySideOptions& options);

}  // namespace crucible::runtime
