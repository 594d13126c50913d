// The forms in which frontends lower biases and activations, found again: see library_epilogue.hpp.
#include "core/kernel/fuse/library_epilogue.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/graph/queries.hpp"

namespace crucible::kernel {
namespace {

using graph::kNone;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::Operand;
using graph::Program;
using graph::ValueId;

/// Follows what is made of a product's result. In between, each op is the only one that reads what the one before it
/// makes. Products of f16 and bf16 keep f32 until the bias is added, as a library does; what is rounded before the
/// activation a library rounds once.
class Tail {
 public:
  Tail(const Program& program, const graph::IdLists& readers, const std::vector<bool>& wanted, OpId product)
      : program_(program),
        readers_(readers),
        wanted_(wanted),
        product_(product),
        type_(program.values[program.ops[product].inputs[0].value].dtype) {}

  /// The calls that do the product and more, those that do most first.
  std::vector<ProductCall> calls() {
    std::vector<ProductCall> found;
    ops_ = {product_};
    at_ = program_.ops[product_].outputs[0].value;
    if (!is_whole(program_.ops[product_].outputs[0])) return found;
    widen();
    if (!add_bias() || !narrow()) return found;
    found.push_back(call(LibraryEpilogue::kBias));
    widen();
    if (take_relu() && narrow()) {
      found.insert(found.begin(), call(LibraryEpilogue::kBiasRelu));
    } else if (take_gelu() && narrow()) {
      found.insert(found.begin(), call(LibraryEpilogue::kBiasGelu));
    }
    return found;
  }

 private:
  /// The whole value, its elements in the order in which they lie.
  bool is_whole(const Operand& operand) const {
    return !operand.is_scalar() && operand.view.offset == 0 && operand.view.is_contiguous() &&
           operand.view.elements() == program_.values[operand.value].elements;
  }
  bool is_wanted(ValueId value) const { return wanted_[value]; }

  /// The one op that reads a value, if it is of this kind, takes the whole and makes a whole.
  const Op* only_reader(ValueId value, OpKind kind) const {
    if (is_wanted(value) || readers_[value].size() != 1) return nullptr;
    const Op& op = program_.ops[readers_[value][0]];
    return op.kind == kind && is_whole(op.outputs[0]) ? &op : nullptr;
  }
  OpId id_of(const Op& op) const { return static_cast<OpId>(&op - program_.ops.data()); }
  void go_to(const Op& op) {
    ops_.push_back(id_of(op));
    at_ = op.outputs[0].value;
  }

  bool convert(DType from, DType to) {
    if (program_.values[at_].dtype != from) return false;
    const Op* const copy = only_reader(at_, OpKind::kCopy);
    if (copy == nullptr || !is_whole(copy->inputs[0]) || program_.values[copy->outputs[0].value].dtype != to)
      return false;
    go_to(*copy);
    return true;
  }
  bool is_narrow() const { return type_ == DType::kF16 || type_ == DType::kBF16; }
  void widen() {
    if (is_narrow()) (void)convert(type_, DType::kF32);
  }
  /// True when the tail has the product's type then.
  bool narrow() { return program_.values[at_].dtype == type_ || (is_narrow() && convert(DType::kF32, type_)); }

  /// One number per column of the product's result.
  std::optional<graph::View> as_bias(const graph::View& view) const {
    const std::int64_t columns = program_.ops[product_].outputs[0].view.sizes.back();
    if (view.sizes.empty() || view.sizes.back() != columns || (columns > 1 && view.strides.back() != 1))
      return std::nullopt;
    for (std::size_t d = 0; d + 1 < view.sizes.size(); ++d) {
      if (view.sizes[d] > 1 && view.strides[d] != 0) return std::nullopt;
    }
    return graph::View{view.offset, {columns}, {1}};
  }

  bool add_bias() {
    const Op* const add = only_reader(at_, OpKind::kAdd);
    if (add == nullptr) return false;
    const std::size_t own = !add->inputs[0].is_scalar() && add->inputs[0].value == at_ ? 0 : 1;
    const Operand& bias = add->inputs[1 - own];
    if (bias.is_scalar() || !is_whole(add->inputs[own])) return false;
    if (program_.values[add->outputs[0].value].dtype != program_.values[at_].dtype) return false;
    const auto view = as_bias(bias.view);
    if (!view) return false;
    bias_ = bias.value;
    bias_view_ = *view;
    if (program_.values[bias_].dtype != type_ && !read_bias_before_conversion()) return false;
    const OpId producer = program_.values[bias_].producer;
    if (producer != kNone &&
        (program_.ops[producer].kind == OpKind::kFill || program_.ops[producer].kind == OpKind::kCoordinate))
      return false;
    go_to(*add);
    return true;
  }
  /// The bias was converted for this sum alone.
  bool read_bias_before_conversion() {
    const OpId producer = program_.values[bias_].producer;
    if (producer == kNone || readers_[bias_].size() != 1 || is_wanted(bias_)) return false;
    const Op& copy = program_.ops[producer];
    if (copy.kind != OpKind::kCopy || !is_whole(copy.inputs[0]) || !is_whole(copy.outputs[0])) return false;
    if (program_.values[copy.inputs[0].value].dtype != type_) return false;
    bias_ = copy.inputs[0].value;
    ops_.push_back(producer);
    return true;
  }

