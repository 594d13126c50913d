// Each op of a device's iteration run again by the reference interpreter, on the device's own operands: see
// explain.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/time_limit.hpp"
#include "core/graph/reference.hpp"
#include "runtime/judge/compare.hpp"
#include "runtime/judge/explain.hpp"

namespace crucible::runtime {
namespace {

using graph::Bytes;

class Checker {
 public:
  Checker(const graph::Variants& variants, const trace::BlobStore& blobs, Session& watched,
          const ExplainOptions& options)
      : variants_(variants), blobs_(blobs), watched_(watched), options_(options) {}

  Result<OpCheck> check() {
    const auto iterations = std::min(static_cast<std::uint32_t>(variants_.turns.size()), options_.iterations);
    for (std::uint32_t iteration = 0; iteration < iterations && !is_done(); ++iteration) {
      if (options_.progress) options_.progress(fmt::format("checking the results of iteration {} op by op", iteration));
      CRUCIBLE_TRY_VOID(load(iteration));
      CRUCIBLE_TRY_VOID(watched_.run(iteration));
      CRUCIBLE_TRY_VOID(read_results());
      const std::vector<graph::Op>& ops = program_->ops;
      for (graph::OpId op = 0; op < ops.size() && !is_done(); ++op) {
        if (ops[op].kind != graph::OpKind::kOpaque) CRUCIBLE_TRY_VOID(check_op(iteration, op));
        if (limit_.is_over()) {
          check_.stopped =
              fmt::format("the time was up after op {} of {} of iteration {}", op + 1, ops.size(), iteration);
        }
      }
      if (!is_done()) ++check_.iterations;
    }
    return std::move(check_);
  }

 private:
  Result<Bytes> bytes_of(graph::ValueId value, std::uint32_t blob) const {
    const graph::Value& its = program_->values[value];
    if (blob == graph::kNone) return Bytes(static_cast<std::size_t>(its.elements) * size_bytes(its.dtype));
    return blobs_.load(blob);
  }

  /// The variant that the iteration runs, and what that starts from: the states as they were left, whichever variant
  /// left them.
  Result<void> load(std::uint32_t iteration) {
    const graph::Turn& turn = variants_.turns[iteration];
    program_ = variants_.programs[turn.variant].get();
    values_.assign(program_->values.size(), {});
    for (std::size_t i = 0; i < program_->states.size(); ++i) {
      const graph::State& state = program_->states[i];
      CRUCIBLE_TRY(values_[state.start], iteration == 0 ? bytes_of(state.start, state.initial_blob)
                                                        : watched_.state_bytes(watched_.program().states[i]));
    }
    std::vector<Bytes> given_bytes;  // all of them before any is written: states may change places
    for (const graph::Given& given : turn.given) {
      if (given.from == graph::kNone) {
        CRUCIBLE_TRY(given_bytes.emplace_back(), bytes_of(program_->states[given.state].start, given.blob));
      } else {
        given_bytes.push_back(values_[program_->states[given.from].start]);
      }
    }
    for (std::size_t i = 0; i < given_bytes.size(); ++i)
      values_[program_->states[turn.given[i].state].start] = std::move(given_bytes[i]);
    for (const graph::Input& input : program_->inputs) {
      CRUCIBLE_TRY(values_[input.value], bytes_of(input.value, input.blobs[turn.index]));
    }
    for (const graph::Constant& constant : program_->constants) {
      CRUCIBLE_TRY(values_[constant.value], bytes_of(constant.value, constant.blob));
    }
    slots_.clear();
    for (const graph::Slot& slot : program_->slots) slots_.push_back(slot.values[turn.index]);
    return {};
  }

  Result<void> read_results() {
    std::size_t output = program_->outputs.size();
    for (const graph::Op& op : program_->ops) {
      for (const graph::Operand& result : op.outputs) {
        CRUCIBLE_TRY(values_[result.value], watched_.output_bytes(output++));
      }
    }
    return {};
  }

  Result<void> check_op(std::uint32_t iteration, graph::OpId id) {
    const graph::Op& op = program_->ops[id];
    std::vector<Bytes> device;
    for (const graph::Operand& result : op.outputs) device.push_back(std::move(values_[result.value]));
    CRUCIBLE_TRY_VOID(graph::run_op(*program_, id, values_, slots_));
    std::vector<Bytes> exact;
    for (const graph::Operand& result : op.outputs) exact.push_back(std::move(values_[result.value]));
    for (std::uint32_t i = 0; i < op.outputs.size() && !is_done(); ++i) {
      ++check_.results;
      if (device[i] == exact[i]) continue;
      const DType dtype = program_->values[op.outputs[i].value].dtype;
      const double far = gap_between(dtype, device[i], exact[i]).largest, lean = lean_of(dtype, device[i], exact[i]);
      double allowed = output_tolerance(dtype), allowed_lean = kLean;
      if (far <= allowed && std::abs(lean) <= allowed_lean) continue;
      CRUCIBLE_TRY(const Roughly rough, roughness_of(id, i, exact[i]));
      allowed = std::max(allowed, kRoughly * rough.far);
      allowed_lean = std::max(allowed_lean, kRoughlyLean * rough.lean);
      const bool leans = std::abs(lean) > allowed_lean;
      if (far <= allowed && !leans) continue;
      OpDifference difference{.iteration = iteration,
                              .variant = variants_.turns[iteration].variant,
                              .op = id,
                              .result = i,
                              .difference = far,
                              .allowed = allowed,
                              .words = words_of_difference(dtype, device[i], exact[i])};
      if (far <= allowed) difference.lean = lean, difference.allowed = allowed_lean;
      check_.differences.push_back(std::move(difference));
      break;
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) values_[op.outputs[i].value] = std::move(device[i]);
    return {};
  }

