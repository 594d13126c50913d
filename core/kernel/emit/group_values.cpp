// Values of a group at a point of its loops: computed, loaded, read back or taken from scratch, and their stores. See
// group_emitter.hpp.
#include <algorithm>
#include <tuple>

#include "core/kernel/emit/group_emitter.hpp"

namespace crucible::kernel {

using graph::OpKind;
using graph::ValueId;

ExprId GroupEmitter::index_of(const Access& access, std::size_t* level) {
  ExprId index = b_.integer(access.offset);
  *level = 0;
  for (std::size_t d = 0; d < group_.sizes.size(); ++d) {
    if (access.strides[d] == 0 || group_.sizes[d] == 1) continue;
    index = b_.add(index, b_.multiply(index_[d], access.strides[d]));
    *level = std::max(*level, level_[d]);
  }
  return index;
}

std::int64_t GroupEmitter::scratch_size() const {
  std::int64_t size = 1;
  for (auto d : scratch_dimensions()) size *= group_.sizes[d];
  return size;
}

std::vector<std::size_t> GroupEmitter::scratch_dimensions() const {
  auto dims = plan_.loops;
  if (is_columns()) {
    dims.insert(dims.end(), plan_.unrolled.begin(), plan_.unrolled.end());
    dims.push_back(plan_.lanes);
  }
  return dims;
}

ExprId GroupEmitter::scratch_index() {
  ExprId index = b_.integer(0);
  for (auto d : scratch_dimensions()) index = b_.add(b_.multiply(index, group_.sizes[d]), index_[d]);
  return index;
}

ExprId GroupEmitter::evaluate(const Access& access, bool over_rows) {
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

ExprId GroupEmitter::remember(ValueId value, ExprId expr, std::size_t level) {
  const ExprId bound = b_.let_at(depth_of(level), expr);
  known_[value] = {bound, level};
  return bound;
}

bool GroupEmitter::is_out_of_reach(const Access& access) const {
  if (group_.elements() != 0) return false;
  std::int64_t last = access.offset;
  for (std::size_t d = 0; d < group_.sizes.size(); ++d) {
    std::int64_t step = 0;
    if (group_.sizes[d] < 2) continue;
    if (__builtin_mul_overflow(group_.sizes[d] - 1, access.strides[d], &step) ||
        __builtin_add_overflow(last, step, &last))
      return true;
  }
  return last >= program_.values[access.value].elements;
}

ExprId GroupEmitter::load_external(const Access& access) {
  if (is_out_of_reach(access)) {
    const DType type = compute_type(access.type);
    return is_floating(type) ? b_.real(0, type) : b_.integer(0, type);
  }
  const auto key = std::make_tuple(access.value, access.offset, access.strides);
  if (auto found = loads_.find(key);
      found != loads_.end() && found->second.level <= open_loops_ && is_open(found->second)) {
    return found->second.value;
  }
  std::size_t level = 0;
  const ExprId index = index_of(access, &level);
  const ExprId value = load_value(b_, binder_.buffer(access.value, false), index, depth_of(level));
  loads_[key] = {value, level, level == 0 ? 0 : loop_stamp_};
  reads_.push_back({access, time_});
  return value;
}

std::size_t GroupEmitter::level_of(const Member& member, std::span<const ExprId> inputs) {
  std::size_t level = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) level = std::max(level, input_level(member.inputs[i]));
  return level;
}

std::size_t GroupEmitter::input_level(const Access& access) {
  const Member* writer = group_.producer(access.value);
  std::size_t level = 0;
  if (writer == nullptr || (stored_.contains(access.value) && !known_.contains(access.value))) {
    for (std::size_t d = 0; d < group_.sizes.size(); ++d) {
      if (access.strides[d] != 0 && group_.sizes[d] != 1 && d < level_.size()) level = std::max(level, level_[d]);
    }
    if (writer == nullptr) return level;
  }
  if (auto found = known_.find(access.value); found != known_.end()) return found->second.level;
  return is_row_value(*writer) && !is_columns() ? 0 : level;
}

ExprId GroupEmitter::compute(const Member& member, bool as_row) {
  const graph::Op& op = program_.ops[member.op];
  std::vector<ExprId> inputs;
  if (member.lookup != Lookup::kNone) {
    inputs.push_back(member.lookup == Lookup::kRows ? gathered(member, op) : taken(member, op));
  } else {
    const PointValues values = values_of(member);
    for (std::size_t i = 0; i < member.inputs.size(); ++i)
      inputs.push_back(member_input(program_, binder_, b_, member, i, values));
  }
  std::size_t level = level_of(member, inputs);
  if (member.lookup != Lookup::kNone) level = std::max(level, input_level(member.inputs[1]));
  const ExprId result =
      b_.let_at(depth_of(level), emit_elementwise(b_, op.kind, program_.values[member.output.value].dtype, inputs));
  if (as_row && !is_columns()) {
    row_values_[member.output.value] = {result, 0};
  } else {
    known_[member.output.value] = {result, level};
  }
  return result;
}

PointValues GroupEmitter::values_of(const Member& member) {
  return {.value = [this, &member](const Access& access) { return evaluate(access, member.over_rows); },
          .index =
              [this](const Access& access) {
                std::size_t level = 0;
                return index_of(access, &level);
              }};
}

ExprId GroupEmitter::gathered(const Member& member, const graph::Op& op) {
  const Access& table = member.inputs[0];
  const ExprId id = b_.convert(load_external(member.inputs[1]), DType::kI64);
  const ExprId row = b_.guard(id, 0, op.inputs[0].view.sizes[0] - 1);
  std::size_t level = 0;
  const ExprId index = b_.add(index_of(table, &level), b_.multiply(row, member.row_stride));
  level = std::max(level, input_level(member.inputs[1]));
  reads_.push_back({{.value = table.value, .type = table.type, .offset = -1, .strides = {}}, time_});
  return load_value(b_, binder_.buffer(table.value, false), index, depth_of(level));
}

ExprId GroupEmitter::taken(const Member& member, const graph::Op& op) {
  const Access& table = member.inputs[0];
  const std::int64_t count = op.inputs[0].view.sizes[0];
  const ExprId given = member.generators[1] != graph::kNone
                           ? generated_input(program_, binder_, b_, member, 1, values_of(member))
                           : evaluate(member.inputs[1], member.over_rows);
  const std::size_t depth = depth_of(input_level(member.inputs[1]));
  const ExprId index = b_.let_at(depth, b_.convert(given, DType::kI64));
  const DType type = compute_type(table.type);
  const ExprId zero = is_floating(type) ? b_.real(0, type) : b_.integer(0, type);
  if (count == 0) return zero;
  const ExprId inside =
      b_.let_at(depth, b_.binary(Operation::kAnd, b_.binary(Operation::kLessEqual, b_.integer(0), index),
                                 b_.binary(Operation::kLess, index, b_.integer(count))));
  const ExprId place = b_.let_at(depth, b_.guard(index, 0, count - 1));
  reads_.push_back({{.value = table.value, .type = table.type, .offset = -1, .strides = {}}, time_});
  const ExprId at = b_.add(b_.integer(table.offset), b_.multiply(place, member.row_stride));
  return b_.select(inside, load_value(b_, binder_.buffer(table.value, false), at, depth), zero);
}

void GroupEmitter::queue_store(const Member& member, ExprId value) {
  std::size_t level = 0;
  const ExprId index = index_of(member.output, &level);
  const DType type = program_.values[member.output.value].dtype;
  pending_.push_back({binder_.buffer(member.output.value, true), index, storable(b_, value, type)});
  writes_.push_back({member.output, time_});
}

void GroupEmitter::flush_stores() {
  for (const PendingStore& store : pending_) b_.store(store.buffer, store.index, store.value);
  pending_.clear();
}

}  // namespace crucible::kernel