  bool is_at(const Operand& operand) const { return is_whole(operand) && operand.value == at_; }

  bool take_relu() {
    const Op* const maximum = only_reader(at_, OpKind::kMaximum);
    if (maximum == nullptr || !is_at(maximum->inputs[0]) || !graph::is_number(maximum->inputs[1], 0)) return false;
    go_to(*maximum);
    return true;
  }

  /// x half (1 + tanh(...)) as frontends/aten lowers it, from its end: GELU by tanh, which is the one that libraries
  /// have.
  bool take_gelu() {
    if (is_wanted(at_)) return false;
    for (const OpId last : readers_[at_]) {
      std::vector<OpId> ops;
      if (!is_gelu(last, ops)) continue;
      const auto is_inside = [&](OpId op) { return std::ranges::find(ops, op) != ops.end(); };
      if (!std::ranges::all_of(readers_[at_], is_inside)) return false;
      const bool is_read_outside = std::ranges::any_of(ops, [&](OpId op) {
        const ValueId made = program_.ops[op].outputs[0].value;
        return op != last && (is_wanted(made) || !std::ranges::all_of(readers_[made], is_inside));
      });
      if (is_read_outside) return false;
      ops_.insert(ops_.end(), ops.begin(), ops.end());
      at_ = program_.ops[last].outputs[0].value;
      return true;
    }
    return false;
  }

  bool is_gelu(OpId last, std::vector<OpId>& ops) const {
    constexpr double kSqrtTwoOverPi = 0.79788456080286535588, kCubic = 0.044715;
    const Op *const end = &program_.ops[last], *const half = maker(binary(end, OpKind::kMultiply, ops)),
             *const sum = scaled(half, OpKind::kMultiply, 0.5, ops), *const tanh = scaled(sum, OpKind::kAdd, 1, ops);
    if (tanh == nullptr || tanh->kind != OpKind::kTanh || !is_whole_step(*tanh)) return false;
    ops.push_back(id_of(*tanh));
    const Op *const inner = scaled(maker(&tanh->inputs[0]), OpKind::kMultiply, kSqrtTwoOverPi, ops),
                    *const cubic = maker(binary(inner, OpKind::kAdd, ops)),
                    *const cube = scaled(cubic, OpKind::kMultiply, kCubic, ops);
    if (cube == nullptr || cube->kind != OpKind::kMultiply || !is_whole_step(*cube)) return false;
    const bool is_right = is_at(cube->inputs[1]);
    if (!is_right && !is_at(cube->inputs[0])) return false;
    ops.push_back(id_of(*cube));
    const Op* const square = maker(&cube->inputs[is_right ? 0 : 1]);
    const Operand* const factor = binary(square, OpKind::kMultiply, ops);
    return factor != nullptr && is_at(*factor);
  }
  bool is_whole_step(const Op& op) const {
    return is_whole(op.outputs[0]) &&
           std::ranges::all_of(op.inputs, [&](const Operand& input) { return input.is_scalar() || is_whole(input); });
  }
  const Op* maker(const Operand* operand) const {
    const OpId op = operand == nullptr || operand->is_scalar() ? kNone : program_.values[operand->value].producer;
    return op == kNone ? nullptr : &program_.ops[op];
  }
  /// Of an op of this kind on the tail's value and another: the other.
  const Operand* binary(const Op* op, OpKind kind, std::vector<OpId>& ops) const {
    if (op == nullptr || op->kind != kind || !is_whole_step(*op)) return nullptr;
    ops.push_back(id_of(*op));
    if (is_at(op->inputs[0])) return &op->inputs[1];
    return is_at(op->inputs[1]) ? &op->inputs[0] : nullptr;
  }
  /// Of an op of this kind with this number: what makes its operand.
  const Op* scaled(const Op* op, OpKind kind, double number, std::vector<OpId>& ops) const {
    if (op == nullptr || op->kind != kind || !is_whole_step(*op) || !graph::is_number(op->inputs[1], number))
      return nullptr;
    ops.push_back(id_of(*op));
    return maker(&op->inputs[0]);
  }

  ProductCall call(LibraryEpilogue epilogue) const {
    ProductCall made;
    made.call = *library_call_of(program_, program_.ops[product_]);
    made.call.keeps_f32 = false;  // what it stores has the product's type again
    made.call.epilogue = epilogue;
    made.call.extra = bias_view_;
    made.ops = ops_;
    std::ranges::sort(made.ops);
    made.bias = bias_;
    made.result = at_;
    return made;
  }

