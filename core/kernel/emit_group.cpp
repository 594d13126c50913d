// A fused group as one kernel: the loops of its plan (group_plan.hpp), in each pass the values that the pass stores or
// reduces, each value computed once per element and as far out as its operands allow.
//
// Times order a kernel's accesses for the in-place analysis: the rows' section before pass p is time 2p, pass p is 2p + 1.
// Stores stand behind all reads of their time at the same point.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "core/kernel/emit.hpp"
#include "core/kernel/group_plan.hpp"

namespace crucible::kernel {
namespace {

using graph::OpKind;
using graph::ValueId;

class GroupEmitter {
 public:
  GroupEmitter(const graph::Program& program, const Group& group, const std::set<ValueId>& stored)
      : program_(program), stored_(stored), plan_(plan_loops(group)), passes_(plan_passes(program, plan_, stored)),
        group_(plan_.group), binder_(program, b_), index_(group_.sizes.size(), kNoId), level_(group_.sizes.size(), 0) {}

  Emitted run() {
    bind_buffers();
    if (plan_.form == LoopForm::kFlat) {
      emit_flat();
    } else {
      open_items();
      for (const ValueId value : passes_.kept) {
        scratch_[value] = b_.add_array(compute_type(group_.producer(value)->output.type), scratch_size());
      }
      for (int pass = 0; pass <= passes_.count; ++pass) {
        emit_rows(pass);
        if (pass < passes_.count) emit_pass(pass);
      }
      b_.close();
    }
    return finish();
  }

 private:
  struct Known {
    ExprId value;
    std::size_t level;  // loops outside it that it depends on
  };
  struct Use {
    Access access;
    int time;
  };

  bool is_columns() const { return plan_.form == LoopForm::kColumns; }
  bool reduces(const Member& member) const { return kernel::reduces(program_, group_, member); }
  bool is_row_value(const Member& member) const { return member.over_rows || reduces(member); }

  /// Buffers in the order of the members, results last, so that equal kernels number them equally.
  void bind_buffers() {
    for (const Member& member : group_.members) {
      for (const Access& input : member.inputs) {
        if (input.value != graph::kNone && group_.producer(input.value) == nullptr) binder_.buffer(input.value, false);
      }
    }
    for (const Member& member : group_.members) {
      if (stored_.contains(member.output.value)) binder_.buffer(member.output.value, true);
    }
  }

  void open_items() {
    const ExprId item = b_.open_grid(LoopMode::kSerial);
    std::vector<std::int64_t> sizes;
    for (auto d : plan_.grid) sizes.push_back(group_.sizes[d]);
    const auto indices = split_index(b_, item, sizes);
    for (std::size_t i = 0; i < plan_.grid.size(); ++i) index_[plan_.grid[i]] = indices[i];
    base_depth_ = 1;
  }

  void emit_flat() {
    time_ = 1;
    index_.assign(1, b_.open_grid(LoopMode::kVector));
    if (!level_.empty()) level_[0] = 1;
    open_loops_ = 1;
    for (const Member& member : group_.members) {
      if (stored_.contains(member.output.value)) queue_store(member, evaluate(member.output, false));
    }
    flush_stores();
    b_.close();
  }

  // ---- loops ----

  void open_loop(std::size_t dim, LoopMode mode) {
    index_[dim] = b_.open_for(b_.integer(0), b_.integer(group_.sizes[dim]), mode);
    level_[dim] = ++open_loops_;
  }

  void close_loop() {
    std::erase_if(known_, [&](const auto& entry) { return entry.second.level >= open_loops_; });
    b_.close();
    --open_loops_;
  }

  std::size_t depth_of(std::size_t level) const { return base_depth_ + level; }

  ExprId index_of(const Access& access, std::size_t* level) const {
    ExprId index = b_.integer(access.offset);
    *level = 0;
    for (std::size_t d = 0; d < group_.sizes.size(); ++d) {
      if (access.strides[d] == 0 || group_.sizes[d] == 1) continue;
      index = b_.add(index, b_.multiply(index_[d], access.strides[d]));
      *level = std::max(*level, level_[d]);
    }
    return index;
  }

