// Rules of a schedule, checked on its face: see schedule_check.hpp.
#include "core/kernel/schedule_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <functional>
#include <set>
#include <vector>

#include "core/graph/view.hpp"
#include "core/kernel/fuse/library_epilogue_check.hpp"

namespace crucible::kernel {
namespace {

using graph::kNone;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::Program;
using graph::ValueId;
using graph::ValueKind;

using StepId = std::uint32_t;

class Checker {
 public:
  Checker(const Program& program, const Schedule& schedule)
      : program_(program),
        schedule_(schedule),
        step_of_(program.ops.size(), kNone),
        writer_(program.values.size(), kNone) {}

  Result<void> run() {
    for (StepId s = 0; s < schedule_.steps.size(); ++s) CRUCIBLE_TRY_VOID(check_step(s));
    CRUCIBLE_TRY_VOID(check_completeness());
    CRUCIBLE_TRY_VOID(check_materialized());
    return check_in_place();
  }

 private:
  template <class... Args>
  Error broken(StepId step, fmt::format_string<Args...> text, Args&&... args) const {
    return Error{ErrorCode::kCheckFailed,
                 fmt::format("schedule check: step {}: {}", step, fmt::format(text, std::forward<Args>(args)...))};
  }

  bool is_generator(OpId op) const {
    return op != kNone && (program_.ops[op].kind == OpKind::kFill || program_.ops[op].kind == OpKind::kCoordinate);
  }

  Result<void> check_step(StepId s) {
    const Step& step = schedule_.steps[s];
    if (step.kind == StepKind::kLaunch && step.kernel >= schedule_.kernels.size()) {
      return broken(s, "names kernel {} of {}", step.kernel, schedule_.kernels.size());
    }
    if (step.grid < 0 || step.grain < 1) return broken(s, "grid is {} and grain {}", step.grid, step.grain);
    for (const graph::Scalar& scalar : step.scalars) {
      if (scalar.slot != kNone && scalar.slot >= program_.slots.size())
        return broken(s, "names slot {} of {}", scalar.slot, program_.slots.size());
      if (scalar.slot != kNone && scalar.is_integer != program_.slots[scalar.slot].is_integer)
        return broken(s, "reads slot {} as a number of another type", scalar.slot);
    }
    std::set<ValueId> seen;
    for (const BufferArgument& argument : step.buffers) {
      if (argument.value >= program_.values.size())
        return broken(s, "names value {} of {}", argument.value, program_.values.size());
      if (step.kind == StepKind::kLaunch && !seen.insert(argument.value).second)
        return broken(s, "names value {} twice", argument.value);
      CRUCIBLE_TRY_VOID(argument.written ? check_written(s, argument.value) : check_read(s, argument.value));
    }
    for (OpId op : step.ops) CRUCIBLE_TRY_VOID(check_op(s, op));
    if (epilogue_product(step) == nullptr && !is_library_attention(step)) {
      for (OpId op : step.ops) CRUCIBLE_TRY_VOID(check_product(s, op));
    }
    CRUCIBLE_TRY_VOID(check_host(s));
    CRUCIBLE_TRY_VOID(check_epilogue(s));
    return step.kind == StepKind::kLibrary ? check_library(s) : Result<void>();
  }

  Result<void> check_read(StepId s, ValueId value) const {
    if (program_.values[value].kind != ValueKind::kTemporary || writer_[value] != kNone) return {};
    return broken(s, "reads value {}, which no earlier step writes", value);
  }

  Result<void> check_written(StepId s, ValueId value) {
    if (program_.values[value].kind != ValueKind::kTemporary)
      return broken(s, "writes value {}, which enters from outside", value);
    if (writer_[value] != kNone) return broken(s, "writes value {}, which step {} has written", value, writer_[value]);
    const auto& ops = schedule_.steps[s].ops;
    if (!std::ranges::count(ops, program_.values[value].producer))
      return broken(s, "writes value {} without its producer", value);
    writer_[value] = s;
    return {};
  }

