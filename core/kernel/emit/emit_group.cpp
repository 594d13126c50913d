// A fused group as one kernel: sections over rows, passes over elements, and what the launch needs. See
// group_emitter.hpp.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/kernel/emit/group_emitter.hpp"

namespace crucible::kernel {

using graph::ValueId;

Emitted GroupEmitter::run() {
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

void GroupEmitter::bind_buffers() {
  for (const Member& member : group_.members) {
    for (const Access& input : member.inputs) {
      if (input.value != graph::kNone && group_.producer(input.value) == nullptr) binder_.buffer(input.value, false);
    }
  }
  for (const Member& member : group_.members) {
    if (stored_.contains(member.output.value)) binder_.buffer(member.output.value, true);
  }
}

void GroupEmitter::open_items() {
  const ExprId item = b_.open_grid(LoopMode::kSerial);
  std::vector<std::int64_t> sizes;
  for (auto d : plan_.grid) sizes.push_back(group_.sizes[d]);
  const auto indices = split_index(b_, item, sizes);
  for (std::size_t i = 0; i < plan_.grid.size(); ++i) index_[plan_.grid[i]] = indices[i];
  base_depth_ = 1;
}

void GroupEmitter::emit_flat() {
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

void GroupEmitter::open_loop(std::size_t dim, LoopMode mode) {
  index_[dim] = b_.open_for(b_.integer(0), b_.integer(group_.sizes[dim]), mode);
  level_[dim] = ++open_loops_;
}

void GroupEmitter::close_loop() {
  std::erase_if(known_, [&](const auto& entry) { return entry.second.level >= open_loops_; });
  b_.close();
  --open_loops_;
}

void GroupEmitter::open_nest() {
  ++loop_stamp_;
  for (auto& level : level_) level = 0;
}

void GroupEmitter::emit_rows(int pass) {
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

void GroupEmitter::emit_row(const Member& member) {
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
    if (b_.ir().arrays[row_arrays_.at(value)].type != type)
      row_arrays_[value] = b_.add_array(type, group_.sizes[plan_.lanes]);
    b_.store_element(row_arrays_.at(value), index_[plan_.lanes], result);
  }
  if (stored_.contains(value)) queue_store(member, result);
}

void GroupEmitter::emit_pass(int pass) {
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
  if (plan_.chains > 0 && !reductions.empty()) return emit_chains(reductions, stores, kept);
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

void GroupEmitter::emit_chains(const std::vector<const Member*>& reductions, const std::vector<const Member*>& stores,
                               const std::vector<const Member*>& kept) {
  const auto body = [&](ExprId chain) {
    emit_point(stores, kept);
    for (const Member* member : reductions) add_to_chain(*member, chain);
    flush_stores();
  };
  const std::size_t blocks = plan_.loops.size() - plan_.place_loops, inner = plan_.loops.back();
  const bool nested = blocks > 0;
  start_chains(reductions, totals_);
  open_nest();
  for (std::size_t i = 0; i < blocks; ++i) open_loop(plan_.loops[i], LoopMode::kSerial);
  if (nested) start_chains(reductions, parts_);
  for (std::size_t i = blocks; i + 1 < plan_.loops.size(); ++i) open_loop(plan_.loops[i], LoopMode::kSerial);
  if (plan_.chain_by_lane) {
    emit_lanes(group_.sizes[inner], inner, body);
  } else {
    open_loop(inner, LoopMode::kSerial);
    std::size_t level = 0;
    const ExprId place = index_of(group_.order()->place, &level);
    body(b_.let(b_.binary(Operation::kRemainder, place, b_.integer(plan_.chains))));
    close_loop();
  }
  for (std::size_t i = 1; i < plan_.place_loops; ++i) close_loop();
  if (nested) join_parts(reductions);
  while (open_loops_ > 0) close_loop();
  for (const Member* member : reductions) {
    row_values_[member->output.value] = {b_.let(finished(*member, joined_chains(*member))), 0};
  }
}

void GroupEmitter::emit_lanes(std::int64_t size, std::size_t dim, const std::function<void(ExprId)>& body) {
  const std::int64_t full = size / plan_.chains, rest = size % plan_.chains;
  const auto run = [&](ExprId round, std::int64_t lanes) {
    const ExprId lane = b_.open_for(b_.integer(0), b_.integer(lanes), LoopMode::kVector);
    level_[dim] = ++open_loops_;
    ++loop_stamp_;  // nothing that was loaded at another round's place holds here
    index_[dim] = b_.add(b_.multiply(round, plan_.chains), lane);
    body(lane);
    close_loop();
  };
  if (full == 1) {
    run(b_.integer(0), plan_.chains);
  } else if (full > 1) {
    const ExprId round = b_.open_for(b_.integer(0), b_.integer(full), LoopMode::kSerial);
    ++open_loops_;
    run(round, plan_.chains);
    close_loop();
  }
  if (rest > 0) run(b_.integer(full), rest);
}

void GroupEmitter::emit_point(const std::vector<const Member*>& stores, const std::vector<const Member*>& kept) {
  for (const Member* member : stores) queue_store(*member, evaluate(member->output, false));
  for (const Member* member : kept) {
    b_.store_element(scratch_.at(member->output.value), scratch_index(), evaluate(member->output, false));
  }
}

void GroupEmitter::emit_column_body(const std::vector<const Member*>& reductions,
                                    const std::vector<const Member*>& stores, const std::vector<const Member*>& kept) {
  const std::int64_t repeats = plan_.unrolled_points();
  std::vector<std::vector<ExprId>> terms(reductions.size());
  for (std::int64_t r = 0; r < repeats; ++r) {
    if (!plan_.unrolled.empty()) {
      std::int64_t rest = r;
      for (std::size_t i = plan_.unrolled.size(); i-- > 0;) {
        const std::size_t d = plan_.unrolled[i];
        index_[d] = b_.integer(rest % group_.sizes[d]);
        level_[d] = open_loops_;
        rest /= group_.sizes[d];
      }
      known_.clear();
      ++loop_stamp_;
    }
    emit_point(stores, kept);
    for (std::size_t i = 0; i < reductions.size(); ++i) terms[i].push_back(term(*reductions[i]));
  }
  for (std::size_t i = 0; i < reductions.size(); ++i) {
    auto& list = terms[i];
    const ArrayId array = row_arrays_.at(reductions[i]->output.value);
    if (reductions[i]->order.in_sequence) {
      ExprId sum = b_.let(b_.element(array, index_[plan_.lanes]));
      for (const ExprId next : list) sum = b_.let(combined(*reductions[i], sum, next));
      b_.store_element(array, index_[plan_.lanes], sum);
      continue;
    }
    while (list.size() > 1) {  // a balanced tree
      std::vector<ExprId> next;
      for (std::size_t j = 0; j + 1 < list.size(); j += 2)
        next.push_back(b_.let(combined(*reductions[i], list[j], list[j + 1])));
      if (list.size() % 2 == 1) next.push_back(list.back());
      list = std::move(next);
    }
    const ExprId old = b_.let(b_.element(array, index_[plan_.lanes]));
    b_.store_element(array, index_[plan_.lanes], combined(*reductions[i], old, list[0]));
  }
  flush_stores();
}

Emitted GroupEmitter::finish() {
  Emitted emitted;
  emitted.aliases = alias_pairs();
  std::set<ValueId> operands, results;
  for (const AliasPair& pair : emitted.aliases) {
    operands.insert(pair.operand);
    results.insert(pair.result);
  }
  for (const ValueId value : operands) b_.ir().buffers[binder_.buffer(value, false)].may_alias = true;
  for (const ValueId value : results) b_.ir().buffers[binder_.buffer(value, true)].may_alias = true;
  emitted.values = binder_.values();
  emitted.scalars = binder_.scalars();
  emitted.grid = plan_.items();
  estimate(emitted);
  emitted.ir = b_.finish();
  return emitted;
}

std::vector<AliasPair> GroupEmitter::alias_pairs() const {
  std::set<ValueId> made;
  for (const Member& member : group_.members) made.insert(member.output.value);
  std::vector<ValueId> operands;
  for (const ValueId value : binder_.values()) {
    if (!made.contains(value)) operands.push_back(value);
  }
  std::map<ValueId, std::vector<const Use*>> reads_of;
  for (const Use& read : reads_) reads_of[read.access.value].push_back(&read);
  std::vector<AliasPair> pairs;
  std::set<ValueId> seen;
  for (const Use& write : writes_) {
    if (!seen.insert(write.access.value).second) continue;  // unrolled rows write it more than once
    Access moved = write.access;
    for (const ValueId operand : operands) {
      if (size_bytes(program_.values[operand].dtype) != size_bytes(write.access.type)) continue;
      if (program_.values[operand].elements != program_.values[write.access.value].elements) continue;
      moved.value = operand;
      const auto reads = reads_of.find(operand);
      const bool safe = reads == reads_of.end() || std::ranges::all_of(reads->second, [&](const Use* read) {
                          return read->time <= write.time && read->access.strides.size() == moved.strides.size() &&
                                 same_access(read->access, moved, group_.sizes);
                        });
      if (safe) pairs.push_back({operand, write.access.value});
    }
  }
  return pairs;
}

void GroupEmitter::estimate(Emitted& emitted) const {
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

Emitted emit_group(const graph::Program& program, const Group& group, const std::set<ValueId>& stored, int lanes) {
  return GroupEmitter(program, group, stored, lanes).run();
}

}  // namespace crucible::kernel
