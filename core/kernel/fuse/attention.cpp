// Which units become an attention: see attention.hpp.
#include "core/kernel/fuse/attention.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <utility>

#include "core/graph/queries.hpp"

namespace crucible::kernel {
namespace {

using graph::kNone;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::Program;
using graph::ValueId;

using UnitId = std::uint32_t;

/// The units with what was joined so far.
class AttentionFuser {
 public:
  AttentionFuser(const Program& program, std::vector<Unit>& units, const Options& options)
      : program_(program),
        units_(units),
        options_(options),
        unit_of_(units_of_ops(program, units)),
        readers_(graph::readers(program)),
        kept_(program.values.size(), false),
        joined_(units.size()),
        successors_(units.size()) {
    for (const auto& state : program.states) kept_[state.end] = true;
    for (const auto& output : program.outputs) kept_[output.operand.value] = true;
    const graph::IdLists after = graph::dependences(program).after;
    for (UnitId u = 0; u < units.size(); ++u) {
      joined_[u] = {u};
      for (const OpId op : units[u].ops) {
        for (const OpId next : after[op]) {
          if (unit_of_[next] != u) successors_[u].push_back(unit_of_[next]);
        }
      }
      std::ranges::sort(successors_[u]);
      const auto twice = std::ranges::unique(successors_[u]);
      successors_[u].erase(twice.begin(), twice.end());
    }
  }

  std::vector<NotFused> run() {
    bool any = false;
    for (UnitId u = 0; u < units_.size(); ++u) {
      if (!units_[u].group.members.empty()) any |= try_group(u);
    }
    if (any) order();
    return std::move(refused_);
  }

 private:
  struct Form {
    std::vector<OpId> inner, outer;
    ScoreSizes sizes;
    std::vector<OpId> products() const {
      std::vector<OpId> all = inner;
      all.insert(all.end(), outer.begin(), outer.end());
      return all;
    }
  };

  bool try_group(UnitId u) {
    Form form;
    find_inner(u, form);
    if (form.inner.empty()) return false;
    find_outer(u, form);
    if (form.outer.empty()) return false;
    const Apart apart = judge(u, form);
    if (apart != Apart::kNot) {
      for (const OpId product : form.products()) refused_.push_back({product, units_[u].ops.front(), apart});
      return false;
    }
    join(u, form);
    return true;
  }

  bool is_alone(OpId op) const {
    const UnitId u = unit_of_[op];
    return u != kNone && units_[u].ops.size() == 1 && !units_[u].is_attention();
  }

  /// A product whose result nobody but the group reads.
  void find_inner(UnitId u, Form& form) const {
    for (const Member& member : units_[u].group.members) {
      for (const Access& input : member.inputs) {
        if (input.value == kNone || kept_[input.value]) continue;
        const OpId producer = program_.values[input.value].producer;
        if (producer == kNone || program_.ops[producer].kind != OpKind::kMatMul || !is_alone(producer)) continue;
        if (std::ranges::count(form.inner, producer) > 0) continue;
        const Op& op = program_.ops[producer];
        const auto sizes = score_sizes(op.outputs[0].view);
        if (!sizes || op.inputs[0].view.sizes.back() == 0) continue;
        if (!form.inner.empty() && !form.sizes.is_of(op.outputs[0].view)) continue;
        const auto outside = [&](OpId reader) { return unit_of_[reader] != u; };
        if (std::ranges::any_of(readers_[input.value], outside)) continue;
        if (std::ranges::any_of(op.inputs, [&](const auto& operand) { return is_made_in(u, operand.value); })) continue;
        if (form.inner.empty()) form.sizes = *sizes;
        form.inner.push_back(producer);
      }
    }
  }

