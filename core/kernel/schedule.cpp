// From a program to steps: groups (fusion.hpp), kernels (emit.hpp), library calls, which values need memory, and which
// results may be written over operands. See schedule.hpp.
#include "core/kernel/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "core/base/hash.hpp"
#include "core/base/progress.hpp"
#include "core/graph/opaque.hpp"
#include "core/graph/passes.hpp"
#include "core/graph/queries.hpp"
#include "core/kernel/emit/emit.hpp"
#include "core/kernel/fuse/attention.hpp"
#include "core/kernel/fuse/epilogue.hpp"
#include "core/kernel/fuse/fusion.hpp"
#include "core/kernel/fuse/in_place.hpp"
#include "core/kernel/fuse/library_epilogue.hpp"
#include "core/kernel/fuse/named_attention.hpp"
#include "core/kernel/fuse/recompute_scores.hpp"
#include "core/kernel/fuse/rematerialize.hpp"
#include "core/kernel/fuse/split_products.hpp"
#include "core/kernel/fuse/trained_attention.hpp"
#include "core/kernel/fuse/turn_operands.hpp"
#include "core/kernel/ir/read_ir.hpp"
#include "core/kernel/launch_stamps.hpp"
#include "core/kernel/stamps.hpp"

namespace crucible::kernel {
namespace {

using graph::kNone;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::Program;
using graph::ValueId;
using graph::ValueKind;

constexpr double kWorthAThreadNs = 5000;

std::optional<LibraryKind> library_kind(OpKind kind) {
  switch (kind) {
    case OpKind::kMatMul:
      return LibraryKind::kMatMul;
    case OpKind::kConv2d:
      return LibraryKind::kConv2d;
    case OpKind::kConv2dBackwardInput:
      return LibraryKind::kConv2dBackwardInput;
    case OpKind::kConv2dBackwardWeight:
      return LibraryKind::kConv2dBackwardWeight;
    default:
      return std::nullopt;
  }
}

/// The kernel of a product or convolution; nothing for other ops. `epilogue`: null for none.
std::optional<Emitted> emit_product(const Program& program, const Op& op, Numerics numerics, const DeviceShape& device,
                                    const Epilogue* epilogue) {
  if (op.kind == OpKind::kMatMul) return emit_matmul(program, op, numerics, device, epilogue);
  if (op.kind == OpKind::kConv2d) return emit_conv2d(program, op, device, epilogue);
  if (op.kind == OpKind::kConv2dBackwardInput) return emit_conv2d_backward_input(program, op, device, epilogue);
  if (op.kind == OpKind::kConv2dBackwardWeight) return emit_conv2d_backward_weight(program, op, device, epilogue);
  return std::nullopt;
}

class Scheduler {
 public:
  Scheduler(const Program& program, const Options& options, std::vector<Unit> units, Stamps& stamps)
      : program_(program), options_(options), stamps_(stamps), units_(std::move(units)) {}

  Result<Schedule> run() {
    if (options_.fuse && options_.claims && !is_strict())
      attentions_ = claim_attentions(program_, units_, options_.claims);
    in_attention_.assign(program_.ops.size(), false);
    for (const LibraryAttention& attention : attentions_) {
      for (const OpId op : attention.ops) in_attention_[op] = true;
    }
    if (options_.fuse) fuse_attention(program_, units_, options_);
    schedule_.epilogues = options_.fuse && options_.epilogues;
    if (schedule_.epilogues) {
      units_ =
          join_epilogues(program_, std::move(units_), [&](OpId op) { return !is_in_attention(op) && !is_claimed(op); });
    }
    if (options_.fuse && options_.claims && !is_strict())
      product_calls_ = take_epilogues(
          program_, units_, [&](OpId op) { return is_claimed(op); }, options_.claims);
    find_needed();
    schedule_.numerics = options_.numerics;
    schedule_.materialized.assign(program_.values.size(), false);
    for (std::size_t u = 0; u < units_.size(); ++u) {
      report_progress("writing kernels", u, units_.size());
      if (live_[u]) CRUCIBLE_TRY_VOID(add_step(units_[u], stored_[u]));
    }
    for (const Step& step : schedule_.steps) {
      for (const BufferArgument& argument : step.buffers) schedule_.materialized[argument.value] = true;
    }
    for (const auto& state : program_.states) {
      schedule_.materialized[state.start] = true;
      schedule_.materialized[state.end] = true;
    }
    schedule_.in_place = choose_in_place(program_, schedule_.steps, schedule_.aliases);
    report_progress("", 0, 0);
    return std::move(schedule_);
  }