  Result<void> check_op(StepId s, OpId id) {
    if (id >= program_.ops.size()) return broken(s, "names op {} of {}", id, program_.ops.size());
    if (step_of_[id] != kNone) return broken(s, "does op {}, which step {} has done", id, step_of_[id]);
    step_of_[id] = s;
    const Step& step = schedule_.steps[s];
    for (const graph::Operand& input : program_.ops[id].inputs) {
      if (input.is_scalar()) continue;
      const OpId producer = program_.values[input.value].producer;
      const bool bound =
          std::ranges::any_of(step.buffers, [&](const BufferArgument& b) { return b.value == input.value; });
      const bool inside = producer != kNone && step_of_[producer] == s;
      const bool in_place = step.kind == StepKind::kLaunch && is_generator(producer);
      if (!bound && !inside && !in_place && !is_seen_through(step, producer))
        return broken(s, "op {} reads value {}, which is neither bound nor made in the step", id, input.value);
    }
    return {};
  }

  static bool is_library_attention(const Step& step) {
    return step.kind == StepKind::kLibrary && is_attention(step.library.kind);
  }

  /// What a call of an attention reads otherwise than its ops do: a cast of an operand, and a mask that it knows.
  bool is_seen_through(const Step& step, OpId producer) const {
    if (producer == kNone || !is_library_attention(step)) return false;
    const Op& op = program_.ops[producer];
    if (program_.values[op.outputs[0].value].dtype == DType::kBool) return true;
    return op.kind == OpKind::kCopy &&
           std::ranges::any_of(step.buffers, [&](const BufferArgument& b) { return b.value == op.inputs[0].value; });
  }

  /// Work items are independent, and each owns rows: of what a step makes, a product in it can have its own rows on the
  /// left, nothing on the right; and of a product's result in the step, others in it read no more than those rows.
  Result<void> check_product(StepId s, OpId id) const {
    const Op& op = program_.ops[id];
    const auto is_inside = [&](ValueId value) {
      const OpId producer = value == kNone ? kNone : program_.values[value].producer;
      return producer != kNone && step_of_[producer] == s;
    };
    if (op.kind == OpKind::kMatMul && is_inside(op.inputs[1].value))
      return broken(s, "product {} has value {} on its right, which the step makes row by row", id, op.inputs[1].value);
    for (const graph::Operand& input : op.inputs) {
      if (input.is_scalar() || !is_inside(input.value)) continue;
      const bool from_product = program_.ops[program_.values[input.value].producer].kind == OpKind::kMatMul;
      if (op.kind != OpKind::kMatMul && !from_product) continue;
      const graph::View& made = program_.ops[program_.values[input.value].producer].outputs[0].view;
      if (keeps_rows(input.view, made)) continue;
      return broken(s, "op {} reads value {} in the same step by other rows than it is made", id, input.value);
    }
    return {};
  }

  /// The same matrices, perhaps with their batches counted otherwise; one row alone may be read as a vector.
  static bool keeps_rows(const graph::View& read, const graph::View& made) {
    if (read.offset != made.offset || read.elements() != made.elements()) return false;
    const auto size = [](const graph::View& view, std::size_t from_last) {
      return from_last > view.sizes.size() ? 1 : view.sizes[view.sizes.size() - from_last];
    };
    for (const std::size_t from_last : {1u, 2u}) {
      if (size(read, from_last) != size(made, from_last)) return false;
      if (size(read, from_last) > 1 &&
          read.strides[read.sizes.size() - from_last] != made.strides[made.sizes.size() - from_last])
        return false;
    }
    return true;
  }

  static bool is_product(OpKind kind) {
    return kind == OpKind::kMatMul || kind == OpKind::kConv2d || kind == OpKind::kConv2dBackwardInput ||
           kind == OpKind::kConv2dBackwardWeight;
  }
  /// The product of a launch that does one and more, else null.
  const Op* product_of(const Step& step) const {
    const Op* found = nullptr;
    for (const OpId id : step.ops) {
      if (!is_product(program_.ops[id].kind)) continue;
      if (found != nullptr) return nullptr;
      found = &program_.ops[id];
    }
    return step.ops.size() > 1 ? found : nullptr;
  }