  std::int64_t scratch_size() const {
    std::int64_t size = 1;
    for (auto d : scratch_dimensions()) size *= group_.sizes[d];
    return size;
  }

  std::vector<std::size_t> scratch_dimensions() const {
    auto dims = plan_.loops;
    if (is_columns()) {
      if (plan_.unrolled != kNoDimension) dims.push_back(plan_.unrolled);
      dims.push_back(plan_.lanes);
    }
    return dims;
  }

  ExprId scratch_index() const {
    ExprId index = b_.integer(0);
    for (auto d : scratch_dimensions()) index = b_.add(b_.multiply(index, group_.sizes[d]), index_[d]);
    return index;
  }

  // ---- values ----

  /// The value of an access at the present point, in its compute type.
  ExprId evaluate(const Access& access, bool over_rows) {
    const Member* writer = group_.producer(access.value);
    if (writer == nullptr) return load_external(access);
    const ValueId value = access.value;
    if (auto found = known_.find(value); found != known_.end()) return found->second.value;
    if (is_row_value(*writer)) {
      if (is_columns()) return remember(value, b_.element(row_arrays_.at(value), index_[plan_.lanes]), open_loops_);
      if (auto found = row_values_.find(value); found != row_values_.end()) return found->second.value;
      return compute(*writer, true);
    }
    if (!over_rows && passes_.pass.at(value) < pass_) {
      if (stored_.contains(value)) return load_external(writer->output);
      if (auto found = scratch_.find(value); found != scratch_.end()) {
        return remember(value, b_.element(found->second, scratch_index()), open_loops_);
      }
    }
    return compute(*writer, false);
  }

  ExprId remember(ValueId value, ExprId expr, std::size_t level) {
    const ExprId bound = b_.let_at(depth_of(level), expr);
    known_[value] = {bound, level};
    return bound;
  }

  ExprId load_external(const Access& access) {
    const auto key = std::make_tuple(access.value, access.offset, access.strides);
    if (auto found = loads_.find(key); found != loads_.end() && found->second.level <= open_loops_ && is_open(found->second)) {
      return found->second.value;
    }
    std::size_t level = 0;
    const ExprId index = index_of(access, &level);
    const ExprId value = load_value(b_, binder_.buffer(access.value, false), index, depth_of(level));
    loads_[key] = {value, level, level == 0 ? 0 : loop_stamp_};
    reads_.push_back({access, time_});
    return value;
  }

  struct Loaded {
    ExprId value;
    std::size_t level;
    int stamp;  // of the loop nest it was loaded in
  };
  bool is_open(const Loaded& loaded) const { return loaded.level == 0 || loaded.stamp == loop_stamp_; }

  /// The level of an expression: the deepest variable in it.
  std::size_t level_of(const Member& member, std::span<const ExprId> inputs) {
    std::size_t level = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) level = std::max(level, input_level(member.inputs[i]));
    return level;
  }

  std::size_t input_level(const Access& access) {
    const Member* writer = group_.producer(access.value);
    std::size_t level = 0;
    if (writer == nullptr || (stored_.contains(access.value) && !known_.contains(access.value))) {
      for (std::size_t d = 0; d < group_.sizes.size(); ++d) {
        if (access.strides[d] != 0 && group_.sizes[d] > 1 && d < level_.size()) level = std::max(level, level_[d]);
      }
      if (writer == nullptr) return level;
    }
    if (auto found = known_.find(access.value); found != known_.end()) return found->second.level;
    return is_row_value(*writer) && !is_columns() ? 0 : level;
  }