 private:
  bool is_strict() const { return options_.numerics == Numerics::kStrict; }

  /// Which units do something that is wanted, and which of their values others need: backwards from the results.
  void find_needed() {
    live_.assign(units_.size(), false);
    stored_.resize(units_.size());
    std::vector<bool> needed = graph::wanted_at_end(program_);
    for (std::size_t u = units_.size(); u-- > 0;) {
      Unit& unit = units_[u];
      for (OpId op : unit.ops) {
        for (const auto& output : program_.ops[op].outputs) {
          if (needed[output.value]) stored_[u].insert(output.value);
        }
      }
      if (unit.library_attention != kNone) {
        live_[u] = !stored_[u].empty();
        for (const ValueId operand : attentions_[unit.library_attention].operands)
          needed[operand] = needed[operand] || live_[u];
        continue;
      }
      const bool acts = std::ranges::any_of(unit.ops, [&](OpId op) { return has_effects(program_, program_.ops[op]); });
      live_[u] = !stored_[u].empty() || acts;
      // Ops of a live unit that nothing wants go; what the others read is wanted from here on.
      std::set<OpId> dead;
      for (std::size_t i = unit.ops.size(); i-- > 0;) {
        const Op& op = program_.ops[unit.ops[i]];
        const bool is_wanted =
            std::ranges::any_of(op.outputs, [&](const auto& output) { return needed[output.value]; });
        if (!is_wanted && !has_effects(program_, op)) {
          dead.insert(unit.ops[i]);
          continue;
        }
        mark_reads(unit, unit.ops[i], needed);
      }
      for (auto* ops : {&unit.ops, &unit.inner, &unit.outer})
        std::erase_if(*ops, [&](OpId op) { return dead.contains(op); });
      std::erase_if(unit.group.members, [&](const Member& member) { return dead.contains(member.op); });
      if (dead.contains(unit.anchor)) unit.anchor = kNone;  // its epilogue may do what has nothing to do with it
    }
  }

  /// What the op reads from memory, or within its unit, is needed; what its nest computes in place is not.
  void mark_reads(const Unit& unit, OpId id, std::vector<bool>& needed) const {
    const auto member = std::ranges::find(unit.group.members, id, &Member::op);
    if (member == unit.group.members.end() || id == unit.anchor) {
      for (const auto& input : program_.ops[id].inputs) {
        if (!input.is_scalar()) needed[input.value] = true;
      }
      return;
    }
    for (const Access& input : member->inputs) {
      if (input.value != graph::kNone) needed[input.value] = true;
    }
  }

  bool is_in_attention(OpId id) const { return in_attention_[id]; }

  /// Whether the library takes it; asked once.
  bool is_claimed(OpId id) {
    if (!options_.claims || is_strict()) return false;
    const auto [entry, is_new] = claimed_.try_emplace(id, false);
    if (!is_new) return entry->second;
    const auto call = library_call_of(program_, program_.ops[id]);
    return entry->second = call && program_.ops[id].outputs[0].view.elements() > 0 && options_.claims(*call);
  }

