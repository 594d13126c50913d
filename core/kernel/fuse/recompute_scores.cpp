// See recompute_scores.hpp.
#include "core/kernel/fuse/recompute_scores.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/kernel/fuse/attention.hpp"
#include "core/kernel/stamps.hpp"

namespace crucible::kernel {
namespace {

using graph::kNone;
using graph::Op;
using graph::Operand;
using graph::OpId;
using graph::OpKind;
using graph::Phase;
using graph::Program;
using graph::ValueId;
using graph::View;

View transposed(View view) {
  const std::size_t rank = view.sizes.size();
  std::swap(view.sizes[rank - 1], view.sizes[rank - 2]);
  std::swap(view.strides[rank - 1], view.strides[rank - 2]);
  return view;
}

class Restater {
 public:
  Restater(const Program& program, std::int64_t least_bytes) : program_(program), least_bytes_(least_bytes) {}

  std::optional<Program> run() {
    for (OpId op = 0; op < program_.ops.size(); ++op) find_product(op);
    const bool any_along = std::ranges::any_of(products_, [](const auto& entry) { return !entry.second; });
    if (!any_along || restated_.empty()) return std::nullopt;
    return rebuild();
  }

 private:
  bool is_forward(OpId op) const { return kernel::is_forward(program_, op); }

  /// A product of the backward pass whose left operand are large scores, or scores transposed, that come from products.
  void find_product(OpId id) {
    const Op& op = program_.ops[id];
    if (op.kind != OpKind::kMatMul || is_forward(id) || op.inputs[0].view.sizes.size() < 2) return;
    const ValueId left = op.inputs[0].value;
    auto sizes = score_sizes(op.inputs[0].view);
    const bool is_across = !sizes;
    if (is_across) sizes = score_sizes(transposed(op.inputs[0].view));
    if (!sizes || program_.values[left].elements != sizes->elements()) return;
    if (sizes->elements() * size_bytes(program_.values[left].dtype) < least_bytes_) return;
    std::set<ValueId> closure;
    bool has_product = false;
    collect(left, *sizes, closure, has_product);
    if (!has_product) return;
    products_[id] = is_across;
    for (const ValueId value : closure) {
      const OpId producer = program_.values[value].producer;
      if (is_forward(producer)) {
        restated_.insert(value);
      } else if (!is_across) {
        along_.insert(producer);
      }
      can_copy_.insert(value);
    }
  }

  /// Values of these sizes that are made by element-wise ops and products out of others, from `value` backwards.
  void collect(ValueId value, const ScoreSizes& sizes, std::set<ValueId>& closure, bool& has_product) const {
    if (closure.contains(value) || program_.values[value].producer == kNone) return;
    const Op& op = program_.ops[program_.values[value].producer];
    const bool is_product = op.kind == OpKind::kMatMul;
    const bool is_plain = graph::is_elementwise(op.kind) && op.kind != OpKind::kFill && op.kind != OpKind::kCoordinate;
    if ((!is_product && !is_plain) || !sizes.is_of(op.outputs[0].view)) return;
    if (is_product && op.inputs[0].view.sizes.back() >= sizes.keys) return;  // nothing that is cheaper than it is large
    closure.insert(value);
    has_product |= is_product;
    if (is_product) return;
    for (const Operand& input : op.inputs) {
      if (!input.is_scalar() && sizes.is_of(input.view)) collect(input.value, sizes, closure, has_product);
    }
  }

  Program rebuild() {
    out_ = program_;
    out_.ops.clear();
    std::vector<OpId> new_id(program_.ops.size());
    for (OpId id = 0; id < program_.ops.size(); ++id) {
      Op op = program_.ops[id];
      const auto product = products_.find(id);
      if (along_.contains(id) || product != products_.end()) {
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
          Operand& input = op.inputs[i];
          if (input.is_scalar()) continue;
          const bool is_across = i == 0 && product != products_.end() && product->second;
          if (is_across) {
            input = {copy_of(input.value, true), View::contiguous(input.view.sizes), {}};
          } else if (score_sizes(input.view)) {
            input.value = copy_of(input.value, false);
          }
        }
      }
      new_id[id] = static_cast<OpId>(out_.ops.size());
      out_.ops.push_back(std::move(op));
    }
    for (std::size_t value = 0; value < program_.values.size(); ++value) {
      if (out_.values[value].producer != kNone) out_.values[value].producer = new_id[out_.values[value].producer];
    }
    return std::move(out_);
  }