  /// Products that read on their left what the group makes.
  void find_outer(UnitId u, Form& form) const {
    for (const Member& member : units_[u].group.members) {
      const ValueId made = member.output.value;
      if (member.over_rows) continue;
      for (const OpId reader : readers_[made]) {
        const Op& op = program_.ops[reader];
        if (op.kind != OpKind::kMatMul || !is_alone(reader) || op.inputs[0].value != made) continue;
        if (!form.sizes.is_of(op.inputs[0].view) || op.outputs[0].view.elements() == 0) continue;
        const ValueId right = op.inputs[1].value;
        const bool from_inner =
            std::ranges::any_of(form.inner, [&](OpId id) { return program_.ops[id].outputs[0].value == right; });
        if (is_made_in(u, right) || from_inner || std::ranges::count(form.outer, reader) > 0) continue;
        form.outer.push_back(reader);
      }
    }
  }

  bool is_made_in(UnitId u, ValueId value) const {
    const OpId producer = value == kNone ? kNone : program_.values[value].producer;
    return producer != kNone && unit_of_[producer] == u;
  }

  Apart judge(UnitId u, Form& form) {
    const DType type = compute_type(program_.values[program_.ops[form.inner[0]].outputs[0].value].dtype);
    const auto is_other = [&](OpId op) {
      return compute_type(program_.values[program_.ops[op].outputs[0].value].dtype) != type;
    };
    const auto products = form.products();
    // Heads are narrow, and there is a dimension of them or a softmax: else it is two layers with something between
    // them.
    const auto is_wide = [&](OpId op) { return width_of(form, op) > kWidestHead; };
    if (std::ranges::any_of(products, is_wide) || (form.sizes.batch.empty() && !units_[u].group.has_reduction()))
      return Apart::kOwnKind;
    if ((type != DType::kF32 && type != DType::kF64) || std::ranges::any_of(products, is_other)) return Apart::kShape;
    const std::set<ValueId> scratch = scratch_values(program_, form.inner, form.outer);
    if (std::ranges::any_of(scratch, [&](ValueId value) { return compute_type(program_.values[value].dtype) != type; }))
      return Apart::kShape;
    if (!plan_by_rows(units_[u].group, scratch, form.sizes)) return Apart::kShape;
    // What a path through a third unit reaches stays outside, so that the rest may be joined.
    std::vector<OpId> legal;
    std::ranges::copy_if(form.outer, std::back_inserter(legal), [&](OpId op) {
      return !returns(u, {form.inner, {op}, form.sizes});
    });
    if (legal.empty()) return Apart::kPath;
    form.outer = std::move(legal);
    if (returns(u, form)) return Apart::kPath;
    if (rows_that_fit(form.sizes, type, copies(form), options_.device) < kFewestRows) return Apart::kScratch;
    if (!moves_less(u, form, type)) return Apart::kNoGain;
    return is_for_library(form) ? Apart::kLibrary : Apart::kNot;
  }

  static constexpr std::int64_t kWidestHead = 512;
  /// Of the two sides of a product that are not keys or rows of scores: the width of a head.
  std::int64_t width_of(const Form& form, OpId op) const {
    const bool is_inner = std::ranges::count(form.inner, op) > 0;
    return is_inner ? program_.ops[op].inputs[0].view.sizes.back() : program_.ops[op].outputs[0].view.sizes.back();
  }

  /// The last place, of units as they were, from which a path may come back to this one: places grow along a path, but
  /// where it goes through what was joined of several.
  UnitId horizon(UnitId place) const {
    for (UnitId before = kNone; before != place;) {
      before = place;
      for (UnitId at = place + 1; at > 0; at &= at - 1) place = std::max(place, reach_[at]);
    }
    return place;
  }
  /// What is joined begins at the first place and ends at the last.
  void note_reach(UnitId first, UnitId last) {
    for (UnitId at = first + 1; at < reach_.size(); at += at & (~at + 1)) reach_[at] = std::max(reach_[at], last);
  }