  Result<void> add_step(const Unit& unit, const std::set<ValueId>& stored) {
    if (unit.library_attention != kNone) return add_attention(attentions_[unit.library_attention]);
    if (const auto found = product_calls_.find(unit.anchor); unit.anchor != kNone && found != product_calls_.end())
      return add_product_call(found->second);
    if (is_single(unit)) {
      const Op& op = program_.ops[unit.ops[0]];
      if (is_claimed(unit.ops[0])) return add_library(op, *library_call_of(program_, op), unit.ops);
      if (op.kind == OpKind::kOpaque) return add_opaque(op, unit.ops);
    }
    return add_launch(unit, stored);
  }

  /// Its op has no nest, and a kernel of its own.
  static bool is_single(const Unit& unit) {
    return !unit.is_attention() && unit.anchor == kNone && unit.group.members.empty();
  }

  /// The product or convolution that the unit's kernel is, maybe with an epilogue; null for other units.
  const Op* product_of(const Unit& unit) const {
    if (unit.is_attention()) return nullptr;
    if (unit.anchor != kNone) return &program_.ops[unit.anchor];
    if (!unit.group.members.empty() || !library_kind(program_.ops[unit.ops[0]].kind)) return nullptr;
    return &program_.ops[unit.ops[0]];
  }

  Result<Emitted> emit(const Unit& unit, const std::set<ValueId>& stored, const DeviceShape& shape) const {
    if (unit.is_attention()) return emit_attention(program_, unit, stored, shape);
    const Epilogue epilogue{unit.group, stored};
    if (const Op* product = product_of(unit))
      return *emit_product(program_, *product, options_.numerics, shape, unit.anchor != kNone ? &epilogue : nullptr);
    if (!unit.group.members.empty()) return emit_group(program_, unit.group, stored, shape.lanes);
    const Op& op = program_.ops[unit.ops[0]];
    switch (op.kind) {
      case OpKind::kArgMax:
      case OpKind::kArgMin:
        return emit_arg_reduction(program_, op);
      case OpKind::kScanSum:
      case OpKind::kScanProduct:
      case OpKind::kScanMax:
      case OpKind::kScanMin:
        return emit_scan(program_, op);
      case OpKind::kSortAscending:
      case OpKind::kSortDescending:
        return emit_sort(program_, op);
      case OpKind::kCholesky:
      case OpKind::kTriangularSolve:
      case OpKind::kLu:
      case OpKind::kPivotsToPermutation:
      case OpKind::kHouseholderQr:
      case OpKind::kHouseholderProduct:
      case OpKind::kEigenSymmetric:
      case OpKind::kSingularValues:
        return emit_factorization(program_, op);
      case OpKind::kScatterAddRows:
        return emit_scatter_add_rows(program_, op, shape.lanes);
      case OpKind::kConcat:
        return emit_concat(program_, op);
      case OpKind::kUpdate:
        return emit_update(program_, op, shape.lanes);
      case OpKind::kPutSet:
      case OpKind::kPutAdd:
      case OpKind::kPutMultiply:
      case OpKind::kPutMax:
      case OpKind::kPutMin:
        return emit_put(program_, op);
      case OpKind::kMaxPool2d:
        return emit_max_pool(program_, op, shape.lanes);
      case OpKind::kMaxPool2dBackward:
        return emit_max_pool_backward(program_, op, shape.lanes);
      default:
        return Error{ErrorCode::kBadInput, fmt::format("no kernel can be generated for {}", describe(unit.ops[0]))};
    }
  }

  /// The device, and how the product on it is cut.
  DeviceShape shape_for(const Op& op) const {
    DeviceShape shape = options_.device;
    if (const auto call = library_call_of(program_, op); call && options_.cut) shape.cut = options_.cut(*call);
    return shape;
  }

  std::string describe(OpId id) const {
    const Op& op = program_.ops[id];
    std::string text = fmt::format("op {} ({})", id, graph::name(op.kind));
    if (op.source < program_.sources.size()) {
      const graph::Source& source = program_.sources[op.source];
      text +=
          fmt::format(", {} in {} at {}", source.op, source.module.empty() ? "no module" : source.module, source.site);
    }
    return text;
  }