  bool is_done() const { return check_.differences.size() >= options_.differences || !check_.stopped.empty(); }

  struct Roughly {
    double far = 0;
    double lean = 0;  // between the runs that lean least and most
  };

  /// How far one rounding of the operands and sums in f32 move a result, and how differently rough arithmetic makes it
  /// lean.
  Result<Roughly> roughness_of(graph::OpId id, std::uint32_t result, const Bytes& exact) {
    constexpr int kRuns = 6;
    const graph::Op& op = program_->ops[id];
    const graph::ValueId value = op.outputs[result].value;
    std::vector<std::pair<graph::ValueId, Bytes>> kept;
    for (const graph::Operand& operand : op.inputs) {
      if (!operand.is_scalar() &&
          std::ranges::find(kept, operand.value, &std::pair<graph::ValueId, Bytes>::first) == kept.end()) {
        kept.emplace_back(operand.value, values_[operand.value]);
      }
    }
    Roughly largest;
    std::vector<double> leans;
    Result<void> ran;
    const DType dtype = program_->values[value].dtype;
    // Moved operands lean as far as a narrow dtype's roundings are large: how far the arithmetic leans is told with the
    // operands as they are.
    for (const bool is_moved : {true, false}) {
      for (int run = 1; run <= kRuns && ran; ++run) {
        graph::Roughness rough(static_cast<std::uint64_t>(run));
        for (const auto& [operand, bytes] : kept) {
          values_[operand] = bytes;
          const DType its = program_->values[operand].dtype;
          if (is_moved && size_bytes(its) >= size_bytes(dtype))
            graph::nudge(its, values_[operand], rough);  // a narrower one's rounding is none of this result's
        }
        ran = graph::run_op(*program_, id, values_, slots_, &rough);
        if (!ran) break;
        if (is_moved) {
          largest.far = std::max(largest.far, gap_between(dtype, values_[value], exact).largest);
        } else {
          leans.push_back(lean_of(dtype, values_[value], exact));
        }
      }
      if (dtype != DType::kF16 && dtype != DType::kBF16) break;
    }
    if (!leans.empty()) largest.lean = std::ranges::max(leans) - std::ranges::min(leans);
    for (auto& [operand, bytes] : kept) values_[operand] = std::move(bytes);
    if (!ran) return ran.error();
    return largest;
  }

  static constexpr double kRoughly = 8;
  static constexpr double kLean = 4e-4, kRoughlyLean = 2;
  const graph::Variants& variants_;
  const graph::Program* program_ = nullptr;  // of the present iteration
  const trace::BlobStore& blobs_;
  Session& watched_;
  const ExplainOptions& options_;
  std::vector<Bytes> values_;
  std::vector<graph::Number> slots_;
  OpCheck check_;
  const TimeLimit limit_{options_.seconds};
};

}  // namespace

Result<OpCheck> check_ops(const graph::Variants& variants, const trace::BlobStore& blobs, Session& watched,
                          const ExplainOptions& options) {
  return Checker(variants, blobs, watched, options).check();
}

std::string in_words(const graph::Variants& variants, const OpDifference& difference) {
  const graph::Program& program = *variants.programs[difference.variant];
  const graph::Op& op = program.ops[difference.op];
  const std::string variant = variants.programs.size() == 1 ? "" : fmt::format(" (variant {})", difference.variant);
  std::string text =
      fmt::format("iteration {}{}, op {} ({})", difference.iteration, variant, difference.op, graph::name(op.kind));
  if (op.source < program.sources.size()) {
    const graph::Source& source = program.sources[op.source];
    text += fmt::format(", recorded as {}{}{}", source.op, source.site.empty() ? "" : " at " + source.site,
                        source.module.empty() ? "" : fmt::format(" ({})", source.module));
  }
  if (!std::isfinite(difference.difference)) return text + ": " + difference.words;
  if (difference.lean != 0) {
    return text + fmt::format(
                      ": each element is within a rounding, but all lean to one side, by {:.2g} of themselves; {:.2g} "
                      "is a rounding's share",
                      difference.lean, difference.allowed);
  }
  return text + fmt::format(": by {:.3g} of its largest element, {:.2g} is a rounding's share", difference.difference,
                            difference.allowed);
}

}  // namespace crucible::runtime