  /// The same where the rest is its epilogue; with sums it is an attention, which check_product() is for.
  const Op* epilogue_product(const Step& step) const {
    const bool sums =
        std::ranges::any_of(step.ops, [&](OpId op) { return graph::is_reduction(program_.ops[op].kind); });
    return schedule_.epilogues && !sums ? product_of(step) : nullptr;
  }

  /// What a product's kernel does besides the product: each element where the product made it, of nothing that other
  /// work items make.
  Result<void> check_epilogue(StepId s) const {
    constexpr std::size_t kMostBuffers = 24;
    const Step& step = schedule_.steps[s];
    const Op* const product = epilogue_product(step);
    if (product == nullptr || step.kind != StepKind::kLaunch) return {};
    if (step.buffers.size() > kMostBuffers)
      return broken(s, "a product with its epilogue has {} buffers, the most is {}", step.buffers.size(), kMostBuffers);
    const std::int64_t elements = product->outputs[0].view.elements();
    for (const OpId id : step.ops) {
      const Op& op = program_.ops[id];
      if (&op == product) continue;
      if (!graph::is_elementwise(op.kind))
        return broken(s, "op {} ({}) is in a product's epilogue", id, graph::name(op.kind));
      if (op.outputs[0].view.elements() != elements)
        return broken(s, "op {} has {} elements in the epilogue of a product of {}", id, op.outputs[0].view.elements(),
                      elements);
    }
    for (const OpId id : step.ops) CRUCIBLE_TRY_VOID(check_places(s, id, *product));
    return {};
  }

  /// Every operand that the step makes is read where the product made what it is made of; some elements stand for all.
  Result<void> check_places(StepId s, OpId id, const Op& product) const {
    constexpr std::int64_t kSamples = 61;
    const graph::View& view = program_.ops[id].outputs[0].view;
    const std::int64_t elements = view.elements();
    Places places;
    for (std::int64_t i = 0; i < std::min(elements, kSamples); ++i) {
      const std::int64_t sample = elements <= kSamples ? i : i * ((elements - 1) / (kSamples - 1));
      if (place(s, id, graph::point_of(sample, view.sizes), product, places) == kApart)
        return broken(s, "op {} reads an element that another work item of the product makes", id);
    }
    return {};
  }

  static constexpr std::int64_t kApart = -2, kAnywhere = -1;
  using Places = std::map<std::pair<ValueId, std::int64_t>, std::int64_t>;
  /// The index at which a view without gaps reaches an element.
  static std::vector<std::int64_t> point_at(const graph::View& view, std::int64_t element) {
    std::vector<std::size_t> order;
    for (std::size_t d = 0; d < view.sizes.size(); ++d) {
      if (view.sizes[d] > 1) order.push_back(d);
    }
    std::ranges::sort(order, std::greater<>(), [&](std::size_t d) { return view.strides[d]; });
    std::vector<std::int64_t> point(view.sizes.size(), 0);
    element -= view.offset;
    for (const std::size_t d : order) {
      point[d] = std::min(element / view.strides[d], view.sizes[d] - 1);
      element -= point[d] * view.strides[d];
    }
    return point;
  }

  /// The element of the product that an element of the step is made of: kAnywhere when of none, kApart when of several.
  std::int64_t place(StepId s, OpId id, const std::vector<std::int64_t>& point, const Op& product,
                     Places& places) const {
    const Op& op = program_.ops[id];
    const auto key = std::pair(op.outputs[0].value, graph::element_at(op.outputs[0].view, point));
    if (&op == &product) return key.second;
    if (const auto found = places.find(key); found != places.end()) return found->second;
    std::int64_t result = kAnywhere;
    for (const graph::Operand& input : op.inputs) {
      const OpId producer = input.is_scalar() ? kNone : program_.values[input.value].producer;
      if (producer == kNone || step_of_[producer] != s || is_generator(producer)) continue;
      const std::vector<std::int64_t> at =
          point_at(program_.ops[producer].outputs[0].view, graph::element_at(input.view, point));
      const std::int64_t one = place(s, producer, at, product, places);
      if (one == kAnywhere) continue;
      result = result == kAnywhere || result == one ? one : kApart;
    }
    return places[key] = result;
  }