  ExprId compute(const Member& member, bool as_row) {
    const graph::Op& op = program_.ops[member.op];
    std::vector<ExprId> inputs;
    if (member.row_stride != 0) {
      inputs.push_back(gathered(member, op));
    } else {
      for (std::size_t i = 0; i < member.inputs.size(); ++i) inputs.push_back(input(member, op, i));
    }
    std::size_t level = level_of(member, inputs);
    if (member.row_stride != 0) level = std::max(level, input_level(member.inputs[1]));
    const ExprId result =
        b_.let_at(depth_of(level), emit_elementwise(b_, op.kind, program_.values[member.output.value].dtype, inputs));
    if (as_row && !is_columns()) {
      row_values_[member.output.value] = {result, 0};
    } else {
      known_[member.output.value] = {result, level};
    }
    return result;
  }

  /// Operand `i`, rounded to the type that the op works in if that is narrower than its own.
  ExprId input(const Member& member, const graph::Op& op, std::size_t i) {
    const DType out = program_.values[member.output.value].dtype;
    if (op.kind == OpKind::kCoordinate) {
      std::size_t level = 0;
      return index_of(member.inputs[0], &level);
    }
    const bool compares = op.kind >= OpKind::kLess && op.kind <= OpKind::kNotEqual;
    const DType first = op.inputs[0].is_scalar() ? out : program_.values[op.inputs[0].value].dtype;
    if (member.generators[i] != graph::kNone) return generated(member, i);
    if (op.inputs[i].is_scalar()) {
      const DType type = compute_type(compares ? first : out);
      return binder_.scalar(op.inputs[i].scalar, op.kind == OpKind::kLogicalAnd || op.kind == OpKind::kLogicalOr ? DType::kBool : type);
    }
    ExprId value = evaluate(member.inputs[i], member.over_rows);
    const DType own = member.inputs[i].type, wanted = compares ? first : out;
    const bool narrows = (wanted == DType::kF16 || wanted == DType::kBF16) && own != wanted;
    const bool selects = op.kind == OpKind::kSelect && i == 0;
    return narrows && !selects ? rounded_to(b_, value, wanted) : value;
  }

  /// The result of a fill or a coordinate at the present point, in its compute type.
  ExprId generated(const Member& member, std::size_t i) {
    const graph::Op& generator = program_.ops[member.generators[i]];
    const DType type = program_.values[generator.outputs[0].value].dtype;
    if (generator.kind == OpKind::kFill) return rounded_to(b_, binder_.scalar(generator.inputs[0].scalar, compute_type(type)), type);
    std::size_t level = 0;
    return rounded_to(b_, index_of(member.inputs[i], &level), type);
  }

  ExprId gathered(const Member& member, const graph::Op& op) {
    const Access& table = member.inputs[0];
    const ExprId id = b_.convert(load_external(member.inputs[1]), DType::kI64);
    const ExprId row = b_.assume(id, 0, op.inputs[0].view.sizes[0] - 1);
    std::size_t level = 0;
    const ExprId index = b_.add(index_of(table, &level), b_.multiply(row, member.row_stride));
    level = std::max(level, input_level(member.inputs[1]));
    reads_.push_back({{.value = table.value, .type = table.type, .offset = -1, .strides = {}}, time_});
    return load_value(b_, binder_.buffer(table.value, false), index, depth_of(level));
  }

  // ---- stores ----

  struct PendingStore {
    BufferId buffer;
    ExprId index, value;
  };

  void queue_store(const Member& member, ExprId value) {
    std::size_t level = 0;
    const ExprId index = index_of(member.output, &level);
    const DType type = program_.values[member.output.value].dtype;
    pending_.push_back({binder_.buffer(member.output.value, true), index, storable(b_, value, type)});
    writes_.push_back({member.output, time_});
  }

  void flush_stores() {
    for (const PendingStore& store : pending_) b_.store(store.buffer, store.index, store.value);
    pending_.clear();
  }

  // ---- sections and passes ----

  /// Members over rows that are known before `pass`, and their stores.
  void emit_rows(int pass) {
    time_ = 2 * pass;
    pass_ = pass;
    std::vector<const Member*> wanted;
    for (const Member& member : group_.members) {
      if (is_row_value(member) && passes_.pass.at(member.output.value) == pass) wanted.push_back(&member);
    }
    if (wanted.empty()) return;
    if (is_columns()) {
      const bool only_results = std::ranges::all_of(wanted, [&](const Member* member) {
        return reduces(*member) && !stored_.contains(member->output.value) && !needs_finish(*member);
      });
      if (only_results) return;
      open_nest();
      open_loop(plan_.lanes, LoopMode::kVector);
    }
    for (const Member* member : wanted) emit_row(*member);
    flush_stores();
    if (is_columns()) close_loop();
  }