  Result<void> add_library(const Op& op, const LibraryCall& call, const std::vector<OpId>& ops) {
    Step step;
    step.kind = StepKind::kLibrary;
    step.library = call;
    for (const auto& input : op.inputs) step.buffers.push_back({input.value, false});
    step.buffers.push_back({op.outputs[0].value, true});
    step.flops = graph::flops(op);
    step.ops = ops;
    finish(std::move(step), {});
    return {};
  }

  Result<void> add_product_call(const ProductCall& call) {
    Step step;
    step.kind = StepKind::kLibrary;
    step.library = call.call;
    const Op& product =
        program_.ops[*std::ranges::find(call.ops, OpKind::kMatMul, [&](OpId op) { return program_.ops[op].kind; })];
    for (const auto& input : product.inputs) step.buffers.push_back({input.value, false});
    step.buffers.push_back({call.result, true});
    step.buffers.push_back({call.bias, false});
    for (const OpId op : call.ops) step.flops += graph::flops(program_.ops[op]);
    step.ops = call.ops;
    finish(std::move(step), {});
    return {};
  }

  Result<void> add_attention(const LibraryAttention& attention) {
    Step step;
    step.kind = StepKind::kLibrary;
    step.library = attention.call;
    for (const ValueId operand : attention.operands) step.buffers.push_back({operand, false});
    for (const ValueId result : attention.results) step.buffers.push_back({result, true});
    for (const OpId op : attention.ops) step.flops += graph::flops(program_.ops[op]);
    step.ops = attention.ops;
    finish(std::move(step), {});
    return {};
  }

  /// A launch of one work item whose text is the op itself: only a device of that dialect can do it.
  Result<void> add_opaque(const Op& op, const std::vector<OpId>& ops) {
    if (is_strict()) {
      return Error{ErrorCode::kUsage,
                   fmt::format("{} runs as the framework has it, whose bits nothing names: it cannot be strict; "
                               "--numerics fast runs it",
                               describe(ops[0]))};
    }
    Step step;
    std::string opaque = graph::opaque_kernel(program_, op);
    const std::string hash = sha256(std::as_bytes(std::span(opaque))).hex();
    step.kernel = kernel_index({.name = "o_" + hash.substr(0, 16), .opaque = std::move(opaque)}, hash);
    for (const auto& input : op.inputs) {
      if (input.is_scalar()) {
        step.scalars.push_back(input.scalar);
      } else {
        step.buffers.push_back({input.value, false});
      }
    }
    for (const auto& output : op.outputs) step.buffers.push_back({output.value, true});
    step.ops = ops;
    finish(std::move(step), {});
    return {};
  }

  /// The launch of an equal unit on the values of this one; written where there was none (launch_stamps.hpp).
  Result<void> add_launch(const Unit& unit, const std::set<ValueId>& stored) {
    const Op* product = product_of(unit);
    const DeviceShape shape = product != nullptr ? shape_for(*product) : options_.device;
    bool is_stamp = LaunchStamps::can_stamp(program_, unit);
    if (is_stamp) {
      const StampedLaunch* known =
          stamps_.launches.find(program_, unit, {stored.begin(), stored.end()}, options_.numerics, shape);
      if (known != nullptr) return add_stamped(*known, stamps_.launches.names(), unit.ops);
    }
    CRUCIBLE_TRY(Emitted emitted, emit(unit, stored, shape));
    const auto are_named = [&](const auto& all, const auto& names) {
      return std::ranges::all_of(all, [&](const auto& each) { return std::ranges::find(names, each) != names.end(); });
    };
    is_stamp = is_stamp && are_named(emitted.values, stamps_.launches.names().values) &&
               are_named(emitted.scalars, stamps_.launches.names().slots);
    const LaunchStamps::Names own{emitted.values, emitted.scalars};
    const LaunchStamps::Names& names = is_stamp ? stamps_.launches.names() : own;
    CRUCIBLE_TRY(StampedLaunch launch, written(std::move(emitted), names, unit.ops));
    CRUCIBLE_TRY_VOID(add_stamped(launch, names, unit.ops));
    if (is_stamp) stamps_.launches.keep(std::move(launch));
    return {};
  }