  const Program& program_;
  const graph::IdLists& readers_;
  const std::vector<bool>& wanted_;
  const OpId product_;
  const DType type_;
  std::vector<OpId> ops_;
  ValueId at_ = kNone, bias_ = kNone;
  graph::View bias_view_;
};

bool is_alone(const Unit& unit) {
  return unit.ops.size() == 1 && unit.group.members.empty() && unit.anchor == kNone && !unit.is_attention();
}

class Taking {
 public:
  Taking(const Program& program, std::vector<Unit>& units)
      : program_(program),
        units_(units),
        unit_of_(units_of_ops(program, units)),
        ends_state_(program.values.size(), false),
        before_(units.size()) {
    for (const graph::State& state : program.states) ends_state_[state.end] = true;
  }

  /// Whether the units of its ops let them go, and its bias is there when the product is done, or can be. Not a state's
  /// end: that is written where the state lies, after all that read what it was.
  bool may_take(std::uint32_t unit, const ProductCall& call) const {
    if (ends_state_[call.result]) return false;
    if (!std::ranges::all_of(call.ops, [&](OpId op) { return unit_of_[op] == unit || may_leave(op); })) return false;
    const OpId maker = program_.values[call.bias].producer;
    if (maker == kNone || (unit_of_[maker] != kNone && unit_of_[maker] < unit)) return true;
    // A parameter converted anew in each iteration (autocast) can be converted earlier, by a launch of its own if
    // another one goes for it.
    const Op& op = program_.ops[maker];
    return op.kind == OpKind::kCopy && !op.inputs[0].is_scalar() &&
           program_.values[op.inputs[0].value].producer == kNone && may_leave(maker) &&
           std::ranges::any_of(call.ops, [&](OpId of) {
             return unit_of_[of] != unit && is_emptied(units_[unit_of_[of]], call, maker);
           });
  }

  void take(std::uint32_t unit, const ProductCall& call, OpId product) {
    const OpId maker = program_.values[call.bias].producer;
    if (maker != kNone && unit_of_[maker] >= unit) {
      leave(maker);
      before_[unit].push_back({.ops = {maker}, .group = *make_group(program_, maker, Numerics::kFast)});
      unit_of_[maker] = unit;
    }
    for (const OpId op : call.ops) leave(op);
    units_[unit].ops = call.ops;
    units_[unit].anchor = product;
  }

  void finish() {
    std::vector<Unit> all;
    for (std::uint32_t u = 0; u < units_.size(); ++u) {
      std::ranges::move(before_[u], std::back_inserter(all));
      if (!units_[u].ops.empty()) all.push_back(std::move(units_[u]));
    }
    units_ = std::move(all);
  }

 private:
  bool may_leave(OpId op) const {
    if (unit_of_[op] == kNone) return false;
    const Unit& unit = units_[unit_of_[op]];
    return unit.anchor == kNone && !unit.is_attention() && !unit.group.members.empty();
  }
  static bool is_emptied(const Unit& unit, const ProductCall& call, OpId maker) {
    return std::ranges::all_of(unit.ops,
                               [&](OpId op) { return op == maker || std::ranges::binary_search(call.ops, op); });
  }
  void leave(OpId op) {
    Unit& unit = units_[unit_of_[op]];
    std::erase(unit.ops, op);
    std::erase_if(unit.group.members, [&](const Member& member) { return member.op == op; });
  }

  const Program& program_;
  std::vector<Unit>& units_;
  std::vector<std::uint32_t> unit_of_;
  std::vector<bool> ends_state_;           // per value
  std::vector<std::vector<Unit>> before_;  // per unit: new ones
};

}  // namespace

std::map<OpId, ProductCall> take_epilogues(const Program& program, std::vector<Unit>& units,
                                           const std::function<bool(OpId)>& by_library,
                                           const std::function<bool(const LibraryCall&)>& claims) {
  const graph::IdLists readers = graph::readers(program);
  const std::vector<bool> wanted = graph::wanted_at_end(program);
  Taking taking(program, units);
  std::map<OpId, ProductCall> taken;
  for (std::uint32_t u = 0; u < units.size(); ++u) {
    if (!is_alone(units[u]) || program.ops[units[u].ops[0]].kind != OpKind::kMatMul) continue;
    const OpId product = units[u].ops[0];
    for (ProductCall& call : Tail(program, readers, wanted, product).calls()) {
      if (!taking.may_take(u, call)) continue;
      if (!by_library(product)) break;
      if (!claims(call.call)) continue;
      taking.take(u, call, product);
      taken.emplace(product, std::move(call));
      break;
    }
  }
  taking.finish();
  return taken;
}

}  // namespace crucible::kernel