  /// Values on the host are for transfers, and a transfer has one on either side.
  Result<void> check_host(StepId s) const {
    const Step& step = schedule_.steps[s];
    const auto is_host = [&](const BufferArgument& argument) { return schedule_.on_host(argument.value); };
    if (step.kind != StepKind::kTransfer) {
      const auto found = std::ranges::find_if(step.buffers, is_host);
      return found == step.buffers.end() ? Result<void>()
                                         : broken(s, "uses value {}, which is on the host", found->value);
    }
    if (step.buffers.size() != 2 || step.ops.size() != 1 || program_.ops[step.ops[0]].kind != OpKind::kCopy ||
        step.buffers[0].written || !step.buffers[1].written) {
      return broken(s, "a transfer has {} buffers and {} ops", step.buffers.size(), step.ops.size());
    }
    const graph::Value& from = program_.values[step.buffers[0].value];
    const graph::Value& to = program_.values[step.buffers[1].value];
    if (from.elements != to.elements || from.dtype != to.dtype) return broken(s, "a transfer changes what it copies");
    if (is_host(step.buffers[0]) == is_host(step.buffers[1])) return broken(s, "a transfer stays on one side");
    return {};
  }

  /// Two products with one softmax between them, or a gradient's five with one exponential, of sizes that fit, and
  /// nothing of it in memory but the results.
  Result<void> check_attention(StepId s) const {
    const Step& step = schedule_.steps[s];
    const LibraryCall& call = step.library;
    const bool is_backward = call.kind == LibraryKind::kAttentionBackward;
    const auto count = [&](OpKind kind) {
      return std::ranges::count_if(step.ops, [&](OpId op) { return program_.ops[op].kind == kind; });
    };
    for (const auto& [kind, wanted] :
         {std::pair(OpKind::kMatMul, is_backward ? 5 : 2), std::pair(OpKind::kExp, 1),
          std::pair(OpKind::kReduceMax, is_backward ? 0 : 1), std::pair(OpKind::kReduceSum, 1)}) {
      if (count(kind) != wanted)
        return broken(s, "an attention has {} {}, it needs {}", count(kind), graph::name(kind), wanted);
    }
    const std::size_t more = is_backward ? 5 : call.kind == LibraryKind::kAttentionForward ? 1 : 0;
    if (call.more.size() != more)
      return broken(s, "an attention has {} views more, it needs {}", call.more.size(), more);
    std::vector<const graph::View*> views = {&call.views[0], &call.views[1], &call.views[2], &call.extra};
    for (const graph::View& view : call.more) views.push_back(&view);
    for (const graph::View* view : views) {
      if (view->sizes.size() != 4) return broken(s, "an attention has an operand of {} dimensions", view->sizes.size());
    }
    for (std::size_t i = 0; i < step.buffers.size(); ++i) {
      const bool is_result = is_backward ? i >= 6 : i >= 3;
      if (step.buffers[i].written != is_result) return broken(s, "an attention's buffer {} is used the wrong way", i);
      const DType dtype = program_.values[step.buffers[i].value].dtype, wanted = i == 4 ? DType::kF32 : call.dtype;
      if (dtype != wanted)
        return broken(s, "an attention's buffer {} is of {}, it needs {}", i, crucible::name(dtype),
                      crucible::name(wanted));
    }
    const auto &q = call.views[0].sizes, &k = call.views[1].sizes, &v = call.views[2].sizes;
    if (q[3] != k[3] || k[2] != v[2] || call.extra.sizes != std::vector{q[0], q[1], q[2], v[3]} ||
        !std::equal(q.begin(), q.begin() + 2, k.begin()) || !std::equal(q.begin(), q.begin() + 2, v.begin()))
      return broken(s, "the sizes of an attention do not fit");
    if (more > 0 && call.more[0].sizes != std::vector{q[0], q[1], q[2], std::int64_t{1}})
      return broken(s, "the logarithms of an attention are not one for each row");
    if (is_backward && (call.more[1].sizes != call.extra.sizes || call.more[2].sizes != q || call.more[3].sizes != k ||
                        call.more[4].sizes != v))
      return broken(s, "a gradient of an attention has other sizes than what it is of");
    return {};
  }

