// Counting, and the comparison of complete iterations with the first one.
#include "core/trace/summary.hpp"

#include <fmt/format.h>

#include <bit>
#include <set>

namespace crucible::trace {

namespace {

bool same_bits(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }

/// Marks the scalars that differ between one iteration and the first, in the order in which they stand.
class Comparison {
 public:
  explicit Comparison(const Trace& trace) : trace_(trace) {}

  /// "" or the first difference that is not a scalar's.
  std::string compare(const Iteration& first, const Iteration& other) {
    position_ = 0;
    if (first.op_count != other.op_count) return fmt::format("{} ops instead of {}", other.op_count, first.op_count);
    for (std::uint32_t i = 0; i < first.op_count; ++i) {
      const Op& a = trace_.ops[first.first_op + i];
      const Op& b = trace_.ops[other.first_op + i];
      if (a.schema != b.schema) {
        return fmt::format("op {} is {} instead of {}", i, trace_.schemas[b.schema].full_name(),
                           trace_.schemas[a.schema].full_name());
      }
      if (!same_structure(a.args, b.args) || !same_structure(a.outputs, b.outputs)) {
        return fmt::format("op {}, {}, has other arguments", i, trace_.schemas[a.schema].full_name());
      }
    }
    return "";
  }

  std::uint64_t differing() const { return differing_; }

 private:
  bool same_structure(const std::vector<Arg>& a, const std::vector<Arg>& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!same_structure(a[i], b[i])) return false;
    }
    return true;
  }

  bool same_structure(const Arg& a, const Arg& b) {
    if (a.kind != b.kind) return false;
    switch (a.kind) {
      case Arg::Kind::kNone:
      case Arg::Kind::kUndefinedTensor:
        return true;
      case Arg::Kind::kBool:
      case Arg::Kind::kInt:
        return scalar(a.integer == b.integer);
      case Arg::Kind::kDouble:
        return scalar(same_bits(a.real, b.real));
      case Arg::Kind::kComplex:
        return scalar(same_bits(a.real, b.real) && same_bits(a.imaginary, b.imaginary));
      case Arg::Kind::kDType:
      case Arg::Kind::kLayout:
      case Arg::Kind::kMemoryFormat:
        return a.integer == b.integer;
      case Arg::Kind::kString:
      case Arg::Kind::kDevice:
      case Arg::Kind::kGenerator:
      case Arg::Kind::kOpaque:
        return a.text == b.text;
      case Arg::Kind::kTensor: {
        const Tensor& x = trace_.tensors[a.tensor];
        const Tensor& y = trace_.tensors[b.tensor];
        return x.dtype == y.dtype && x.sizes == y.sizes && x.strides == y.strides && x.offset == y.offset;
      }
      case Arg::Kind::kList:
        return same_structure(a.list, b.list);
    }
    return false;
  }

  bool scalar(bool is_equal) {
    if (position_ == differs_.size()) differs_.push_back(false);
    if (!is_equal && !differs_[position_]) {
      differs_[position_] = true;
      ++differing_;
    }
    ++position_;
    return true;
  }

  const Trace& trace_;
  std::size_t position_ = 0;
  std::vector<bool> differs_;  // per scalar of the iteration
  std::uint64_t differing_ = 0;
};

void count_slots(const Trace& trace, Summary& summary) {
  if (summary.complete_iterations < 2) {
    summary.no_slots_reason = fmt::format("{} complete iteration{}, at least 2 are needed", summary.complete_iterations,
                                          summary.complete_iterations == 1 ? "" : "s");
    return;
  }
  Comparison comparison(trace);
  const Iteration* first = nullptr;
  for (std::size_t i = 0; i < trace.iterations.size(); ++i) {
    const Iteration& iteration = trace.iterations[i];
    if (!iteration.complete) continue;
    if (first == nullptr) first = &iteration;
    const std::string difference = comparison.compare(*first, iteration);
    if (difference.empty()) continue;
    summary.no_slots_reason =
        fmt::format("iteration {} differs from iteration {}: {}", i, first - trace.iterations.data(), difference);
    return;
  }
  summary.slots = comparison.differing();
}

}  // namespace

std::string_view name(Role role) {
  switch (role) {
    case Role::kUnknown:
      return "unknown";
    case Role::kParameter:
      return "parameter";
    case Role::kBuffer:
      return "buffer";
    case Role::kOptimizerState:
      return "optimizer_state";
    case Role::kInput:
      return "input";
  }
  return "unknown";
}

std::string_view name(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return "forward";
    case Phase::kBackward:
      return "backward";
    case Phase::kOptimizer:
      return "optimizer";
  }
  return "forward";
}

Summary summarize(const Trace& trace) {
  Summary summary;
  for (const Iteration& iteration : trace.iterations) {
    ++summary.iterations;
    summary.complete_iterations += iteration.complete;
    summary.ops += iteration.op_count;
    summary.ops_per_iteration.push_back(iteration.op_count);
  }
  std::set<SchemaId> schemas;
  for (const Op& op : trace.ops) schemas.insert(op.schema);
  summary.unique_ops = schemas.size();
  for (const External& external : trace.externals) {
    Summary::Externals& of_role = summary.externals[static_cast<std::size_t>(external.role)];
    const std::uint64_t size = external.blob < trace.blobs.size() ? trace.blobs[external.blob].size_bytes : 0;
    ++of_role.count;
    of_role.size_bytes += size;
    summary.external_bytes += size;
  }
  for (const Blob& blob : trace.blobs) summary.blob_bytes += blob.size_bytes;
  count_slots(trace, summary);
  return summary;
}

}  // namespace crucible::trace