  void emit_row(const Member& member) {
    const ValueId value = member.output.value;
    ExprId result = kNoId;
    if (reduces(member)) {
      result = is_columns() ? b_.let(finished(member, b_.element(row_arrays_.at(value), index_[plan_.lanes])))
                            : row_values_.at(value).value;
    } else if (is_columns()) {
      result = compute(member, true);
    } else {
      result = row_values_.contains(value) ? row_values_.at(value).value : compute(member, true);
    }
    if (is_columns()) {
      const DType type = compute_type(member.output.type);
      if (!row_arrays_.contains(value)) row_arrays_[value] = b_.add_array(type, group_.sizes[plan_.lanes]);
      known_[value] = {result, open_loops_};
      if (b_.ir().arrays[row_arrays_.at(value)].type != type) row_arrays_[value] = b_.add_array(type, group_.sizes[plan_.lanes]);
      b_.store_element(row_arrays_.at(value), index_[plan_.lanes], result);
    }
    if (stored_.contains(value)) queue_store(member, result);
  }

  void open_nest() {
    ++loop_stamp_;
    for (auto& level : level_) level = 0;
  }

  /// What the pass needs: reductions over values of this pass, values to store, values to keep for later passes.
  void emit_pass(int pass) {
    pass_ = pass;
    time_ = 2 * pass + 1;
    std::vector<const Member*> reductions, stores, kept;
    for (const Member& member : group_.members) {
      const ValueId value = member.output.value;
      if (reduces(member)) {
        if (passes_.pass.at(value) == pass + 1) reductions.push_back(&member);
      } else if (!member.over_rows && passes_.pass.at(value) == pass) {
        if (stored_.contains(value)) stores.push_back(&member);
        if (passes_.kept.contains(value)) kept.push_back(&member);
      }
    }
    for (const Member* member : reductions) start_accumulator(*member);
    open_nest();
    const std::size_t serial = plan_.loops.size() - (is_columns() ? 0 : 1);
    for (std::size_t i = 0; i < serial; ++i) open_loop(plan_.loops[i], LoopMode::kSerial);
    if (is_columns()) {
      open_loop(plan_.lanes, LoopMode::kVector);
      emit_column_body(reductions, stores, kept);
    } else {
      const bool nested = serial > 0;
      if (nested) start_partials(reductions);
      open_loop(plan_.loops.back(), LoopMode::kVector);
      emit_point(stores, kept);
      for (const Member* member : reductions) accumulate(nested ? partial_.at(member) : accumulator_.at(member), *member);
      flush_stores();
      close_loop();
      if (nested) finish_partials(reductions);
    }
    while (open_loops_ > 0) close_loop();
    for (const Member* member : reductions) {
      if (!is_columns()) {
        row_values_[member->output.value] = {b_.let(finished(*member, b_.variable(accumulator_.at(member)))), 0};
      }
    }
  }

  void emit_point(const std::vector<const Member*>& stores, const std::vector<const Member*>& kept) {
    for (const Member* member : stores) queue_store(*member, evaluate(member->output, false));
    for (const Member* member : kept) {
      b_.store_element(scratch_.at(member->output.value), scratch_index(), evaluate(member->output, false));
    }
  }