  Result<void> check_library(StepId s) const {
    const Step& step = schedule_.steps[s];
    const bool is_attention = is_library_attention(step),
               has_epilogue = step.library.epilogue != LibraryEpilogue::kNone;
    const std::size_t buffers = is_attention ? 4 + step.library.more.size() : has_epilogue ? 4 : 3;
    if (step.buffers.size() != buffers || (!is_attention && (step.ops.size() != 1) != has_epilogue))
      return broken(s, "a library call has {} buffers and {} ops", step.buffers.size(), step.ops.size());
    if (is_attention) CRUCIBLE_TRY_VOID(check_attention(s));
    for (std::size_t i = 0; i < step.buffers.size(); ++i) {
      const LibraryCall& call = step.library;
      const auto last = graph::last_index(i < 3 ? call.views[i] : i == 3 ? call.extra : call.more[i - 4]);
      const std::int64_t elements = program_.values[step.buffers[i].value].elements;
      if (!last || *last >= elements) return broken(s, "operand {} leaves its {} elements", i, elements);
    }
    if (!has_epilogue) return {};
    const std::string fault = library_epilogue_fault(program_, step);
    return fault.empty() ? Result<void>() : broken(s, "{}", fault);
  }

  /// Backwards from what is wanted: whatever it depends on must be done, and be in memory where another step reads it.
  Result<void> check_completeness() const {
    std::vector<bool> wanted(program_.values.size(), false);
    for (const auto& state : program_.states) wanted[state.end] = true;
    for (const auto& output : program_.outputs) wanted[output.operand.value] = true;
    for (ValueId value = 0; value < wanted.size(); ++value) {
      if (wanted[value] && program_.values[value].kind == ValueKind::kTemporary && writer_[value] == kNone) {
        return Error{ErrorCode::kCheckFailed,
                     fmt::format("schedule check: value {} is wanted at the end, and no step writes it", value)};
      }
    }
    for (OpId id = static_cast<OpId>(program_.ops.size()); id-- > 0;) {
      const Op& op = program_.ops[id];
      if (std::ranges::none_of(op.outputs, [&](const auto& output) { return wanted[output.value]; })) continue;
      if (step_of_[id] == kNone && !is_generator(id)) {
        return Error{ErrorCode::kCheckFailed,
                     fmt::format("schedule check: op {} ({}) is done by no step", id, graph::name(op.kind))};
      }
      if (step_of_[id] != kNone && is_library_attention(schedule_.steps[step_of_[id]])) {
        for (const BufferArgument& argument : schedule_.steps[step_of_[id]].buffers)
          wanted[argument.value] = wanted[argument.value] || !argument.written;
        continue;  // a mask that it knows need not be made
      }
      for (const auto& input : op.inputs) {
        if (!input.is_scalar()) wanted[input.value] = true;
      }
    }
    return {};
  }

  Result<void> check_materialized() const {
    if (schedule_.materialized.size() != program_.values.size()) {
      return Error{ErrorCode::kCheckFailed, fmt::format("schedule check: {} flags for {} values",
                                                        schedule_.materialized.size(), program_.values.size())};
    }
    for (StepId s = 0; s < schedule_.steps.size(); ++s) {
      for (const BufferArgument& argument : schedule_.steps[s].buffers) {
        if (!schedule_.materialized[argument.value])
          return broken(s, "value {} is bound but not marked as in memory", argument.value);
      }
    }
    return {};
  }