  /// A path that leaves the units of the form and comes back.
  bool returns(UnitId u, const Form& form) {
    std::set<UnitId> inside{u};
    for (const OpId op : form.products()) inside.insert(unit_of_[op]);
    UnitId last = 0;
    for (const UnitId unit : inside) last = std::max(last, *std::ranges::max_element(joined_[unit]));
    last = horizon(last);
    std::vector<UnitId> stack;
    ++visit_;
    const auto push = [&](UnitId from) {
      for (const UnitId part : joined_[from]) {
        for (const UnitId next : successors_[part]) {
          if (next > last) continue;
          const UnitId now = unit_of_[units_now_[next]];
          if (inside.contains(from) && inside.contains(now)) continue;
          if (now == from || visited_[now] == visit_) continue;
          visited_[now] = visit_;
          stack.push_back(now);
        }
      }
    };
    for (const UnitId unit : inside) push(unit);
    while (!stack.empty()) {
      const UnitId at = stack.back();
      stack.pop_back();
      if (inside.contains(at)) return true;
      push(at);
    }
    return false;
  }

  /// How many values of the size of scores wait at once: results mostly lie where operands did.
  static std::int64_t copies(const Form& form) {
    return static_cast<std::int64_t>(std::max(form.inner.size(), form.outer.size()));
  }

  std::int64_t bytes(ValueId value) const {
    return program_.values[value].elements * size_bytes(program_.values[value].dtype);
  }

  /// Bytes of scores and what is made of them that need not be written and read; against the right operands, which each
  /// work item reads anew: these come from a cache, which counts a quarter.
  bool moves_less(UnitId u, const Form& form, DType type) const {
    const std::set<ValueId> scratch = scratch_values(program_, form.inner, form.outer);
    std::int64_t saved = 0;
    for (const ValueId value : scratch) {
      const auto is_inside = [&](OpId op) { return unit_of_[op] == u || std::ranges::count(form.outer, op) > 0; };
      const bool leaves = kept_[value] || !std::ranges::all_of(readers_[value], is_inside);
      saved += (leaves ? 1 : 2) * bytes(value);
    }
    constexpr std::int64_t kCached = 4, kUsualRows = 384,
                           kMostRows = 96;  // rows of an item, of a product alone and here
    const std::int64_t fit = rows_that_fit(form.sizes, type, copies(form), options_.device);
    const std::int64_t rows = std::min({fit, kMostRows, form.sizes.rows});
    const std::int64_t again = (form.sizes.rows + rows - 1) / rows - (form.sizes.rows + kUsualRows - 1) / kUsualRows;
    std::int64_t read_again = 0;
    for (const OpId op : form.products())
      read_again +=
          std::max<std::int64_t>(again, 0) * program_.ops[op].inputs[1].view.elements() * size_bytes(type) / kCached;
    return saved > read_again;
  }

  /// A library takes every product, and the scores are few: its products are faster by more than small scores cost.
  bool is_for_library(const Form& form) const {
    if (!options_.claims || options_.numerics == Numerics::kStrict) return false;
    const auto products = form.products();
    const bool all = std::ranges::all_of(products, [&](OpId op) {
      const auto call = library_call_of(program_, program_.ops[op]);
      return call && options_.claims(*call);
    });
    return all &&
           form.sizes.elements() * size_bytes(program_.values[program_.ops[form.inner[0]].outputs[0].value].dtype) <
               kLibraryScores;
  }
  static constexpr std::int64_t kLibraryScores = std::int64_t{32} << 20;  // bytes, measured: docs/kernels.md

  void join(UnitId u, const Form& form) {
    Unit& unit = units_[u];
    unit.inner = form.inner;
    unit.outer = form.outer;
    for (const OpId op : form.products()) {
      const UnitId other = unit_of_[op];
      unit.ops.push_back(op);
      joined_[u].push_back(other);
      unit_of_[op] = u;
      units_[other] = {};
      joined_[other].clear();
    }
    std::ranges::sort(unit.ops);
    const auto [first, last] = std::ranges::minmax(joined_[u]);
    note_reach(first, last);
  }