  /// What the backward pass reads instead of the value. Along: of what the forward pass made a copy, the rest as it is.
  ValueId copy_of(ValueId value, bool is_across) {
    if (!can_copy_.contains(value) || (!is_across && !restated_.contains(value))) return value;
    const auto found = copies_.find({value, is_across});
    if (found != copies_.end()) return found->second;
    Op copy = program_.ops[program_.values[value].producer];
    const bool is_product = copy.kind == OpKind::kMatMul;
    for (Operand& input : copy.inputs) {
      if (input.is_scalar()) continue;
      const bool is_copied = !is_product && can_copy_.contains(input.value) && score_sizes(input.view);
      if (is_copied) input.value = copy_of(input.value, is_across);
      if (!is_across) continue;
      input.view = is_copied ? View::contiguous(transposed(input.view).sizes) : transposed(input.view);
    }
    if (is_product && is_across) std::swap(copy.inputs[0], copy.inputs[1]);
    copy.source = backward_source(copy.source);
    const auto result = static_cast<ValueId>(out_.values.size());
    out_.values.push_back(program_.values[value]);
    out_.values.back().producer = static_cast<OpId>(out_.ops.size());
    copy.outputs[0].value = result;
    if (is_across) copy.outputs[0].view = View::contiguous(transposed(copy.outputs[0].view).sizes);
    out_.ops.push_back(std::move(copy));
    copies_.emplace(std::pair{value, is_across}, result);
    return result;
  }

  /// The same place in the user's program, in the backward pass.
  std::uint32_t backward_source(std::uint32_t source) {
    const auto [entry, is_new] = sources_.try_emplace(source, static_cast<std::uint32_t>(out_.sources.size()));
    if (is_new) {
      out_.sources.push_back(source < program_.sources.size() ? program_.sources[source] : graph::Source{});
      out_.sources.back().phase = Phase::kBackward;
    }
    return entry->second;
  }

  const Program& program_;
  const std::int64_t least_bytes_;
  std::map<OpId, bool> products_;    // that read scores; true: transposed ones
  std::set<OpId> along_;             // of the backward pass, between scores and the products that read them as they lie
  std::set<ValueId> restated_;       // scores of the forward pass
  std::set<ValueId> can_copy_;       // all of the two kinds
  Program out_;
  std::map<std::pair<ValueId, bool>, ValueId> copies_;
  std::map<std::uint32_t, std::uint32_t> sources_;
};

/// Of values as large as these scores: the bytes that go from one unit to another.
std::uint64_t large_bytes(const Program& program, const Options& options, std::int64_t least_bytes) {
  std::vector<Unit> units =
      make_units(program, true, options.numerics, options.stamps != nullptr ? &options.stamps->groups : nullptr);
  fuse_attention(program, units, options);
  const std::vector<std::uint32_t> unit_of = units_of_ops(program, units);
  // Ops that nothing wants do not count: backwards from the results, unit by unit.
  std::vector<bool> wanted(program.values.size(), false), in_memory(program.values.size(), false);
  for (const auto& state : program.states) wanted[state.end] = in_memory[state.end] = true;
  for (const auto& output : program.outputs) wanted[output.operand.value] = in_memory[output.operand.value] = true;
  for (OpId id = static_cast<OpId>(program.ops.size()); id-- > 0;) {
    const Op& op = program.ops[id];
    if (std::ranges::none_of(op.outputs, [&](const Operand& output) { return wanted[output.value]; })) continue;
    for (const Operand& input : op.inputs) {
      if (input.is_scalar()) continue;
      wanted[input.value] = true;
      const OpId producer = program.values[input.value].producer;
      if (producer != kNone && unit_of[producer] != unit_of[id]) in_memory[input.value] = true;
    }
  }
  std::uint64_t total = 0;
  for (ValueId value = 0; value < program.values.size(); ++value) {
    const auto bytes =
        program.values[value].elements * static_cast<std::int64_t>(size_bytes(program.values[value].dtype));
    if (in_memory[value] && bytes >= least_bytes) total += static_cast<std::uint64_t>(bytes);
  }
  return total;
}

}  // namespace

std::optional<Program> recompute_scores(const Program& program, const Options& options, std::int64_t least_bytes) {
  std::optional<Program> changed = Restater(program, least_bytes).run();
  if (!changed || large_bytes(*changed, options, least_bytes) >= large_bytes(program, options, least_bytes))
    return std::nullopt;
  return changed;
}

}  // namespace crucible::kernel