  Result<void> check_in_place() {
    for (StepId s = 0; s < schedule_.steps.size(); ++s) {
      for (const BufferArgument& argument : schedule_.steps[s].buffers) last_use_[argument.value] = s;
    }
    for (const auto& output : program_.outputs) {
      if (!output.operand.is_scalar()) is_output_[output.operand.value] = true;
    }
    for (const auto& state : program_.states) {
      is_end_[state.end] = true;
      ends_.emplace(state.start, state.end);
    }
    std::set<std::pair<StepId, ValueId>> joined;
    for (const InPlace& pair : schedule_.in_place) {
      if (pair.step >= schedule_.steps.size() || pair.operand >= program_.values.size() ||
          pair.result >= program_.values.size()) {
        return Error{ErrorCode::kCheckFailed,
                     fmt::format("schedule check: an in-place pair of step {} names what does not exist", pair.step)};
      }
      if (!joined.emplace(pair.step, pair.operand).second || !joined.emplace(pair.step, pair.result).second) {
        return broken(pair.step, "a value stands in two in-place pairs");
      }
      CRUCIBLE_TRY_VOID(check_pair(pair));
    }
    return {};
  }

  Result<void> check_pair(const InPlace& pair) const {
    const graph::Value& operand = program_.values[pair.operand];
    const graph::Value& result = program_.values[pair.result];
    if (operand.elements != result.elements || size_bytes(operand.dtype) != size_bytes(result.dtype)) {
      return broken(pair.step, "in place: values {} and {} differ in size", pair.operand, pair.result);
    }
    if (const Op* const product = product_of(schedule_.steps[pair.step])) {
      for (const graph::Operand& input : product->inputs) {
        if (input.value == pair.operand)
          return broken(pair.step, "in place: value {} is an operand of the product", pair.operand);
      }
    }
    bool reads = false, writes = false;
    for (const BufferArgument& argument : schedule_.steps[pair.step].buffers) {
      reads |= argument.value == pair.operand && !argument.written;
      writes |= argument.value == pair.result && argument.written;
    }
    if (!reads || !writes)
      return broken(pair.step, "in place: {} is not read or {} is not written", pair.operand, pair.result);
    if (last_use_[pair.operand] > pair.step)
      return broken(pair.step, "in place: value {} is used again in step {}", pair.operand, last_use_[pair.operand]);
    if (is_output_[pair.operand]) return broken(pair.step, "in place: value {} is an output", pair.operand);
    if (is_end_[pair.operand]) return broken(pair.step, "in place: value {} is a state's end", pair.operand);
    const bool is_home = ends_.contains({pair.operand, pair.result});
    if (operand.kind != ValueKind::kTemporary && !is_home)
      return broken(pair.step, "in place: value {} must not be overwritten", pair.operand);
    for (const OpId id : schedule_.steps[pair.step].ops) {
      const Op& op = program_.ops[id];
      if (op.kind == OpKind::kMatMul &&
          std::ranges::any_of(op.inputs, [&](const auto& input) { return input.value == pair.operand; }))
        return broken(pair.step, "in place: value {} is an operand of product {}, whose items all read it",
                      pair.operand, id);
    }
    return {};
  }

  const Program& program_;
  const Schedule& schedule_;
  std::vector<StepId> step_of_;  // per op
  std::vector<StepId> writer_;   // per value
  std::vector<StepId> last_use_ = std::vector<StepId>(program_.values.size(), 0);  // per value, as the next two
  std::vector<bool> is_output_ = std::vector<bool>(program_.values.size(), false), is_end_ = is_output_;
  std::set<std::pair<ValueId, ValueId>> ends_;  // of states: start and end
};

}  // namespace

Result<void> check_schedule(const Program& program, const Schedule& schedule) {
  return Checker(program, schedule).run();
}

}  // namespace crucible::kernel