  /// As Fuser::ordered() in fusion.cpp: among units that are ready, the one whose last op comes first.
  void order() {
    std::vector<std::set<UnitId>> next(units_.size());
    std::vector<std::uint32_t> waits(units_.size(), 0);
    for (UnitId u = 0; u < units_.size(); ++u) {
      for (const UnitId part : joined_[u]) {
        for (const UnitId later : successors_[part]) {
          const UnitId now = unit_of_[units_now_[later]];
          if (now != u && next[u].insert(now).second) ++waits[now];
        }
      }
    }
    using Ready = std::pair<OpId, UnitId>;
    std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
    for (UnitId u = 0; u < units_.size(); ++u) {
      if (!units_[u].ops.empty() && waits[u] == 0) ready.emplace(units_[u].ops.back(), u);
    }
    std::vector<Unit> result;
    while (!ready.empty()) {
      const UnitId u = ready.top().second;
      ready.pop();
      for (const UnitId later : next[u]) {
        if (--waits[later] == 0) ready.emplace(units_[later].ops.back(), later);
      }
      result.push_back(std::move(units_[u]));
    }
    units_ = std::move(result);
  }

  const Program& program_;
  std::vector<Unit>& units_;
  const Options& options_;
  std::vector<std::uint32_t> unit_of_;  // per op, with what was joined
  const graph::IdLists readers_;
  std::vector<bool> kept_;                       // per value: the user sees it
  std::vector<std::vector<UnitId>> joined_;      // per unit: the units that it was made of
  std::vector<std::vector<UnitId>> successors_;  // per unit as it was
  std::vector<OpId> units_now_ = first_ops();    // per unit as it was: an op of it
  std::vector<UnitId> reach_ = std::vector<UnitId>(
      units_.size() + 1, 0);  // Fenwick: per place, the last one of what is joined and begins there or before
  std::vector<std::uint32_t> visited_ = std::vector<std::uint32_t>(units_.size(), 0);  // per unit, by the walk visit_
  std::uint32_t visit_ = 0;
  std::vector<NotFused> refused_;

