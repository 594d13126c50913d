// Writes a fused group as one kernel: the loops of its plan (group_plan.hpp), in each pass the values that the pass
// stores or reduces, each value computed once per element and as far out as its operands allow. Its methods are in
// emit_group.cpp (passes and the launch), group_values.cpp (values, loads, stores) and group_reduce.cpp (accumulators).
//
// Times order a kernel's accesses for the in-place analysis: the rows' section before pass p is time 2p, pass p is 2p
// + 1. Stores stand behind all reads of their time at the same point.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "core/kernel/emit/emit.hpp"
#include "core/kernel/emit/group_plan.hpp"

namespace crucible::kernel {

class GroupEmitter {
 public:
  GroupEmitter(const graph::Program& program, const Group& group, const std::set<graph::ValueId>& stored, int lanes)
      : GroupEmitter(program, plan_loops(group, lanes), stored) {}
  GroupEmitter(const graph::Program& program, LoopPlan plan, const std::set<graph::ValueId>& stored)
      : program_(program),
        stored_(stored),
        plan_(std::move(plan)),
        passes_(plan_passes(program, plan_, stored)),
        group_(plan_.group),
        binder_(program, b_),
        index_(group_.sizes.size(), kNoId),
        level_(group_.sizes.size(), 0) {}

  Emitted run();

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
  void bind_buffers();
  void open_items();
  void emit_flat();

  // ---- loops ----
  void open_loop(std::size_t dim, LoopMode mode);
  void close_loop();
  std::size_t depth_of(std::size_t level) const { return base_depth_ + level; }

  /// The index of an access at the present point, and in `level` the deepest loop that it depends on.
  ExprId index_of(const Access& access, std::size_t* level);
  std::int64_t scratch_size() const;
  std::vector<std::size_t> scratch_dimensions() const;
  ExprId scratch_index();

  // ---- values ----
  /// The value of an access at the present point, in its compute type.
  ExprId evaluate(const Access& access, bool over_rows);
  ExprId remember(graph::ValueId value, ExprId expr, std::size_t level);
  /// Whether a load that no loop moves may lie outside the value: only where the space is empty, so that nothing reads
  /// it.
  bool is_out_of_reach(const Access& access) const;
  ExprId load_external(const Access& access);

  struct Loaded {
    ExprId value;
    std::size_t level;
    int stamp;  // of the loop nest it was loaded in
  };
  bool is_open(const Loaded& loaded) const { return loaded.level == 0 || loaded.stamp == loop_stamp_; }

  /// The level of an expression: the deepest variable in it.
  std::size_t level_of(const Member& member, std::span<const ExprId> inputs);
  std::size_t input_level(const Access& access);
  ExprId compute(const Member& member, bool as_row);

  /// Its operands at the present point.
  PointValues values_of(const Member& member);
  ExprId gathered(const Member& member, const graph::Op& op);
  ExprId taken(const Member& member, const graph::Op& op);

  // ---- stores ----
  struct PendingStore {
    BufferId buffer;
    ExprId index, value;
  };
  void queue_store(const Member& member, ExprId value);
  void flush_stores();

  // ---- sections and passes ----
  /// Members over rows that are known before `pass`, and their stores.
  void emit_rows(int pass);
  void emit_row(const Member& member);
  void open_nest();

  /// What the pass needs: reductions over values of this pass, values to store, values to keep for later passes.
  void emit_pass(int pass);
  /// A pass with sums in the order that they name (SumOrder): an array of chains for each, and one for the block's part
  /// of them.
  void emit_chains(const std::vector<const Member*>& reductions, const std::vector<const Member*>& stores,
                   const std::vector<const Member*>& kept);
  /// `body` for all points of the innermost dimension, with the chain of each; as many at a time as there are chains.
  void emit_lanes(std::int64_t size, std::size_t dim, const std::function<void(ExprId)>& body);
  void emit_point(const std::vector<const Member*>& stores, const std::vector<const Member*>& kept);

  void emit_column_body(const std::vector<const Member*>& reductions, const std::vector<const Member*>& stores,
                        const std::vector<const Member*>& kept);

  // ---- accumulators ----
  bool is_extremum(const Member& member) const;
  ExprId negated_for_minimum(const Member& member, ExprId value);
  DType accumulator_type(const Member& member) const;
  ExprId identity(const Member& member);
  ExprId combined(const Member& member, ExprId a, ExprId b);

  /// One element's contribution, in the accumulator's type.
  ExprId term(const Member& member);
  bool needs_finish(const Member& member) const;
  ExprId finished(const Member& member, ExprId accumulator);
  void start_accumulator(const Member& member);
  void start_partials(const std::vector<const Member*>& reductions);
  void finish_partials(const std::vector<const Member*>& reductions);
  void accumulate(VariableId variable, const Member& member);
  using ChainArrays = std::map<const Member*, ArrayId>;
  void start_chains(const std::vector<const Member*>& reductions, ChainArrays& arrays);
  void add_to_chain(const Member& member, ExprId chain);
  void join_parts(const std::vector<const Member*>& reductions);
  /// The tree over the chains.
  ExprId joined_chains(const Member& member);

  // ---- the launch ----
  Emitted finish();
  std::vector<AliasPair> alias_pairs() const;
  void estimate(Emitted& emitted) const;

  const graph::Program& program_;
  const std::set<graph::ValueId>& stored_;
  const LoopPlan plan_;
  const PassPlan passes_;
  const Group& group_;
  IrBuilder b_;
  Binder binder_;
  std::vector<ExprId> index_;       // per dimension: its index in the open loops
  std::vector<std::size_t> level_;  // per dimension: its loop's place, 0 for the item's dimensions
  std::size_t open_loops_ = 0, base_depth_ = 0;
  int pass_ = 0, time_ = 0, loop_stamp_ = 0;
  std::map<graph::ValueId, Known> known_;         // values at the present point
  std::map<graph::ValueId, Known> row_values_;    // kRows, kMap: values of the item
  std::map<graph::ValueId, ArrayId> row_arrays_;  // kColumns: the same, one per lane
  std::map<graph::ValueId, ArrayId> scratch_;
  std::map<std::tuple<graph::ValueId, std::int64_t, std::vector<std::int64_t>>, Loaded> loads_;
  std::map<const Member*, VariableId> accumulator_, partial_;
  ChainArrays totals_, parts_;  // of the present pass; parts_ is empty where the sums have one block
  std::vector<PendingStore> pending_;
  std::vector<Use> reads_, writes_;
};

}  // namespace crucible::kernel