  void emit_column_body(const std::vector<const Member*>& reductions, const std::vector<const Member*>& stores,
                        const std::vector<const Member*>& kept) {
    const std::int64_t repeats = plan_.unrolled == kNoDimension ? 1 : kColumnUnroll;
    std::vector<std::vector<ExprId>> terms(reductions.size());
    for (std::int64_t r = 0; r < repeats; ++r) {
      if (plan_.unrolled != kNoDimension) {
        index_[plan_.unrolled] = b_.integer(r);
        level_[plan_.unrolled] = open_loops_;
        known_.clear();
        ++loop_stamp_;
      }
      emit_point(stores, kept);
      for (std::size_t i = 0; i < reductions.size(); ++i) terms[i].push_back(term(*reductions[i]));
    }
    for (std::size_t i = 0; i < reductions.size(); ++i) {
      auto& list = terms[i];
      while (list.size() > 1) {  // a balanced tree
        std::vector<ExprId> next;
        for (std::size_t j = 0; j + 1 < list.size(); j += 2) next.push_back(b_.let(combined(*reductions[i], list[j], list[j + 1])));
        if (list.size() % 2 == 1) next.push_back(list.back());
        list = std::move(next);
      }
      const ArrayId array = row_arrays_.at(reductions[i]->output.value);
      const ExprId old = b_.let(b_.element(array, index_[plan_.lanes]));
      b_.store_element(array, index_[plan_.lanes], combined(*reductions[i], old, list[0]));
    }
    flush_stores();
  }

  // ---- accumulators ----

  DType accumulator_type(const Member& member) const {
    const DType type = compute_type(program_.values[member.output.value].dtype);
    const bool key = program_.ops[member.op].kind == OpKind::kReduceMax && is_floating(type);
    return key ? order_key_type(type) : type;
  }

  ExprId identity(const Member& member) {
    const DType type = accumulator_type(member);
    if (program_.ops[member.op].kind == OpKind::kReduceSum) {
      return is_floating(type) ? b_.real(0, type) : b_.integer(0, type);
    }
    switch (type) {
      case DType::kBool:
      case DType::kU8: return b_.integer(0, type);
      case DType::kI8: return b_.integer(std::numeric_limits<std::int8_t>::min(), type);
      case DType::kI16: return b_.integer(std::numeric_limits<std::int16_t>::min(), type);
      case DType::kI32: return b_.integer(std::numeric_limits<std::int32_t>::min(), type);
      default: return b_.integer(std::numeric_limits<std::int64_t>::min(), type);
    }
  }

  ExprId combined(const Member& member, ExprId a, ExprId b) {
    return b_.binary(program_.ops[member.op].kind == OpKind::kReduceSum ? Operation::kAdd : Operation::kMaximum, a, b);
  }

  /// One element's contribution, in the accumulator's type.
  ExprId term(const Member& member) {
    const DType out = program_.values[member.output.value].dtype;
    const ExprId value = rounded_to(b_, input(member, program_.ops[member.op], 0), out);
    const bool key = program_.ops[member.op].kind == OpKind::kReduceMax && is_floating(out);
    return b_.let(key ? b_.unary(Operation::kOrderKey, value) : value);
  }

  bool needs_finish(const Member& member) const {
    const DType out = program_.values[member.output.value].dtype;
    return accumulator_type(member) != out;
  }

  ExprId finished(const Member& member, ExprId accumulator) {
    const DType out = program_.values[member.output.value].dtype;
    const bool key = program_.ops[member.op].kind == OpKind::kReduceMax && is_floating(out);
    const ExprId value = key ? b_.from_order_key(accumulator, compute_type(out)) : accumulator;
    return rounded_to(b_, value, out);
  }

  void start_accumulator(const Member& member) {
    if (!is_columns()) {
      accumulator_[&member] = b_.declare(identity(member));
      return;
    }
    const ArrayId array = b_.add_array(accumulator_type(member), group_.sizes[plan_.lanes]);
    row_arrays_[member.output.value] = array;
    const ExprId lane = b_.open_for(b_.integer(0), b_.integer(group_.sizes[plan_.lanes]), LoopMode::kVector);
    b_.store_element(array, lane, identity(member));
    b_.close();
  }

  void start_partials(const std::vector<const Member*>& reductions) {
    for (const Member* member : reductions) partial_[member] = b_.declare(identity(*member));
  }