  std::vector<OpId> first_ops() const {
    std::vector<OpId> ops;
    for (const Unit& unit : units_) ops.push_back(unit.ops.front());
    return ops;
  }
};

/// These dimensions, outermost first, are row-major and begin at a stride of `unit`.
bool is_dense(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides,
              const std::vector<std::size_t>& dims, std::int64_t unit) {
  for (std::size_t i = dims.size(); i-- > 0;) {
    if (strides[dims[i]] != unit) return false;
    unit *= sizes[dims[i]];
  }
  return true;
}

/// Every member goes through the values in scratch by these strides, from the beginning.
bool all_walk(const Group& group, const std::set<ValueId>& scratch, const std::vector<std::int64_t>& strides) {
  const auto differs = [&](const Access& access) {
    if (!scratch.contains(access.value)) return false;
    Access same = access;
    same.strides = strides;
    return access.offset != 0 || !same_access(access, same, group.sizes);
  };
  return std::ranges::none_of(group.members, [&](const Member& member) {
    const bool looks_up = member.lookup != Lookup::kNone && scratch.contains(member.inputs[0].value);
    return looks_up || differs(member.output) || std::ranges::any_of(member.inputs, differs);
  });
}

}  // namespace

std::int64_t ScoreSizes::batches() const {
  std::int64_t count = 1;
  for (const auto size : batch) count *= size;
  return count;
}

bool ScoreSizes::is_of(const graph::View& view) const {
  const auto other = score_sizes(view);
  return other && other->rows == rows && other->keys == keys && other->batches() == batches();
}

std::optional<ScoreSizes> score_sizes(const graph::View& view) {
  const std::size_t rank = view.sizes.size();
  if (rank < 2 || view.offset != 0 || !view.is_contiguous() || view.elements() == 0) return std::nullopt;
  ScoreSizes sizes;
  sizes.batch.assign(view.sizes.begin(), view.sizes.end() - 2);
  sizes.rows = view.sizes[rank - 2];
  sizes.keys = view.sizes[rank - 1];
  if (sizes.keys < 2) return std::nullopt;
  return sizes;
}

std::set<ValueId> scratch_values(const Program& program, const std::vector<OpId>& inner,
                                 const std::vector<OpId>& outer) {
  std::set<ValueId> values;
  for (const OpId op : inner) values.insert(program.ops[op].outputs[0].value);
  for (const OpId op : outer) values.insert(program.ops[op].inputs[0].value);
  return values;
}

std::optional<LoopPlan> plan_by_rows(const Group& group, const std::set<ValueId>& scratch, const ScoreSizes& sizes) {
  LoopPlan plan;
  if (group.has_reduction()) {
    plan = plan_loops(group);
    if (plan.form != LoopForm::kRows) return std::nullopt;
  } else {
    plan.form = LoopForm::kMap;
    plan.group = group;
    collapse_dimensions(plan.group);
  }
  Group& planned = plan.group;
  if (planned.elements() != sizes.elements()) return std::nullopt;
  const auto strides_of_scores = [&]() -> const std::vector<std::int64_t>* {
    for (const Member& member : planned.members) {
      if (scratch.contains(member.output.value)) return &member.output.strides;
      const auto input =
          std::ranges::find_if(member.inputs, [&](const Access& access) { return scratch.contains(access.value); });
      if (input != member.inputs.end()) return &input->strides;
    }
    return nullptr;
  };
  const std::vector<std::int64_t>* strides = strides_of_scores();
  if (strides == nullptr) return std::nullopt;
  if (plan.form == LoopForm::kMap) {  // a dimension that runs on over rows
    for (std::size_t d = 0; d < planned.sizes.size(); ++d) {
      const std::int64_t stride = (*strides)[d];
      if (stride == 0 || stride >= sizes.keys || stride * planned.sizes[d] <= sizes.keys) continue;
      const std::int64_t places = sizes.keys / stride;
      if (sizes.keys % stride != 0 || planned.sizes[d] % places != 0) return std::nullopt;
      split_dimension(planned, d, {planned.sizes[d] / places, places});
      strides = strides_of_scores();
    }
  }
  std::vector<std::size_t> rows, places;
  for (std::size_t d = 0; d < planned.sizes.size(); ++d) ((*strides)[d] >= sizes.keys ? rows : places).push_back(d);
  const auto farther = [&](std::size_t a, std::size_t b) { return (*strides)[a] > (*strides)[b]; };
  std::ranges::sort(rows, farther);
  std::ranges::sort(places, farther);
  if (!is_dense(planned.sizes, *strides, places, 1) || !is_dense(planned.sizes, *strides, rows, sizes.keys))
    return std::nullopt;
  std::int64_t row_length = 1;
  for (const std::size_t d : places) row_length *= planned.sizes[d];
  if (row_length != sizes.keys) return std::nullopt;
  if (!all_walk(planned, scratch, *strides)) return std::nullopt;
  if (plan.form == LoopForm::kMap) {
    plan.loops = places;
  } else if (std::set(plan.loops.begin(), plan.loops.end()) != std::set(places.begin(), places.end())) {
    return std::nullopt;
  }
  plan.grid = std::move(rows);
  return plan;
}

std::int64_t score_pitch(std::int64_t keys, DType type) {
  const std::int64_t line = 64 / static_cast<std::int64_t>(size_bytes(type));
  return (keys + line - 1) / line * line + line;
}

std::int64_t most_scratch_bytes(const DeviceShape& device) {
  constexpr int kManyWorkers = 512;
  if (device.lanes > 1) return 0;  // threads in step have no cache of their own: scores are better off in memory
  return (device.workers > kManyWorkers ? 64 : 1024) * std::int64_t{1024};
}

std::int64_t rows_that_fit(const ScoreSizes& sizes, DType type, std::int64_t copies, const DeviceShape& device) {
  return most_scratch_bytes(device) / (score_pitch(sizes.keys, type) * static_cast<std::int64_t>(size_bytes(type)) *
                                       std::max<std::int64_t>(copies, 1));
}

std::vector<NotFused> fuse_attention(const Program& program, std::vector<Unit>& units, const Options& options) {
  return AttentionFuser(program, units, options).run();
}

}  // namespace crucible::kernel