  /// `names`: all that the launch names, and maybe more.
  Result<StampedLaunch> written(Emitted emitted, const LaunchStamps::Names& names, const std::vector<OpId>& ops) const {
    std::vector<std::int64_t> elements;
    bool writes = false;
    for (std::size_t i = 0; i < emitted.values.size(); ++i) {
      const graph::Value& value = program_.values[emitted.values[i]];
      // A kernel that moves bits reads memory in another type than its value's.
      elements.push_back(value.elements * size_bytes(value.dtype) / size_bytes(emitted.ir.buffers[i].type));
      writes |= emitted.ir.buffers[i].written && elements.back() > 0;
    }
    if (!writes) emitted.grid = 0;  // extents around the one of 0 may be of any size: its loops would turn so often
    if (auto verified = verify_kernel(emitted.ir, elements, emitted.grid); !verified) {
      return Error{verified.error().code, fmt::format("{} (kernel of {})", verified.error().message, describe(ops[0]))};
    }
    const auto place = [](const auto& all, const auto& each) {
      return static_cast<std::uint32_t>(std::ranges::find(all, each) - all.begin());
    };
    StampedLaunch launch;
    launch.kernel.ir = serialize_ir(emitted.ir);
    launch.hash = sha256(launch.kernel.ir).hex();
    launch.kernel.name = "k_" + launch.hash.substr(0, 16);
    for (std::size_t i = 0; i < emitted.values.size(); ++i)
      launch.buffers.push_back({place(names.values, emitted.values[i]), emitted.ir.buffers[i].written});
    for (const graph::Scalar& scalar : emitted.scalars) launch.scalars.push_back(place(names.slots, scalar));
    for (const AliasPair& pair : emitted.aliases)
      launch.aliases.emplace_back(place(names.values, pair.operand), place(names.values, pair.result));
    launch.grid = emitted.grid;
    launch.grain =
        static_cast<std::int64_t>(std::clamp(std::ceil(kWorthAThreadNs / std::max(emitted.item_ns, 1e-3)), 1.0, 1e9));
    launch.flops = emitted.flops;
    launch.cuts = std::move(emitted.cuts);
    return launch;
  }

  Result<void> add_stamped(const StampedLaunch& launch, const LaunchStamps::Names& names,
                           const std::vector<OpId>& ops) {
    Step step;
    step.kernel = kernel_index(launch.kernel, launch.hash);
    for (const StampedLaunch::Buffer& buffer : launch.buffers)
      step.buffers.push_back({names.values[buffer.value], buffer.written});
    for (const std::uint32_t scalar : launch.scalars) step.scalars.push_back(names.slots[scalar]);
    std::vector<AliasPair> aliases;
    for (const auto& [operand, result] : launch.aliases)
      aliases.push_back({names.values[operand], names.values[result]});
    step.cuts = launch.cuts;
    step.grid = launch.grid;
    step.grain = launch.grain;
    step.flops = launch.flops;
    step.ops = ops;
    finish(std::move(step), aliases);
    return {};
  }

  std::uint32_t kernel_index(const Kernel& kernel, const std::string& hash) {
    const auto [found, is_new] = kernel_of_hash_.emplace(hash, static_cast<std::uint32_t>(schedule_.kernels.size()));
    if (is_new) schedule_.kernels.push_back(kernel);
    return found->second;
  }

  /// All elements, but of a table that the step only looks things up in no more than it takes out.
  std::int64_t elements_touched(const Step& step, const BufferArgument& argument) const {
    const std::int64_t all = program_.values[argument.value].elements;
    std::int64_t taken = 0;
    for (const OpId id : step.ops) {
      const Op& op = program_.ops[id];
      const bool looks_up = op.kind == OpKind::kGatherRows || op.kind == OpKind::kTake;
      for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        if (op.inputs[i].is_scalar() || op.inputs[i].value != argument.value) continue;
        if (!looks_up || i != 0) return all;
        taken += op.outputs[0].view.elements();
      }
    }
    return taken == 0 ? all : std::min(all, taken);
  }