  void finish_partials(const std::vector<const Member*>& reductions) {
    for (const Member* member : reductions) {
      const VariableId total = accumulator_.at(member);
      b_.set(total, combined(*member, b_.variable(total), b_.variable(partial_.at(member))));
    }
  }

  void accumulate(VariableId variable, const Member& member) {
    const ExprId value = term(member);
    b_.set(variable, combined(member, b_.variable(variable), value));
  }

  // ---- the launch ----

  Emitted finish() {
    Emitted emitted;
    emitted.aliases = alias_pairs();
    for (const AliasPair& pair : emitted.aliases) {
      b_.ir().buffers[binder_.buffer(pair.operand, false)].may_alias = true;
      b_.ir().buffers[binder_.buffer(pair.result, true)].may_alias = true;
    }
    emitted.values = binder_.values();
    emitted.scalars = binder_.scalars();
    emitted.grid = plan_.items();
    estimate(emitted);
    emitted.ir = b_.finish();
    return emitted;
  }

  std::vector<AliasPair> alias_pairs() const {
    std::vector<AliasPair> pairs;
    std::set<ValueId> seen;
    for (const Use& write : writes_) {
      if (!seen.insert(write.access.value).second) continue;  // unrolled rows write it more than once
      for (const ValueId operand : binder_.values()) {
        if (group_.producer(operand) != nullptr) continue;
        if (size_bytes(program_.values[operand].dtype) != size_bytes(write.access.type)) continue;
        if (program_.values[operand].elements != program_.values[write.access.value].elements) continue;
        const bool safe = std::ranges::all_of(reads_, [&](const Use& read) {
          if (read.access.value != operand) return true;
          Access moved = write.access;
          moved.value = operand;
          return read.time <= write.time && read.access.strides.size() == moved.strides.size() &&
                 same_access(read.access, moved, group_.sizes);
        });
        if (safe) pairs.push_back({operand, write.access.value});
      }
    }
    return pairs;
  }

  void estimate(Emitted& emitted) const {
    constexpr double kLanes = 16, kGigahertz = 3, kBytesPerNs = 8;
    double vector_cycles = 0, bytes = 0;
    const auto items = static_cast<double>(std::max<std::int64_t>(1, emitted.grid));
    for (const Member& member : group_.members) {
      const auto points = static_cast<double>(member.over_rows ? group_.rows() : group_.elements());
      vector_cycles += cycles(program_.ops[member.op].kind) * points / kLanes;
      emitted.flops += static_cast<std::uint64_t>(points);
    }
    for (const ValueId value : binder_.values()) {
      bytes += static_cast<double>(program_.values[value].elements) * size_bytes(program_.values[value].dtype);
    }
    emitted.item_ns = (vector_cycles / kGigahertz + bytes / kBytesPerNs) / items;
  }

  const graph::Program& program_;
  const std::set<ValueId>& stored_;
  const LoopPlan plan_;
  const PassPlan passes_;
  const Group& group_;
  mutable IrBuilder b_;
  Binder binder_;
  std::vector<ExprId> index_;        // per dimension: its index in the open loops
  std::vector<std::size_t> level_;   // per dimension: its loop's place, 0 for the item's dimensions
  std::size_t open_loops_ = 0, base_depth_ = 0;
  int pass_ = 0, time_ = 0, loop_stamp_ = 0;
  std::map<ValueId, Known> known_;       // values at the present point
  std::map<ValueId, Known> row_values_;  // kRows, kMap: values of the item
  std::map<ValueId, ArrayId> row_arrays_;  // kColumns: the same, one per lane
  std::map<ValueId, ArrayId> scratch_;
  std::map<std::tuple<ValueId, std::int64_t, std::vector<std::int64_t>>, Loaded> loads_;
  std::map<const Member*, VariableId> accumulator_, partial_;
  std::vector<PendingStore> pending_;
  std::vector<Use> reads_, writes_;
};

}  // namespace

Emitted emit_group(const graph::Program& program, const Group& group, const std::set<ValueId>& stored) {
  return GroupEmitter(program, group, stored).run();
}

}  // namespace crucible::kernel