  void finish(Step step, const std::vector<AliasPair>& aliases) {
    for (const BufferArgument& argument : step.buffers) {
      const graph::Value& value = program_.values[argument.value];
      step.bytes += static_cast<std::uint64_t>(elements_touched(step, argument)) * size_bytes(value.dtype);
    }
    for (const AliasPair& pair : aliases) {
      schedule_.aliases.push_back({static_cast<std::uint32_t>(schedule_.steps.size()), pair.operand, pair.result});
    }
    schedule_.steps.push_back(std::move(step));
  }

  const Program& program_;
  const Options& options_;
  Stamps& stamps_;
  std::vector<Unit> units_;
  std::vector<LibraryAttention> attentions_;
  std::vector<bool> in_attention_;  // per op: a library's
  std::vector<bool> live_;
  std::vector<std::set<ValueId>> stored_;  // per unit
  std::map<OpId, bool> claimed_;
  std::map<OpId, ProductCall> product_calls_;  // by product
  std::map<std::string, std::uint32_t> kernel_of_hash_;
  Schedule schedule_;
};

}  // namespace

std::optional<LibraryCall> library_call_of(const Program& program, const Op& op) {
  const auto kind = library_kind(op.kind);
  if (!kind || op.attributes.pieces > 0) return std::nullopt;
  LibraryCall call;
  call.kind = *kind;
  call.dtype = program.values[op.inputs[0].value].dtype;
  call.keeps_f32 = program.values[op.outputs[0].value].dtype != call.dtype;
  call.views[0] = op.inputs[0].view;
  call.views[1] = op.inputs[1].view;
  call.views[2] = op.outputs[0].view;
  call.attributes = op.attributes;
  return call;
}

Result<Schedule> schedule(const Program& program, const Options& options) {
  Stamps own;
  Stamps& stamps = options.stamps != nullptr ? *options.stamps : own;
  return Scheduler(program, options, make_units(program, options.fuse, options.numerics, &stamps.groups), stamps).run();
}

std::optional<Program> in_parts(const Program& program, const Options& options) {
  const bool wanted = options.numerics == Numerics::kStrict || options.device.lanes > 1;
  if (!wanted || !graph::has_long_reductions(program, graph::SplitFor::kLanes)) return std::nullopt;
  std::optional<Program> parts = program;
  graph::split_reductions(*parts, graph::SplitFor::kLanes);
  return parts;
}

Result<Prepared> prepare(const Program& program, const Options& asked) {
  Stamps own;
  Options options = asked;
  if (options.stamps == nullptr) options.stamps = &own;
  GroupStamps* const groups = &options.stamps->groups;
  Prepared prepared;
  prepared.program = in_parts(program, options);
  const auto now = [&]() -> const Program& { return prepared.program ? *prepared.program : program; };
  if (options.fuse) {
    if (auto scores = recompute_scores(now(), options)) prepared.program = std::move(scores);
  }
  if (auto turned = turn_operands(now(), options)) prepared.program = std::move(turned);
  if (auto pieces = split_products(now(), options)) prepared.program = std::move(pieces);
  if (!options.fuse) {
    CRUCIBLE_TRY(prepared.schedule, schedule(now(), options));
    return prepared;
  }
  Rematerialized changed = rematerialize(now(), options.numerics, groups);
  if (changed.program) prepared.program = std::move(changed.program);
  if (options.claims && options.numerics == Numerics::kFast) {
    if (auto trained = state_trained_attentions(now(), options.claims)) {
      prepared.program = std::move(trained);
      changed.units = make_units(now(), true, options.numerics, groups);
    }
  }
  Scheduler scheduler(now(), options, std::move(changed.units), *options.stamps);
  CRUCIBLE_TRY(prepared.schedule, scheduler.run());
  return prepared;
}

}  // namespace crucible::kernel
